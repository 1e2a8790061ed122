//! `ctl ledger …`, and how entries and differences are printed.

use proto::v1::ledger_service_client::LedgerServiceClient;
use proto::v1::{
    LedgerDifference, LedgerEntry, ListEntriesRequest, VerifyLedgerRequest, VerifyLedgerResponse,
};
use serde::Serialize;

use super::{short_id, time, word};
use crate::Shell;
use crate::cli::ledger::{LedgerCommand, List};
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};

/// A ledger entry, as it is printed.
#[derive(Serialize)]
struct EntryLine {
    number: u64,
    created_at: Option<String>,
    account: String,
    kind: Option<String>,
    amount_usd: String,
    request_id: Option<String>,
    note: Option<String>,
}

/// What was recomputed, as it is printed.
#[derive(Serialize)]
struct ProofRecord {
    ok: bool,
    balances: u64,
    entries: u64,
    charges: u64,
    requests: u64,
    sums: u64,
    under_way: u64,
    differences_found: u64,
}

/// Something that does not add up, as it is printed.
#[derive(Serialize)]
struct DifferenceLine {
    kind: Option<String>,
    account: Option<String>,
    request_id: Option<String>,
    text: String,
}

/// The whole verification as one document.
#[derive(Serialize)]
struct VerificationRecord {
    #[serde(flatten)]
    proof: ProofRecord,
    differences: Vec<DifferenceLine>,
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
    let mut lines = Vec::new();
    let mut page_token = String::new();
    while lines.len() < limit {
        let page_size = u32::try_from((limit - lines.len()).min(1_000)).unwrap_or(1_000);
        let request = ListEntriesRequest { account: account.clone(), page_size, page_token };
        let page = client.list_entries(request).await?.into_inner();
        lines.extend(page.entries.into_iter().map(EntryLine::from));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    lines.truncate(limit);
    shell.output.many(&lines)
}

async fn verify(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = LedgerServiceClient::new(shell.connect().await?);
    let proving = client.verify_ledger(VerifyLedgerRequest {});
    let answer = shell.output.waiting("recomputing the books", proving).await?.into_inner();
    let found = answer.differences_found;
    let (proof, differences) = (ProofRecord::from(&answer), answer.differences);
    let ok = proof.ok;
    let differences: Vec<_> = differences.into_iter().map(DifferenceLine::from).collect();
    let shown = differences.len() as u64;
    if shell.output.format() == Format::Json {
        shell.output.document(&VerificationRecord { proof, differences })?;
    } else {
        shell.output.one(&proof)?;
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

// === impl lines ===

impl From<LedgerEntry> for EntryLine {
    fn from(entry: LedgerEntry) -> Self {
        Self {
            kind: word(entry.kind().as_str_name(), "ENTRY_KIND_"),
            number: entry.number,
            created_at: time(entry.created_at),
            account: entry.account,
            amount_usd: entry.amount_usd,
            request_id: entry.request_id,
            note: entry.note,
        }
    }
}

impl From<&VerifyLedgerResponse> for ProofRecord {
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

impl From<LedgerDifference> for DifferenceLine {
    fn from(difference: LedgerDifference) -> Self {
        Self {
            kind: word(difference.kind().as_str_name(), "DIFFERENCE_KIND_"),
            account: difference.account,
            request_id: difference.request_id,
            text: difference.text,
        }
    }
}

impl Record for EntryLine {
    const FIELDS: &'static [&'static str] =
        &["number", "created_at", "account", "kind", "amount_usd", "request_id", "note"];
    const COLUMNS: &'static [&'static str] =
        &["created_at", "account", "kind", "amount_usd", "request_id", "note", "number"];
    const NARROW: &'static [&'static str] = &[
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

impl Record for ProofRecord {
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

impl Record for DifferenceLine {
    const FIELDS: &'static [&'static str] = &["kind", "account", "request_id", "text"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
