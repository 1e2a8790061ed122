//! Compares three logs: the responses that clients received, the requests that the upstream served,
//! and the ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;

use domain::money::Nanos;
use domain::usage::{Tokens, Usage};
use proto::v1::{self, EntryKind, RequestStatus, UsageBasis};
use simulator::{RequestEnd, TruthEntry};

use super::client::{ObservedResponse, Shape};
use super::rig::{balance, price_of};
use super::round::Figure;
use crate::session::requests_of;
use crate::{Session, with_timeout};

/// Request records by id.
pub type Records = BTreeMap<String, v1::RequestRecord>;

/// The facts about an account's requests that do not come from the gateway.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The responses that clients received to their end.
    pub seen: Vec<ObservedResponse>,
    /// The requests that the upstream received and the answers that it sent.
    pub truth: Vec<TruthEntry>,
    /// The credit that the account received.
    pub credit: Nanos,
}

/// The gateway's data about an account.
pub struct LedgerSnapshot {
    /// Its records.
    pub records: Records,
    /// The balance.
    pub balance: Nanos,
    /// The cost of each request beyond the balance, of all accounts.
    pub overruns: BTreeMap<String, Nanos>,
    /// The differences that the gateway finds in its own ledger, of all accounts.
    pub proof: Vec<String>,
}

/// The compared numbers and the differences.
#[derive(Clone, Debug, Default)]
pub struct Reconciliation {
    /// Requests that reached the upstream.
    pub upstream: usize,
    /// Request records.
    pub recorded: usize,
    /// Responses that clients received to their end.
    pub seen: usize,
    /// The shapes of those requests.
    pub shapes: BTreeSet<Shape>,
    /// Records of requests that were in flight at a crash.
    pub interrupted: usize,
    /// Records of requests whose clients disconnected.
    pub cancelled: usize,
    /// Records of refused requests.
    pub rejected: usize,
    /// Records whose tokens the upstream did not report.
    pub counted: usize,
    /// A description of every difference.
    pub differences: Vec<String>,
}

// === impl LedgerSnapshot ===

impl LedgerSnapshot {
    /// Reads the gateway's data about the account of `caller`.
    ///
    /// # Panics
    /// If the gateway refuses, or returns a record twice.
    pub async fn read(caller: &Session, operator: &Session) -> Self {
        Self {
            records: records(caller).await,
            balance: balance(caller).await,
            overruns: overruns(operator).await,
            proof: proof(operator).await,
        }
    }
}

async fn records(caller: &Session) -> Records {
    let (mut all, mut page_token, mut count) = (BTreeMap::new(), String::new(), 0);
    loop {
        let request =
            v1::ListRequestsRequest { page_size: 1_000, page_token, ..Default::default() };
        let page = caller.usage().list_requests(request).await.unwrap().into_inner();
        count += page.requests.len();
        all.extend(page.requests.into_iter().map(|record| (record.id.clone(), record)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            assert_eq!(all.len(), count, "a record occurs twice");
            return all;
        }
    }
}

/// Waits until `caller` has records of `count` requests. Refusals beyond ten in a second are merged
/// into one record at the end of that second.
///
/// # Panics
/// If they do not arrive in time.
pub async fn wait_for_records(caller: &Session, count: usize) {
    let tail = v1::TailRequestsRequest::default();
    let mut tail = caller.usage().tail_requests(tail).await.unwrap().into_inner();
    let waiting = async {
        while requests_of(records(caller).await.values()) < count {
            tail.message().await.unwrap().unwrap();
        }
    };
    with_timeout("the records of all requests", waiting).await;
}

async fn overruns(operator: &Session) -> BTreeMap<String, Nanos> {
    let (mut all, mut page_token) = (BTreeMap::new(), String::new());
    loop {
        let account = "house".to_owned();
        let request = v1::ListEntriesRequest { account, page_size: 1_000, page_token };
        let page = operator.ledger().list_entries(request).await.unwrap().into_inner();
        for entry in page.entries.into_iter().filter(|it| it.kind() == EntryKind::Overrun) {
            let amount: Nanos = entry.amount_usd.parse().unwrap();
            let sum: &mut Nanos = all.entry(entry.request_id.unwrap_or_default()).or_default();
            *sum = *sum + -amount;
        }
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

async fn proof(operator: &Session) -> Vec<String> {
    let request = v1::VerifyLedgerRequest {};
    let proof = operator.ledger().verify_ledger(request).await.unwrap().into_inner();
    proof.differences.into_iter().map(|difference| difference.text).collect()
}

/// Compares the evidence with the gateway's data.
pub fn reconcile(evidence: &Evidence, books: &LedgerSnapshot) -> Reconciliation {
    let records = &books.records;
    let asked: BTreeSet<_> = evidence.truth.iter().filter_map(|entry| entry.id.as_ref()).collect();
    let ended = |status| requests_of(records.values().filter(|record| record.status() == status));
    let counted = records.values().filter(|it| it.usage_basis() == UsageBasis::Counted);
    let mut verdict = Reconciliation {
        upstream: asked.len(),
        recorded: records.len(),
        seen: evidence.seen.len(),
        shapes: evidence.seen.iter().map(|seen| seen.shape).collect(),
        interrupted: ended(RequestStatus::Interrupted),
        cancelled: ended(RequestStatus::Cancelled),
        rejected: ended(RequestStatus::Rejected),
        counted: counted.count(),
        differences: Vec::new(),
    };
    let differences = &mut verdict.differences;
    if asked.is_empty() {
        differences.push("nothing reached the upstream".to_owned());
    }
    for id in &asked {
        if !records.contains_key(*id) {
            differences.push(format!("{id} reached the upstream and has no record"));
        }
    }
    for (id, record) in records {
        let overrun = books.overruns.get(id).copied().unwrap_or_default();
        let wrong =
            if asked.contains(id) { check_charge(record, overrun) } else { check_not_sent(record) };
        differences.extend(wrong.map(|what| format!("{id} {what}: {record:?}")));
    }
    let mut merged = merged_by_http_status(records);
    for seen in &evidence.seen {
        let record = records.get(&seen.id);
        if record.is_none()
            && let Some(count @ 1..) = merged.get_mut(&u32::from(seen.status))
        {
            *count -= 1;
            continue;
        }
        let wrong = check_observed(seen, record);
        differences.extend(wrong.map(|what| format!("{seen:?} {what}: {record:?}")));
    }
    let answered =
        evidence.truth.iter().filter(|it| it.end == Some(RequestEnd::Answered) && it.usage_sent);
    for entry in answered {
        let Some(record) = entry.id.as_ref().and_then(|id| records.get(id)) else { continue };
        let reported = (entry.prompt_tokens, entry.completion_tokens);
        if record.usage_basis() == UsageBasis::Upstream && tokens(record) != Some(reported) {
            differences.push(format!("the upstream reported {reported:?}: {record:?}"));
        }
    }
    let charges: Nanos = records.values().filter_map(cost).sum();
    let (credit, balance) = (evidence.credit, books.balance);
    if balance != credit + -charges {
        differences.push(format!("{credit} less {charges} is not the balance {balance}"));
    }
    if balance < Nanos::ZERO {
        differences.push(format!("the balance is negative: {balance}"));
    }
    differences
        .extend(books.proof.iter().map(|what| format!("ledger verification failed: {what}")));
    verdict
}

/// Returns how many requests have no record under their own id because another record counts them,
/// by HTTP status.
fn merged_by_http_status(records: &Records) -> BTreeMap<u32, u32> {
    let mut merged = BTreeMap::new();
    for record in records.values() {
        if let Some(status) = record.http_status {
            *merged.entry(status).or_default() += record.count.saturating_sub(1);
        }
    }
    merged
}

/// Returns what is wrong with the record of a request that did not reach the upstream.
fn check_not_sent(record: &v1::RequestRecord) -> Option<&'static str> {
    // The gateway itself lists models.
    let is_answered =
        matches!(record.status(), RequestStatus::Completed | RequestStatus::Incomplete);
    if is_answered && record.endpoint != "models" {
        return Some("was answered and never reached the upstream");
    }
    // a request that a crash or its client cut off before the upstream is charged for its input
    let is_sent = matches!(record.status(), RequestStatus::Interrupted | RequestStatus::Cancelled);
    (!is_sent && cost(record) != Some(Nanos::ZERO)).then_some("costs something")
}

/// Returns what is wrong with the charge of a request that reached the upstream.
fn check_charge(record: &v1::RequestRecord, overrun: Nanos) -> Option<&'static str> {
    if record.status() == RequestStatus::Rejected {
        return Some("was refused and reached the upstream");
    }
    let counts = record.tokens.unwrap_or_default();
    let usage = Usage {
        input: Tokens(counts.input.unwrap_or_default()),
        cached: counts.cached.map(Tokens),
        output: Tokens(counts.output.unwrap_or_default()),
        reasoning: None,
    };
    if usage.total() == Tokens(0) {
        return Some("used nothing");
    }
    let price = price_of(record.model());
    let paid = cost(record).map(|cost| cost + overrun);
    (paid != price.map(|price| price.cost(&usage))).then_some("is not charged its usage")
}

/// Returns what is wrong with the record of a complete response.
fn check_observed(
    seen: &ObservedResponse,
    record: Option<&v1::RequestRecord>,
) -> Option<&'static str> {
    let Some(record) = record else { return Some("has no record") };
    if seen.status != 200 {
        return (record.http_status != Some(u32::from(seen.status))).then_some("ended otherwise");
    }
    let status = if seen.cut { RequestStatus::Incomplete } else { RequestStatus::Completed };
    if record.status() != status {
        return Some("is recorded as incomplete");
    }
    if !matches!(record.usage_basis(), UsageBasis::Upstream | UsageBasis::Counted) {
        return Some("has no usage");
    }
    (seen.usage.is_some() && seen.usage != tokens(record))
        .then_some("reported other tokens to the client")
}

fn tokens(record: &v1::RequestRecord) -> Option<(u64, u64)> {
    let counts = record.tokens?;
    Some((counts.input?, counts.output?))
}

pub(super) fn cost(record: &v1::RequestRecord) -> Option<Nanos> {
    record.cost_usd.as_ref()?.parse().ok()
}

// === impl Reconciliation ===

impl Reconciliation {
    /// Returns the numbers.
    pub fn figures(&self) -> [Figure; 7] {
        [
            Figure::Count("reached the upstream", self.upstream),
            Figure::Count("recorded", self.recorded),
            Figure::Count("ends seen", self.seen),
            Figure::Count("interrupted", self.interrupted),
            Figure::Count("cancelled", self.cancelled),
            Figure::Count("rejected", self.rejected),
            Figure::Count("counted", self.counted),
        ]
    }
}

impl AddAssign for Reconciliation {
    fn add_assign(&mut self, mut other: Self) {
        self.upstream += other.upstream;
        self.recorded += other.recorded;
        self.seen += other.seen;
        self.shapes.append(&mut other.shapes);
        self.interrupted += other.interrupted;
        self.cancelled += other.cancelled;
        self.rejected += other.rejected;
        self.counted += other.counted;
        self.differences.append(&mut other.differences);
    }
}
