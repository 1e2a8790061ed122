//! `ctl audit …`, and the printed form of audit log entries.

use proto::v1::audit_service_client::AuditServiceClient;
use proto::v1::{AuditEntry, ListAuditRequest};
use serde::Serialize;

use super::{non_empty, read_pages, rfc3339};
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
    let mut client = AuditServiceClient::new(shell.connect().await?);
    let rows = read_pages(input.limit, async |page_size, page_token| {
        let request =
            ListAuditRequest { account: account.clone(), since, until, page_size, page_token };
        let page = client.list_audit(request).await?.into_inner();
        Ok((page.entries, page.next_page_token))
    })
    .await?;
    let rows: Vec<_> = rows.into_iter().map(EntryRecord::from).collect();
    shell.output.many(&rows)
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
