//! Reads the settings, the certificate and the credentials of upstreams again while the gateway runs.

use std::sync::Arc;

use super::access::Permission;
use super::{Caller, Control, ControlError};
use crate::config::RereadSettings;
use domain::id::UpstreamName;

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

impl Control {
    /// Does what [`reload_files`](Self::reload_files) does, for an operator.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, and those of [`reload_files`](Self::reload_files).
    pub async fn reload(&self, caller: &Caller) -> Result<Reloaded, ControlError> {
        caller.require(Permission::ReloadFiles)?;
        self.reload_files().await
    }

    /// Validates the settings as they are now, applies those that need no restart, uses a new certificate for new connections, and resolves the
    /// credentials of upstreams again.
    ///
    /// # Errors
    /// [`ControlError::Configuration`] if a setting or the certificate is invalid, and nothing has changed; or if
    /// an upstream can no longer be used because its credential cannot be read.
    pub async fn reload_files(&self) -> Result<Reloaded, ControlError> {
        let _no_other_change = self.write_lock.lock().await;
        let (in_use, tls) = (self.settings_in_use.load_full(), self.tls.clone());
        let read = move || {
            let reread = in_use.map(|settings| settings.read_again()).transpose()?;
            let certificate_changed = tls.map_or(Ok(false), |tls| tls.reload())?;
            anyhow::Ok((certificate_changed, reread))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read =
            read.map_err(|_| ControlError::Busy("the gateway is shutting down".to_owned()))?;
        let (certificate_changed, reread) =
            read.map_err(|error| ControlError::Configuration(format!("{error:#}")))?;
        let (applied, need_restart) =
            reread.map_or_else(Default::default, |reread| self.apply(reread));
        let rotated = self.refresh_credentials([]).await;
        for upstream in &rotated {
            if let Some(problem) = self.credentials.unusable(upstream) {
                let name = &upstream.name;
                return Err(ControlError::Configuration(format!(
                    "upstream `{name}` cannot be used any more: {problem}; the rest was reloaded"
                )));
            }
        }
        let rotated: Vec<_> = rotated.iter().map(|upstream| upstream.name.clone()).collect();
        tracing::info!(
            event = "reloaded",
            certificate_changed,
            rotated = ?rotated.iter().map(UpstreamName::as_str).collect::<Vec<_>>(),
            ?applied,
            ?need_restart,
            "read the settings, certificates and credentials again"
        );
        Ok(Reloaded { certificate_changed, rotated, applied, need_restart })
    }

    /// Applies the settings that need no restart. Returns the names of the changed ones, and of those that need one.
    fn apply(&self, reread: RereadSettings) -> (Vec<String>, Vec<String>) {
        let RereadSettings { live, changed, need_restart, in_use } = reread;
        self.registration.store(Arc::new(live.registration));
        self.registration_limiter.set_limit(live.registrations_per_hour);
        self.trial_daily.store(Arc::new(live.trial_daily));
        (self.apply_settings)(&live);
        self.settings_in_use.store(Some(Arc::new(in_use)));
        (changed, need_restart)
    }
}
