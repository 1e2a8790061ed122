//! Accounts: the one that is signed in, and for operators all of them.

use jiff::Timestamp;

use super::fetched::ListEntry;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The id, fixed for life.
    pub id: String,
    /// The name that it signs in with.
    pub name: String,
    /// What it may do.
    pub role: Option<Role>,
    /// Whether its requests are refused.
    pub suspended: bool,
    /// The name of its plan, if it has one.
    pub plan: Option<String>,
    /// What is left of its money: an exact decimal in US dollars.
    pub balance_usd: Option<String>,
    /// When it was registered.
    pub created_at: Option<Timestamp>,
}

/// What an account may do on the admin plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees and changes what is its own.
    Member,
    /// Sees and changes everything.
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
