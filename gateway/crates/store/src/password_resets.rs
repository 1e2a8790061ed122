//! Codes with which the owners of accounts set new passwords.

use async_trait::async_trait;

use super::StoreError;
use domain::account::PasswordReset;
use domain::audit::AuditEntry;

/// The codes, at most one for each account. A change of the password by
/// [`Identities::set_password`](super::Identities::set_password), and the end of an account, delete its
/// code.
#[async_trait]
pub trait PasswordResets: Send + Sync {
    /// Adds a code, which replaces an earlier one for the account, and deletes all that expired before
    /// its `created_at`. [`StoreError::NotFound`] if there is no such account.
    async fn add_password_reset(
        &self,
        reset: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Returns a code by its digest, even if it has expired.
    async fn find_password_reset(
        &self,
        digest: [u8; 32],
    ) -> Result<Option<PasswordReset>, StoreError>;
    /// Replaces the password hash of the account that the code with `digest` is for, and deletes the
    /// code and all sessions of the account. [`StoreError::NotFound`] if there is no such code.
    async fn use_password_reset(
        &self,
        digest: [u8; 32],
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}
