//! Accounts: the signed-in account and, for operators, all accounts.

use jiff::Timestamp;

use super::fetched::ListEntry;
use super::people::PersonRole;
use super::recent::Recent;
use super::table::{Tabular, Value};

/// An account.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// The immutable id.
    pub id: String,
    /// The sign-in name.
    pub name: String,
    /// The role; `None` if unknown.
    pub role: Option<Role>,
    /// Whether it can be used.
    pub status: AccountStatus,
    /// Why it is suspended, as far as the signed-in account may know.
    pub suspended_for: Option<String>,
    /// What the signed-in person may do in it; `None` for its owner, and for other accounts.
    pub person_role: Option<PersonRole>,
    /// The name of its plan, if any.
    pub plan: Option<String>,
    /// The balance: an exact decimal in US dollars, negative if overdrawn.
    pub balance_usd: Option<String>,
    /// The time of registration.
    pub created_at: Option<Timestamp>,
    /// Its recent requests, if there are any.
    pub recent: Option<Recent>,
}

/// Whether an account can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountStatus {
    /// It can be used.
    Active,
    /// Its requests are refused, and its sessions are read-only.
    Suspended,
    /// Its keys are revoked, and it cannot sign in.
    Closed,
    /// Only its ledger entries and records remain, under a pseudonym.
    Deleted,
}

impl AccountStatus {
    /// Returns the name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
            Self::Deleted => "deleted",
        }
    }
}

/// The permissions of an account on the admin plane. A greater role includes the smaller ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May see and change only the account itself.
    Member,
    /// May see everything, suspend accounts and revoke keys.
    Support,
    /// May change everything but roles and the operator token.
    Operator,
    /// May do everything.
    Owner,
}

impl Role {
    /// The names of all roles, in ascending order.
    pub const NAMES: &'static [&'static str] = &["member", "support", "operator", "owner"];

    /// Returns the name of the role.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Support => "support",
            Self::Operator => "operator",
            Self::Owner => "owner",
        }
    }

    /// Returns the role with this name.
    pub fn parse(name: &str) -> Option<Self> {
        let all = [Self::Member, Self::Support, Self::Operator, Self::Owner];
        all.into_iter().find(|role| role.as_str() == name)
    }
}

impl Tabular for Account {
    const COLUMNS: &'static [&'static str] =
        &["name", "role", "state", "plan", "balance", "registered", "recent", "p50", "p99"];

    fn value(&self, column: &str) -> Value {
        match column {
            "name" => Value::text(&self.name),
            "role" => Value::optional_text(self.role.map(Role::as_str)),
            "state" => Value::text(self.status.as_str()),
            "plan" => Value::optional_text(self.plan.as_deref()),
            "balance" => Value::amount(self.balance_usd.as_deref()),
            "registered" => Value::time(self.created_at),
            "recent" => Value::count(self.recent.as_ref().map(|it| it.requests)),
            "p50" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p50_ms)),
            "p99" => Value::milliseconds(self.recent.as_ref().and_then(|it| it.p99_ms)),
            _ => Value::Unknown,
        }
    }
}

impl ListEntry for Account {
    fn id(&self) -> &str {
        &self.id
    }

    fn texts(&self) -> Vec<&str> {
        let role = self.role.map_or("", Role::as_str);
        let status = self.status.as_str();
        vec![&self.name, self.plan.as_deref().unwrap_or_default(), role, status]
    }
}
