//! Accounts, their sessions, and the codes that invite them.

use jiff::Timestamp;

use super::Invalid;
use super::id::{AccountId, PlanName, SessionId};

/// The name of the built-in account that the operator token belongs to.
pub const OPERATOR: &str = "operator";

/// One account. Its balance is the ledger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Fixed for life.
    pub id: AccountId,
    /// What it signs in with: a name or an e-mail address.
    pub name: String,
    /// What it may do on the admin plane.
    pub role: Role,
    /// Whether it may be used.
    pub status: AccountStatus,
    /// Its plan.
    pub plan: PlanName,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// What an account may do on the admin plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees and changes what is its own.
    Member,
    /// Sees and changes everything.
    Operator,
}

/// Whether an account may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    /// It may.
    Active,
    /// Its requests are refused.
    Suspended,
}

/// A sign-in that has not ended. The token itself is known only to its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What it is called where it is shown.
    pub id: SessionId,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Who signed in.
    pub account: AccountId,
    /// When.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

/// A code that lets one person register. The code itself is known only to its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// SHA-256 of the code.
    pub digest: [u8; 32],
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends by itself.
    pub expires_at: Timestamp,
}

impl Account {
    /// Checks a password's length: 8 to 1,024 bytes.
    ///
    /// # Errors
    /// [`Invalid`] for `password` if it is shorter or longer.
    pub fn check_password(password: &str) -> Result<(), Invalid> {
        check_length("password", password)
    }

    /// Checks the length of a password that takes another's place, like [`Self::check_password`].
    ///
    /// # Errors
    /// [`Invalid`] for `new_password` if it is shorter or longer.
    pub fn check_new_password(password: &str) -> Result<(), Invalid> {
        check_length("new_password", password)
    }
}

fn check_length(field: &'static str, password: &str) -> Result<(), Invalid> {
    if (8..=1024).contains(&password.len()) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("`{field}` must have 8 to 1,024 bytes")))
}
