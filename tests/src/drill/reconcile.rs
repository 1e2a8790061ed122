//! Holds three logs against each other: what clients saw end, what the upstream was asked and sent,
//! what the ledger says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use gateway::domain::money::Nanos;
use gateway::domain::price::Price;
use gateway::domain::usage::{Tokens, Usage};
use gateway::simulator::{End, Entry};
use proto::v1::{self, RequestStatus, UsageBasis};

use super::client::Seen;
use crate::{Session, soon};

/// What [`Session::add_model_on`] asks for.
const PRICE: Price = Price {
    input: Nanos(1_000_000_000),
    cached: Nanos(100_000_000),
    output: Nanos(2_000_000_000),
    version: 1,
};

/// Request records by id.
pub type Records = BTreeMap<String, v1::RequestRecord>;

/// The three logs of one account.
pub struct Logs<'a> {
    /// The answers whose end clients saw.
    pub seen: &'a [Seen],
    /// What the upstream was asked, and what it sent.
    pub truth: &'a [Entry],
    /// The account's records.
    pub records: &'a Records,
    /// What the account had at first.
    pub credit: Nanos,
    /// What it has now.
    pub balance: Nanos,
}

/// How much was held against each other, and what does not fit.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Answers whose end clients saw.
    pub seen: usize,
    /// Requests that reached the upstream.
    pub upstream: usize,
    /// Request records.
    pub recorded: usize,
    /// Those of them that were under way in the crash.
    pub interrupted: usize,
    /// Those whose tokens the upstream did not say.
    pub counted: usize,
    /// Every difference, in words.
    pub differences: Vec<String>,
}

/// Reads all records that `who` may see.
///
/// # Panics
/// The gateway refuses, or gives a record twice.
pub async fn records(who: &Session) -> Records {
    let (mut all, mut page_token, mut count) = (BTreeMap::new(), String::new(), 0);
    loop {
        let request =
            v1::ListRequestsRequest { page_size: 1_000, page_token, ..Default::default() };
        let page = who.usage().list_requests(request).await.unwrap().into_inner();
        count += page.requests.len();
        all.extend(page.requests.into_iter().map(|record| (record.id.clone(), record)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            assert_eq!(all.len(), count, "a record is there twice");
            return all;
        }
    }
}

/// Reads them once the record `last` is among them: what was answered last is on its way to the store.
///
/// # Panics
/// It does not come.
pub async fn records_with(who: &Session, last: &str) -> Records {
    let wait = async {
        loop {
            let records = records(who).await;
            if records.contains_key(last) {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon("the last record", wait).await
}

/// Compares.
pub fn reconcile(logs: &Logs<'_>) -> Verdict {
    let asked: BTreeSet<_> = logs.truth.iter().filter_map(|entry| entry.id.as_ref()).collect();
    let count = |is: &dyn Fn(&v1::RequestRecord) -> bool| {
        logs.records.values().filter(|record| is(record)).count()
    };
    let mut verdict = Verdict {
        seen: logs.seen.len(),
        upstream: asked.len(),
        recorded: logs.records.len(),
        interrupted: count(&|record| record.status() == RequestStatus::Interrupted),
        counted: count(&|record| record.usage_basis() == UsageBasis::Counted),
        differences: Vec::new(),
    };
    let differences = &mut verdict.differences;
    for id in &asked {
        if !logs.records.contains_key(*id) {
            differences.push(format!("{id} reached the upstream and has no record"));
        }
    }
    for (id, record) in logs.records {
        if !asked.contains(id) && record.status() == RequestStatus::Completed {
            differences.push(format!("{id} is completed and never reached the upstream"));
        }
        if asked.contains(id) {
            differences.extend(unpaid(record).map(|what| format!("{id} {what}: {record:?}")));
        }
    }
    for seen in logs.seen {
        let record = logs.records.get(&seen.id);
        differences
            .extend(unlike_seen(seen, record).map(|what| format!("{seen:?} {what}: {record:?}")));
    }
    let answered = logs.truth.iter().filter(|it| it.end == Some(End::Answered) && it.usage_sent);
    for entry in answered {
        let Some(record) = entry.id.as_ref().and_then(|id| logs.records.get(id)) else { continue };
        let told = (entry.prompt_tokens, entry.completion_tokens);
        if record.usage_basis() == UsageBasis::Upstream && tokens(record) != Some(told) {
            differences.push(format!("the upstream said {told:?}: {record:?}"));
        }
    }
    let charges: Nanos = logs.records.values().filter_map(cost).sum();
    if logs.balance != logs.credit + -charges {
        let (credit, balance) = (logs.credit, logs.balance);
        differences.push(format!("{credit} less {charges} is not the balance {balance}"));
    }
    verdict
}

/// What is wrong with the charge of a request that reached the upstream.
fn unpaid(record: &v1::RequestRecord) -> Option<&'static str> {
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
    (cost(record) != Some(PRICE.cost(&usage))).then_some("is not charged what it used")
}

/// What is wrong with the record of an answer that a client saw the end of.
fn unlike_seen(seen: &Seen, record: Option<&v1::RequestRecord>) -> Option<&'static str> {
    let Some(record) = record else { return Some("has no record") };
    if seen.status != 200 {
        return (record.http_status != Some(u32::from(seen.status))).then_some("ended otherwise");
    }
    if record.status() != RequestStatus::Completed {
        return Some("is not completed");
    }
    if !matches!(record.usage_basis(), UsageBasis::Upstream | UsageBasis::Counted) {
        return Some("was not counted");
    }
    (seen.usage.is_some() && seen.usage != tokens(record)).then_some("was told other tokens")
}

fn tokens(record: &v1::RequestRecord) -> Option<(u64, u64)> {
    let counts = record.tokens?;
    Some((counts.input?, counts.output?))
}

fn cost(record: &v1::RequestRecord) -> Option<Nanos> {
    record.cost_usd.as_ref()?.parse().ok()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seen, upstream, recorded, interrupted, counted, differences } = self;
        write!(
            f,
            "{upstream} reached the upstream, {recorded} recorded, {seen} ends seen, \
                {interrupted} interrupted, {counted} counted, {} differences",
            differences.len()
        )
    }
}
