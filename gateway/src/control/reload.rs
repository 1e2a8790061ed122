//! Reads the settings, the certificate and the credentials of upstreams again while the gateway runs.

use std::sync::Arc;

use super::access::Permission;
use super::{Caller, Control, ControlError, Registration};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::UpstreamName;
use domain::money::Nanos;

/// Reads the settings as they are now, validates them, and compares them with those in use. May block.
pub type SettingsReader = Arc<dyn Fn() -> anyhow::Result<CurrentSettings> + Send + Sync>;

/// The settings as they are now.
pub struct CurrentSettings {
    /// The registration mode.
    pub registration: Registration,
    /// The registrations per hour from one client address; zero means no limit.
    pub registrations_per_hour: u32,
    /// The maximum trial credit per day over all new accounts.
    pub trial_daily: Nanos,
    /// The names of the settings that were changed and apply now.
    pub applied: Vec<String>,
    /// The names of the settings that were changed, but can only apply with the next start.
    pub need_restart: Vec<String>,
    /// Makes these the settings in use, and applies those that do not concern the control plane. Must not block.
    pub commit: Box<dyn FnOnce() + Send>,
}

/// What a reload has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Whether new connections get another certificate, or other authorities of client certificates apply.
    pub certificate_changed: bool,
    /// The upstreams whose credentials are others than before.
    pub rotated: Vec<UpstreamName>,
    /// The settings that were changed and apply now.
    pub applied: Vec<String>,
    /// The settings that differ from those in use, which change with the next start.
    pub need_restart: Vec<String>,
}

impl Reloaded {
    /// Returns the details of the audit entry.
    fn describe(&self, is_by_signal: bool) -> String {
        let list = |names: &[String]| {
            names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
        };
        let rotated: Vec<_> = self.rotated.iter().map(ToString::to_string).collect();
        let parts = [
            is_by_signal.then(|| "by SIGHUP".to_owned()),
            (!self.applied.is_empty()).then(|| format!("changed {}", list(&self.applied))),
            self.certificate_changed.then(|| "another certificate".to_owned()),
            (!rotated.is_empty()).then(|| format!("other credentials of {}", list(&rotated))),
            (!self.need_restart.is_empty())
                .then(|| format!("{} need a restart", list(&self.need_restart))),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        let has_changes = parts.len() > usize::from(is_by_signal);
        if has_changes {
            parts.join("; ")
        } else {
            [parts, vec!["nothing changed".to_owned()]].concat().join("; ")
        }
    }
}

impl Control {
    /// Does what [`reload_files`](Self::reload_files) does, for an operator.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, and those of [`reload_files`](Self::reload_files).
    pub async fn reload(&self, caller: &Caller) -> Result<Reloaded, ControlError> {
        caller.require(Permission::ReloadFiles)?;
        self.reload_files(Some(caller)).await
    }

    /// Validates the settings as they are now, applies those that need no restart, uses a new certificate for new connections, and resolves the
    /// credentials of upstreams again. The audit log gets the names of what changed, never values. `caller` is
    /// `None` for SIGHUP.
    ///
    /// # Errors
    /// [`ControlError::Configuration`] if a setting or the certificate is invalid, and nothing has changed; or if
    /// an upstream can no longer be used because its credential cannot be read.
    pub async fn reload_files(&self, caller: Option<&Caller>) -> Result<Reloaded, ControlError> {
        let _no_other_change = self.write_lock.lock().await;
        let (read_settings, tls) = (self.read_settings.clone(), self.tls.clone());
        let read = move || {
            let settings = read_settings.map(|read| read()).transpose()?;
            let certificate_changed = tls.map_or(Ok(false), |tls| tls.reload())?;
            anyhow::Ok((certificate_changed, settings))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read =
            read.map_err(|_| ControlError::Busy("the gateway is shutting down".to_owned()))?;
        let (certificate_changed, settings) =
            read.map_err(|error| ControlError::Configuration(format!("{error:#}")))?;
        let (applied, need_restart) =
            settings.map_or_else(Default::default, |settings| self.apply(settings));
        let changed = self.refresh_credentials([]).await;
        let rotated = changed.iter().map(|upstream| upstream.name.clone()).collect();
        let reloaded = Reloaded { certificate_changed, rotated, applied, need_restart };
        self.record_reload(caller, &reloaded).await;
        for upstream in &changed {
            if let Some(problem) = self.credentials.unusable(upstream) {
                let name = &upstream.name;
                return Err(ControlError::Configuration(format!(
                    "upstream `{name}` cannot be used any more: {problem}; the rest was reloaded"
                )));
            }
        }
        tracing::info!(
            event = "reloaded",
            certificate_changed,
            rotated = ?reloaded.rotated.iter().map(UpstreamName::as_str).collect::<Vec<_>>(),
            applied = ?reloaded.applied,
            need_restart = ?reloaded.need_restart,
            "read the settings, certificates and credentials again"
        );
        Ok(reloaded)
    }

    /// Adds an entry to the audit log. If that fails, the reload has happened nevertheless.
    async fn record_reload(&self, caller: Option<&Caller>, reloaded: &Reloaded) {
        let entry = AuditEntry {
            at: self.clock.now(),
            actor: caller.map(Caller::id),
            address: caller.map(|caller| caller.address),
            action: AuditAction::GatewayReload,
            object: "settings".to_owned(),
            account: None,
            details: reloaded.describe(caller.is_none()),
            call: None,
        };
        if let Err(error) = self.store.add_audit(&entry).await {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "cannot write an entry of the audit log");
        }
    }

    /// Applies the settings that need no restart. Returns the names of the changed ones, and of those that need one.
    fn apply(&self, settings: CurrentSettings) -> (Vec<String>, Vec<String>) {
        self.registration.store(Arc::new(settings.registration));
        self.registration_limiter.set_limit(settings.registrations_per_hour);
        self.trial_daily.store(Arc::new(settings.trial_daily));
        (settings.commit)();
        (settings.applied, settings.need_restart)
    }
}
