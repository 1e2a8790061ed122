//! The printed form of an account.

use proto::v1::{Account, Person};
use serde::Serialize;

use crate::commands::{enum_name, non_empty, rfc3339};
use crate::output::Record;

/// An account, as printed.
#[derive(Serialize)]
pub(in crate::commands) struct AccountRecord {
    pub(in crate::commands) name: String,
    role: Option<String>,
    status: Option<String>,
    plan: Option<String>,
    balance_usd: Option<String>,
    id: String,
    created_at: Option<String>,
}

/// The caller, as printed.
#[derive(Serialize)]
pub(in crate::commands) struct CallerRecord {
    #[serde(flatten)]
    account: AccountRecord,
    /// The name of the person that calls; `None` for the owner of the account.
    person: Option<String>,
    person_role: Option<String>,
}

// === impl CallerRecord ===

impl CallerRecord {
    /// Combines the account and the person, if it is not the owner of the account.
    pub(in crate::commands) fn new(account: Account, person: Option<Person>) -> Self {
        let role = person.as_ref().map(|person| person.role().as_str_name());
        Self {
            person_role: role.and_then(|role| enum_name(role, "PERSON_ROLE_")),
            person: person.map(|person| person.name),
            account: AccountRecord::from(account),
        }
    }
}

impl Record for CallerRecord {
    const FIELDS: &'static [&'static str] = &[
        "name",
        "role",
        "status",
        "plan",
        "balance_usd",
        "id",
        "created_at",
        "person",
        "person_role",
    ];
    const COLUMNS: &'static [&'static str] =
        &["name", "role", "status", "plan", "balance_usd", "created_at", "person", "person_role"];
}

// === impl AccountRecord ===

impl From<Account> for AccountRecord {
    fn from(account: Account) -> Self {
        Self {
            role: enum_name(account.role().as_str_name(), "ROLE_"),
            status: enum_name(account.status().as_str_name(), "ACCOUNT_STATUS_"),
            name: account.name,
            plan: non_empty(account.plan),
            balance_usd: non_empty(account.balance_usd),
            id: account.id,
            created_at: rfc3339(account.created_at),
        }
    }
}

impl Record for AccountRecord {
    const FIELDS: &'static [&'static str] =
        &["name", "role", "status", "plan", "balance_usd", "id", "created_at"];
    const COLUMNS: &'static [&'static str] =
        &["name", "role", "status", "plan", "balance_usd", "created_at"];
}
