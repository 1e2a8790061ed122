//! `ctl ledger …`, and the printed form of entries and differences.

use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::{
    LedgerDifference, LedgerEntry, ListEntriesRequest, VerifyLedgerRequest, VerifyLedgerResponse,
};
use serde::Serialize;

use super::{enum_name, rfc3339, short_id};
use crate::Shell;
use crate::cli::ledger::{LedgerCommand, List};
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};

/// A ledger entry, as printed.
#[derive(Serialize)]
pub(super) struct EntryRecord {
    number: u64,
    created_at: Option<String>,
    account: String,
    kind: Option<String>,
    amount_usd: String,
    request_id: Option<String>,
    note: Option<String>,
}

/// The counts of recomputed values, as printed.
#[derive(Serialize)]
struct VerifiedCounts {
    ok: bool,
    balances: u64,
    entries: u64,
    charges: u64,
    requests: u64,
    sums: u64,
    under_way: u64,
    differences_found: u64,
}

/// A difference between a stored and a recomputed value, as printed.
#[derive(Serialize)]
struct DifferenceRecord {
    kind: Option<String>,
    account: Option<String>,
    request_id: Option<String>,
    text: String,
}

/// The verification as one JSON document.
#[derive(Serialize)]
struct VerificationRecord {
    #[serde(flatten)]
    counts: VerifiedCounts,
    differences: Vec<DifferenceRecord>,
}

/// Runs `ctl ledger …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: LedgerCommand) -> Result<(), Failure> {
    match command {
        LedgerCommand::List(input) => list(shell, input).await,
        LedgerCommand::Verify => verify(shell).await,
    }
}

async fn list(shell: &mut Shell<'_>, input: List) -> Result<(), Failure> {
    let account = input.account.unwrap_or_default();
    let mut client = LedgerServiceClient::new(shell.connect().await?);
    let limit = usize::try_from(input.limit).unwrap_or(usize::MAX);
    let mut entries = Vec::new();
    let mut page_token = String::new();
    while entries.len() < limit {
        let page_size = u32::try_from((limit - entries.len()).min(1_000)).unwrap_or(1_000);
        let request = ListEntriesRequest { account: account.clone(), page_size, page_token };
        let page = client.list_entries(request).await?.into_inner();
        entries.extend(page.entries.into_iter().map(EntryRecord::from));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    entries.truncate(limit);
    shell.output.many(&entries)
}

async fn verify(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = LedgerServiceClient::new(shell.connect().await?);
    let call = client.verify_ledger(VerifyLedgerRequest {});
    let answer = shell.output.with_timer("verifying the ledger", call).await?.into_inner();
    let found = answer.differences_found;
    let (counts, differences) = (VerifiedCounts::from(&answer), answer.differences);
    let ok = counts.ok;
    let differences: Vec<_> = differences.into_iter().map(DifferenceRecord::from).collect();
    let shown = differences.len() as u64;
    if shell.output.format() == Format::Json {
        shell.output.document(&VerificationRecord { counts, differences })?;
    } else {
        shell.output.one(&counts)?;
        if !differences.is_empty() {
            if shell.output.format() == Format::Table {
                shell.output.text("\n")?;
            }
            shell.output.many(&differences)?;
        }
    }
    if shown < found {
        shell.output.note(&format!("(the first {shown} of {found} differences)"));
    }
    if ok {
        return Ok(());
    }
    let plural = if found == 1 { "" } else { "s" };
    Err(Failure::new(
        Exit::Failed,
        format!("the ledger does not add up: {found} difference{plural}"),
    ))
}

// === impl records ===

impl From<LedgerEntry> for EntryRecord {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            kind: enum_name(entry.kind().as_str_name(), "ENTRY_KIND_"),
            number: entry.number,
            created_at: rfc3339(entry.created_at),
            account: entry.account,
            amount_usd: entry.amount_usd,
            request_id: entry.request_id,
            note: entry.note,
        }
    }
}

impl From<&VerifyLedgerResponse> for VerifiedCounts {
    fn from(answer: &VerifyLedgerResponse) -> Self {
        Self {
            ok: answer.ok,
            balances: answer.balances,
            entries: answer.entries,
            charges: answer.charges,
            requests: answer.requests,
            sums: answer.sums,
            under_way: answer.under_way,
            differences_found: answer.differences_found,
        }
    }
}

impl From<LedgerDifference> for DifferenceRecord {
    fn from(difference: LedgerDifference) -> Self {
        Self {
            kind: enum_name(difference.kind().as_str_name(), "DIFFERENCE_KIND_"),
            account: difference.account,
            request_id: difference.request_id,
            text: difference.text,
        }
    }
}

impl Record for EntryRecord {
    const FIELDS: &'static [&'static str] =
        &["number", "created_at", "account", "kind", "amount_usd", "request_id", "note"];
    const COLUMNS: &'static [&'static str] =
        &["created_at", "account", "kind", "amount_usd", "request_id", "note", "number"];
    const NARROW_COLUMNS: &'static [&'static str] = &[
        "short_created_at",
        "account",
        "kind",
        "amount_usd",
        "short_request_id",
        "note",
        "number",
    ];

    fn text(&self, field: &str) -> Option<String> {
        let id = self.request_id.as_deref().unwrap_or_default();
        (field == "short_request_id").then(|| short_id(id).to_owned())
    }
}

impl Record for VerifiedCounts {
    const FIELDS: &'static [&'static str] = &[
        "ok",
        "balances",
        "entries",
        "charges",
        "requests",
        "sums",
        "under_way",
        "differences_found",
    ];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}

impl Record for DifferenceRecord {
    const FIELDS: &'static [&'static str] = &["kind", "account", "request_id", "text"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
