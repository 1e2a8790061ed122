//! Accounts: the signed-in account and, for operators, all accounts.

use jiff::Timestamp;

use super::fetched::ListEntry;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The immutable id.
    pub id: String,
    /// The sign-in name.
    pub name: String,
    /// The role; `None` if unknown.
    pub role: Option<Role>,
    /// Whether the gateway refuses its requests.
    pub suspended: bool,
    /// The name of its plan, if any.
    pub plan: Option<String>,
    /// The balance: an exact decimal in US dollars, negative if overdrawn.
    pub balance_usd: Option<String>,
    /// The time of registration.
    pub created_at: Option<Timestamp>,
}

/// The permissions of an account on the admin plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May see and change only the account itself.
    Member,
    /// May see and change everything.
    Operator,
}

impl ListEntry for Account {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let role = if self.role == Some(Role::Operator) { "operator" } else { "member" };
        let state = if self.suspended { "suspended" } else { "active" };
        vec![&self.name, self.plan.as_deref().unwrap_or_default(), role, state]
    }
}
