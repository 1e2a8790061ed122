//! The operator token: rotation, disabling and enabling.
//!
//! The store has its state, which each call with the token reads, so that a change takes effect at once on
//! all gateways. A new token is written beside the file of the old one before its digest is stored, and takes the place
//! of the file afterwards; a start completes what a crash interrupted. Invariant: while the token is
//! disabled, an account with a password is an owner.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;

use super::access::Permission;
use super::bootstrap::TOKEN_FILE;
use super::change::{ChangeContext, ReplayExt};
use super::{Caller, Control, ControlError, token};
use crate::clock::Clock;
use crate::secrets::file;
use domain::account::{Account, OPERATOR, OperatorToken};
use domain::audit::{AuditAction, AuditEntry};
use store::{Store, StoreError};

impl Control {
    /// Replaces the operator token by a new one in the data directory of this gateway. Returns the path
    /// of its file. The old token is refused from now on, by all gateways of the database.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] unless the caller is an owner, [`ControlError::Configuration`] if the
    /// file cannot be written.
    pub async fn rotate_operator_token(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<PathBuf, ControlError> {
        caller.require(Permission::ManageOperatorToken)?;
        let token = token::make(token::OPERATOR, &*self.entropy);
        let path = self.data_dir.join(TOKEN_FILE);
        let written = path.clone();
        let rotated = self.write(Some(caller), move |control| async move {
            let unwritable = |error: io::Error| {
                let path = written.display();
                ControlError::Configuration(format!("`{path}` cannot be replaced: {error}"))
            };
            let (dir, digest) = (control.data_dir.clone(), token::digest(&token));
            in_files(move || file::write_replacement(&dir, TOKEN_FILE, &token))
                .await
                .map_err(unwritable)?;
            let state = control.store.operator_token().await?;
            let state = OperatorToken { digest: Some(digest), ..state };
            control.put_operator_token(AuditAction::OperatorTokenRotate, state).await?;
            let dir = control.data_dir.clone();
            in_files(move || file::commit_replacement(&dir, TOKEN_FILE)).await.map_err(|error| {
                let (path, new) = (written.display(), format!("{TOKEN_FILE}.new"));
                ControlError::Configuration(format!(
                    "the token was replaced, but `{path}` cannot be: {error}; the new token is in `{new}` \
                     beside it, and the next start puts it in its place"
                ))
            })
        });
        rotated.await.or_replay(|_| Ok(()))?;
        Ok(path)
    }

    /// Refuses the operator token from now on. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] unless the caller is an owner, [`ControlError::InUse`] if no account with
    /// a password is a usable owner.
    pub async fn disable_operator_token(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<PathBuf, ControlError> {
        caller.require(Permission::ManageOperatorToken)?;
        let disabled = self.write(Some(caller), |control| async move {
            let state = control.store.operator_token().await?;
            if !state.is_enabled {
                return Ok(());
            }
            control.ensure_other_owner(&*control.built_in_account()?).await?;
            let state = OperatorToken { is_enabled: false, ..state };
            control.put_operator_token(AuditAction::OperatorTokenDisable, state).await
        });
        disabled.await.or_replay(|_| Ok(()))?;
        Ok(self.data_dir.join(TOKEN_FILE))
    }

    /// Accepts the operator token again. Idempotent.
    ///
    /// # Errors
    /// [`ControlError::Forbidden`] unless the caller is an owner.
    pub async fn enable_operator_token(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<PathBuf, ControlError> {
        caller.require(Permission::ManageOperatorToken)?;
        let enabled = self.write(Some(caller), |control| async move {
            let state = control.store.operator_token().await?;
            if state.is_enabled {
                return Ok(());
            }
            let state = OperatorToken { is_enabled: true, ..state };
            control.put_operator_token(AuditAction::OperatorTokenEnable, state).await
        });
        enabled.await.or_replay(|_| Ok(()))?;
        Ok(self.data_dir.join(TOKEN_FILE))
    }

    /// Returns the built-in account if `digest` is that of the accepted operator token.
    ///
    /// # Errors
    /// [`ControlError::Unauthenticated`] if it is disabled.
    pub(super) async fn account_of_operator_token(
        &self,
        digest: [u8; 32],
    ) -> Result<Option<Arc<Account>>, ControlError> {
        let state = self.store.operator_token().await?;
        // Comparing digests needs no constant time: an attacker cannot choose a digest's preimage.
        if digest != state.digest.unwrap_or(self.operator_token) {
            return Ok(None);
        }
        if !state.is_enabled {
            return Err(ControlError::Unauthenticated(
                "the operator token is disabled; sign in as an owner with `ctl login NAME`, or enable it with \
                 `gateway operator-token enable` on the host of the stopped gateway"
                    .into(),
            ));
        }
        Ok(self.directory.find_account_named(OPERATOR))
    }

    fn built_in_account(&self) -> Result<Arc<Account>, ControlError> {
        let found = self.directory.find_account_named(OPERATOR);
        found.ok_or_else(|| ControlError::missing("account", OPERATOR))
    }
}

impl ChangeContext {
    async fn put_operator_token(
        &self,
        action: AuditAction,
        token: OperatorToken,
    ) -> Result<(), ControlError> {
        let account = self.built_in_account()?;
        let audit = self.audit_entry(action, &account.name, Some(account.id), "");
        Ok(self.store.set_operator_token(&token, account.id, &audit).await?)
    }
}

/// Has the store accept the token in the data directory `dir` of a stopped gateway. Returns its path.
///
/// # Errors
/// No gateway has run on the directory and the store, the file cannot be read, or the store fails.
pub async fn enable_offline(
    dir: &Path,
    store: &dyn Store,
    clock: &dyn Clock,
) -> anyhow::Result<PathBuf> {
    let path = dir.join(TOKEN_FILE);
    finish_rotation(dir, store).await??;
    let text = std::fs::read_to_string(&path)?;
    let token = SecretString::from(text.trim());
    anyhow::ensure!(
        token::is_whole(&token),
        "`{}` holds no token; copy the file of another gateway, or delete it and start the gateway",
        path.display()
    );
    let digest = Some(token::digest(&token));
    loop {
        let snapshot = store.load().await?;
        store.mark_applied(snapshot.changes);
        let account = snapshot.accounts.into_iter().find(Account::is_built_in);
        let account =
            account.ok_or_else(|| anyhow::anyhow!("no gateway has run with this store"))?;
        let audit = AuditEntry {
            at: clock.now(),
            actor: None,
            address: None,
            action: AuditAction::OperatorTokenEnable,
            object: account.name,
            account: Some(account.id),
            details: "on the host of the gateway".to_owned(),
            call: None,
        };
        let token = OperatorToken { is_enabled: true, digest };
        match store.set_operator_token(&token, account.id, &audit).await {
            // Another gateway made a change at the same time.
            Err(StoreError::Stale) => {}
            outcome => return Ok(outcome.map(|()| path)?),
        }
    }
}

/// Completes a rotation that a crash interrupted after the store had the new token, and undoes one that
/// it interrupted before.
pub(super) async fn finish_rotation(
    dir: &Path,
    store: &dyn Store,
) -> Result<io::Result<()>, StoreError> {
    let new = match file::read_replacement(dir, TOKEN_FILE) {
        Ok(Some(new)) => new,
        Ok(None) => return Ok(Ok(())),
        Err(error) => return Ok(Err(error)),
    };
    let is_stored = store.operator_token().await?.digest == Some(token::digest(&new));
    let finish = if is_stored { file::commit_replacement } else { file::remove_replacement };
    Ok(finish(dir, TOKEN_FILE))
}

/// Runs `work` on the threads for blocking calls.
async fn in_files(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
