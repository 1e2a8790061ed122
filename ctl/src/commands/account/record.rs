//! The printed form of an account.

use proto::v1::Account;
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
