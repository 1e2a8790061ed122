//! Reads the settings, the certificate and the credentials of upstreams again while the gateway runs.

use super::access::Permission;
use super::{Caller, Control, ControlError};
use domain::id::UpstreamName;

/// What a reload has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Whether new connections get another certificate, or other authorities of client certificates apply.
    pub certificate_changed: bool,
    /// The upstreams whose credentials are others than before.
    pub rotated: Vec<UpstreamName>,
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

    /// Validates the settings as they are now, uses a new certificate for new connections, and resolves the
    /// credentials of upstreams again.
    ///
    /// # Errors
    /// [`ControlError::Configuration`] if a setting or the certificate is invalid, and nothing has changed; or if
    /// an upstream can no longer be used because its credential cannot be read.
    pub async fn reload_files(&self) -> Result<Reloaded, ControlError> {
        let _no_other_change = self.write_lock.lock().await;
        let (start, tls) = (self.start_settings.clone(), self.tls.clone());
        let read = move || {
            let need_restart = start.map_or(Ok(Vec::new()), |start| start.changes())?;
            let certificate_changed = tls.map_or(Ok(false), |tls| tls.reload())?;
            anyhow::Ok((certificate_changed, need_restart))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let read =
            read.map_err(|_| ControlError::Busy("the gateway is shutting down".to_owned()))?;
        let (certificate_changed, need_restart) =
            read.map_err(|error| ControlError::Configuration(format!("{error:#}")))?;
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
            ?need_restart,
            "read the settings, certificates and credentials again"
        );
        Ok(Reloaded { certificate_changed, rotated, need_restart })
    }
}
