//! People: the sign-ins of an account besides that of its owner.

use jiff::Timestamp;

use super::id::AccountId;

/// A person of an account, who signs in with a name and a password of their own and acts for the account.
///
/// The names and the ids of people and accounts are distinct: a session, a code and an entry of the audit log
/// name either by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The id, which never changes.
    pub id: AccountId,
    /// The account.
    pub account: AccountId,
    /// The sign-in name: a name or an e-mail address.
    pub name: String,
    /// What the person may do in the account.
    pub role: PersonRole,
    /// Whether the person was removed, cannot sign in, and has a name that is free.
    pub is_removed: bool,
    /// The time of the invitation.
    pub created_at: Timestamp,
}

/// What a person may do in an account. An admin may do whatever a member may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PersonRole {
    /// Reads everything of the account, creates keys, and changes its own keys. It cannot export stored responses, which
    /// each key of the account can read and delete one by one.
    Member,
    /// Also exports all stored responses, changes all keys, and manages the people of the account.
    Admin,
}

impl PersonRole {
    /// Returns the name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}
