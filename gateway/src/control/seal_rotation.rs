//! Replaces the key that encrypts the secrets of upstreams.
//!
//! Invariant: at every step, the source of the key has each key that a stored secret needs, so a crash loses none. An
//! interrupted rotation is continued by the next call.

use std::sync::Arc;

use super::access::Permission;
use super::{Caller, Control, ControlError};
use crate::directory::Catalogue;
use crate::secrets::seal::{SealKeys, Sealer, UnsealError};
use domain::audit::AuditAction;
use domain::upstream::{CredentialSource, ProxyChoice, Upstream};
use store::{CatalogueUpdate, StoreError};

/// What a rotation has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealRotation {
    /// The number of secrets that were encrypted with the new key.
    pub resealed: u32,
    /// What the source of the key is.
    pub source: String,
    /// Whether the former key was removed from the source.
    pub former_removed: bool,
}

impl Control {
    /// Encrypts all stored secrets with a new key, and removes the former one from the data directory.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] for members, [`ControlError::InUse`] if other gateways use the database,
    /// [`ControlError::Configuration`] if the key cannot be read or written, the source has no new one, or a secret
    /// cannot be decrypted. The secrets can be read in each case.
    pub async fn rotate_seal_key(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<SealRotation, ControlError> {
        caller.require(Permission::RotateSealKey)?;
        self.write(Some(caller), move |control| async move {
            control.ensure_only_node().await?;
            let (sealer, source) = (control.credentials.sealer(), &control.seal_key);
            let former = sealer.fingerprint();
            let begun = source.begin_rotation(&control.data_dir, &former, &control.entropy).await;
            let keys = begun.map_err(|error| ControlError::Configuration(error.to_string()))?;
            let new = keys.fingerprint();
            let replaced = control.store.replace_seal_fingerprint(&former, &new).await;
            replaced.map_err(|error| match error {
                StoreError::Conflict(text) => ControlError::InUse(text),
                error => error.into(),
            })?;
            let mut catalogue = Catalogue::clone(&control.directory.catalogue());
            let mut resealed = 0;
            let mut update = CatalogueUpdate::default();
            for upstream in catalogue.upstreams.values_mut() {
                let (changed, count) = reseal(upstream, sealer, &keys).map_err(|_| unreadable(upstream))?;
                if count > 0 {
                    resealed += count;
                    *upstream = Arc::new(changed.clone());
                    update.upstreams.push(changed);
                }
            }
            let plural = if resealed == 1 { "" } else { "s" };
            let details = format!("{resealed} secret{plural} sealed with a new key");
            let audit = control.audit_entry(AuditAction::SealRotate, "seal key", None, details);
            control.store.update_catalogue(&update, &[audit]).await?;
            // Opens the former secrets, too, which requests may be resolving.
            sealer.set_keys(keys.clone());
            control.refresh_credentials(catalogue.upstreams.values()).await;
            control.directory.set_catalogue(catalogue);
            control.drop_old_credentials();
            let source_name = source.describe(&control.data_dir);
            let former_removed = source.end_rotation(&control.data_dir).map_err(|error| {
                ControlError::Configuration(format!(
                    "all secrets have the new key, but the former one could not be removed from {source_name}: \
                     {error}; try again"
                ))
            })?;
            if former_removed {
                sealer.set_keys(keys.without_former());
            }
            tracing::info!(resealed, former_removed, "rotated the key of stored secrets");
            Ok(SealRotation { resealed, source: source_name, former_removed })
        })
        .await
    }

    /// Refuses if other gateways use the database: they could not read secrets of the new key.
    async fn ensure_only_node(&self) -> Result<(), ControlError> {
        if self.allocations.is_none() {
            return Ok(());
        }
        let nodes = self.store.nodes().await?;
        if nodes.len() > 1 {
            let names: Vec<_> = nodes.iter().map(|node| format!("`{}`", node.name)).collect();
            return Err(ControlError::InUse(format!(
                "the gateways {} use the database, and each reads the key only when it starts: stop the others, remove \
                 them with `ctl node remove`, rotate the key, and add them again with it",
                names.join(", ")
            )));
        }
        Ok(())
    }
}

fn unreadable(upstream: &Upstream) -> ControlError {
    let name = &upstream.name;
    ControlError::Configuration(format!(
        "a stored secret of upstream `{name}` does not open with the key in use; set it again with `ctl upstream update \
         {name}`, or remove it, and try again"
    ))
}

/// Returns `upstream` with its secrets encrypted with the first of `keys`, and their number.
fn reseal(
    upstream: &Upstream,
    sealer: &Sealer,
    keys: &SealKeys,
) -> Result<(Upstream, u32), UnsealError> {
    let mut changed = upstream.clone();
    let mut count = 0;
    let mut reseal = |sealed: &mut Vec<u8>| {
        *sealed = sealer.reseal(sealed, keys)?;
        count += 1;
        Ok(())
    };
    let login = match &mut changed.proxy {
        ProxyChoice::Configured(proxy) => proxy.login.as_mut(),
        _ => None,
    };
    let sources = changed.credentials.iter_mut().chain(login.map(|login| &mut login.password));
    for source in sources {
        if let CredentialSource::Sealed(sealed) = source {
            reseal(sealed)?;
        }
    }
    if let Some(certificate) = &mut changed.client_certificate {
        reseal(&mut certificate.sealed_key)?;
    }
    Ok((changed, count))
}
