//! An account as printed.

use proto::v1::Account;
use serde::Serialize;

use crate::commands::{filled, time, word};
use crate::output::Record;

/// An account as printed.
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
            role: word(account.role().as_str_name(), "ROLE_"),
            status: word(account.status().as_str_name(), "ACCOUNT_STATUS_"),
            name: account.name,
            plan: filled(account.plan),
            balance_usd: filled(account.balance_usd),
            id: account.id,
            created_at: time(account.created_at),
        }
    }
}

impl Record for AccountRecord {
    const FIELDS: &'static [&'static str] =
        &["name", "role", "status", "plan", "balance_usd", "id", "created_at"];
    const COLUMNS: &'static [&'static str] =
        &["name", "role", "status", "plan", "balance_usd", "created_at"];
}
