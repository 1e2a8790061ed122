//! Accounts, admin sessions, invite codes and password resets.

use jiff::Timestamp;

use super::ValidationError;
use super::id::{AccountId, InviteId, PlanName, SessionId};
use super::money::Nanos;

/// The name of the built-in account of the operator token.
pub const OPERATOR: &str = "operator";

/// An account. Its balance is in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The id, which never changes.
    pub id: AccountId,
    /// The sign-in name: a name or an e-mail address.
    pub name: String,
    /// The permissions on the admin plane.
    pub role: Role,
    /// Whether requests are accepted.
    pub status: AccountStatus,
    /// The plan.
    pub plan: PlanName,
    /// The time of registration.
    pub created_at: Timestamp,
}

/// An account's role on the admin plane. A greater role may do whatever a smaller one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads and changes its own account only.
    Member,
    /// Also reads everything, suspends accounts and revokes keys.
    Support,
    /// Also changes everything, except for roles and the operator token.
    Operator,
    /// Also grants roles, and manages the operator token.
    Owner,
}

/// Whether an account's requests are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    /// Requests are accepted.
    Active,
    /// Requests are refused.
    Suspended,
    /// An operator closed it: its keys are revoked, its sessions ended, and it cannot sign in.
    Closed,
    /// It was deleted: what remains is its id, with the ledger and the records under it.
    Deleted,
}

/// An active admin session. Only the token's digest is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The public id, for display.
    pub id: SessionId,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// The account or the person that signed in.
    pub account: AccountId,
    /// The time of the sign-in.
    pub created_at: Timestamp,
    /// The time of expiry.
    pub expires_at: Timestamp,
}

/// A code for a single registration. Only the code's digest is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// The public id, for display.
    pub id: InviteId,
    /// SHA-256 of the code.
    pub digest: [u8; 32],
    /// The account that created it; `None` for one of an earlier version, which did not store it.
    pub created_by: Option<AccountId>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of expiry; that of the use, once it was used.
    pub expires_at: Timestamp,
    /// The plan of the new account; `None` for the default plan.
    pub plan: Option<PlanName>,
    /// The credit of the new account, in addition to the trial credit of its plan.
    pub credit: Option<Nanos>,
    /// The registration that used it.
    pub used: Option<InviteUse>,
}

/// The use of an invite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InviteUse {
    /// The time of the registration.
    pub at: Timestamp,
    /// The new account.
    pub by: AccountId,
}

/// Whether the operator token is accepted, and which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorToken {
    /// Whether it is accepted at all.
    pub is_enabled: bool,
    /// SHA-256 of the accepted token; `None` if each gateway accepts that of its data directory.
    pub digest: Option<[u8; 32]>,
}

/// A code with which the owner of an account, or a person, sets a new password once, without the old one. Only the
/// code's digest is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordReset {
    /// SHA-256 of the code.
    pub digest: [u8; 32],
    /// The account or the person whose password it sets.
    pub account: AccountId,
    /// The account or the person that created it.
    pub created_by: AccountId,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of expiry.
    pub expires_at: Timestamp,
}

/// The beginning of the names of deleted accounts, which no other account can have.
pub const DELETED_PREFIX: &str = "deleted-";

impl Default for OperatorToken {
    fn default() -> Self {
        Self { is_enabled: true, digest: None }
    }
}

impl Role {
    /// Every role, in ascending order.
    pub const ALL: [Self; 4] = [Self::Member, Self::Support, Self::Operator, Self::Owner];

    /// Returns the name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Support => "support",
            Self::Operator => "operator",
            Self::Owner => "owner",
        }
    }
}

impl Account {
    /// Returns what remains of the account after its deletion, with a pseudonym instead of its name.
    #[must_use]
    pub fn deleted(&self) -> Self {
        let name = format!("{DELETED_PREFIX}{}", self.id);
        Self { name, status: AccountStatus::Deleted, ..self.clone() }
    }

    /// Whether this is the built-in account, which has no password and belongs to the operator token.
    pub fn is_built_in(&self) -> bool {
        self.name == OPERATOR
    }

    /// Validates a password's length: 8 to 1,024 bytes.
    ///
    /// # Errors
    /// [`ValidationError`] for `password` if the length is out of range.
    pub fn check_password(password: &str) -> Result<(), ValidationError> {
        check_length("password", password)
    }

    /// Validates the length of a replacement password, like [`Self::check_password`].
    ///
    /// # Errors
    /// [`ValidationError`] for `new_password` if the length is out of range.
    pub fn check_new_password(password: &str) -> Result<(), ValidationError> {
        check_length("new_password", password)
    }
}

fn check_length(field: &'static str, password: &str) -> Result<(), ValidationError> {
    if (8..=1024).contains(&password.len()) {
        return Ok(());
    }
    Err(ValidationError::new(field, format!("`{field}` must have 8 to 1,024 bytes")))
}
