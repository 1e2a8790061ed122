//! `ctl audit …`, and the printed form of audit log entries.

use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::{AuditEntry, ListAuditRequest};
use serde::Serialize;

use super::{non_empty, rfc3339};
use crate::Shell;
use crate::cli::audit::{AuditCommand, List};
use crate::error::Failure;
use crate::output::Record;

/// An entry, as printed.
#[derive(Serialize)]
pub(super) struct EntryRecord {
    id: u64,
    made_at: Option<String>,
    actor: Option<String>,
    action: String,
    object: Option<String>,
    account: Option<String>,
    details: Option<String>,
    actor_id: Option<String>,
    address: Option<String>,
}

/// Runs `ctl audit …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::List(input) => list(shell, input).await,
    }
}

async fn list(shell: &mut Shell<'_>, input: List) -> Result<(), Failure> {
    let now = shell.environment.now;
    let account = input.account.unwrap_or_default();
    let since = input.since.map(|since| since.before(now)).transpose()?;
    let until = input.until.map(|until| until.before(now)).transpose()?;
    let limit = usize::try_from(input.limit).unwrap_or(usize::MAX);
    let mut client = AuditServiceClient::new(shell.connect().await?);
    let mut entries = Vec::new();
    let mut page_token = String::new();
    while entries.len() < limit {
        let page_size = u32::try_from((limit - entries.len()).min(1_000)).unwrap_or(1_000);
        let request =
            ListAuditRequest { account: account.clone(), since, until, page_size, page_token };
        let page = client.list_audit(request).await?.into_inner();
        entries.extend(page.entries.into_iter().map(EntryRecord::from));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    entries.truncate(limit);
    shell.output.many(&entries)
}

// === impl EntryRecord ===

impl From<AuditEntry> for EntryRecord {
    fn from(entry: AuditEntry) -> Self {
        Self {
            id: entry.id,
            made_at: rfc3339(entry.at),
            actor: non_empty(entry.actor),
            action: entry.action,
            object: non_empty(entry.object),
            account: non_empty(entry.account),
            details: non_empty(entry.details),
            actor_id: non_empty(entry.actor_id),
            address: non_empty(entry.address),
        }
    }
}

impl Record for EntryRecord {
    const FIELDS: &'static [&'static str] = &[
        "id", "made_at", "actor", "action", "object", "account", "details", "actor_id", "address",
    ];
    const COLUMNS: &'static [&'static str] =
        &["made_at", "actor", "address", "action", "object", "details", "account"];
    const NARROW_COLUMNS: &'static [&'static str] =
        &["short_made_at", "actor", "address", "action", "object", "details", "account"];
}
