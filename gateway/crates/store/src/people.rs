//! The people of accounts.

use async_trait::async_trait;

use super::StoreError;
use domain::account::{Account, PasswordReset, Session};
use domain::audit::AuditEntry;
use domain::id::AccountId;
use domain::person::Person;

/// A session with the account that it acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSession {
    /// The session.
    pub session: Session,
    /// The account.
    pub account: Account,
    /// The person that signed in; `None` for the owner of the account.
    pub person: Option<Person>,
}

/// Adds and removes people. Sessions, passwords and password resets of a person are those of its id: the methods
/// of the other traits take it like that of an account. The end of an account ends the access of its
/// people, and its deletion replaces their names by pseudonyms.
#[async_trait]
pub trait People: Send + Sync {
    /// Returns the people of an account by their time of creation, removed ones included.
    async fn people(&self, account: AccountId) -> Result<Vec<Person>, StoreError>;
    /// Adds a person, with the code that sets its first password. [`StoreError::Conflict`] if the name is
    /// that of an account or another person (compared without case), [`StoreError::NotFound`] if there is no such
    /// account.
    async fn add_person(
        &self,
        person: &Person,
        password_hash: &str,
        code: &PasswordReset,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
    /// Replaces the role of a person by that of `person`, and deletes the codes that it created. Its own code stays valid:
    /// that of an invitation is the only way in. [`StoreError::NotFound`] if there is no such person, or it was removed.
    async fn set_person_role(&self, person: &Person, audit: &AuditEntry) -> Result<(), StoreError>;
    /// Marks a person as removed, frees its name, replaces its password hash, ends its sessions, and deletes its code
    /// and those that it created. [`StoreError::NotFound`] if there is no such person, or it was removed.
    async fn remove_person(
        &self,
        person: AccountId,
        password_hash: &str,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}
