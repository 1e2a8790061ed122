//! The conformance test suite for backends.
//!
//! Starts with an empty store and calls every method, most of them also with arguments that must
//! be refused. The parts depend on each other and run in the order of [`run`].

mod account_lifecycle;
mod alerts;
mod audit;
mod catalogue;
pub(crate) mod identities;
mod ledger;
mod maintenance;
mod operator_token;
mod password_resets;
mod people;
mod predicates;
mod requests;
mod responses;

use std::num::NonZeroU32;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{AuditFilter, RequestFilter, Store, StoreError, TimeUnit};
use domain::audit::{AuditAction, AuditEntry};
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Tokens, Usage, UsageBasis};

/// Runs the suite on an empty store.
pub(crate) async fn run(store: &dyn Store) {
    catalogue::run(store).await;
    identities::run(store).await;
    requests::run(store).await;
    responses::run(store).await;
    audit::run(store).await;
    ledger::run(store).await;
    password_resets::run(store).await;
    people::run(store).await;
    operator_token::run(store).await;
    maintenance::run(store).await;
    alerts::run(store).await;
    account_lifecycle::run(store).await;
    seal_key_is_replaced(store).await;
}

/// The fingerprint of the key of secrets is replaced once, by the only gateway.
async fn seal_key_is_replaced(store: &dyn Store) {
    assert_eq!(store.claim_seal_fingerprint("former").await.unwrap(), "former");
    for _ in 0..2 {
        store.replace_seal_fingerprint("former", "new").await.unwrap();
    }
    assert_eq!(store.claim_seal_fingerprint("new").await.unwrap(), "new");
}

/// Returns all observable state of a store, for comparison before and after a restart.
pub(crate) async fn dump(store: &dyn Store) -> String {
    let everything = store.load().await.unwrap();
    let requests =
        store.requests_before(&RequestFilter::default(), None, usize::MAX).await.unwrap();
    let summary = store.summarize(&RequestFilter::default(), TimeUnit::Day).await.unwrap();
    let keys = store.keys(None).await.unwrap();
    let audit = store.audit_before(&AuditFilter::default(), None, usize::MAX).await.unwrap();
    format!("{everything:#?}\n{keys:#?}\n{summary:#?}\n{requests:#?}\n{audit:#?}")
}

const ALICE: AccountId = AccountId(Uuid::from_u128(0xa11ce));
const BOB: AccountId = AccountId(Uuid::from_u128(0xb0b));

/// Returns the time `minutes` after the start of the suite's first day.
fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_mins(minutes)
}

/// Returns an audit entry about `object`.
pub(crate) fn audit_entry(object: &str) -> AuditEntry {
    AuditEntry {
        at: at(0),
        actor: None,
        address: None,
        action: AuditAction::PlanPut,
        object: object.to_owned(),
        account: None,
        details: String::new(),
        call: None,
    }
}

/// Records of one hour, each with a charge.
pub(crate) fn batch(numbers: std::ops::Range<u64>) -> Vec<RequestRecord> {
    let account = AccountId(Uuid::from_u128(1));
    let record = |n: u64| RequestRecord {
        id: RequestId(Uuid::from_u128(u128::from(n) + 1)),
        account,
        key: KeyId::new("k"),
        endpoint: Endpoint::ChatCompletions,
        model: Some(ModelId::new("m")),
        deployment: None,
        stream: true,
        status: RequestStatus::Completed,
        http_status: Some(200),
        error_code: None,
        usage: Some(Usage { input: Tokens(n), output: Tokens(1), ..Usage::default() }),
        basis: UsageBasis::Upstream,
        cost: Some(Nanos(1)),
        overrun: Nanos::ZERO,
        price_version: Some(1),
        started_at: Timestamp::from_microsecond(1_800_000_000_000_000).unwrap(),
        duration: Duration::from_millis(5),
        ttft: None,
        notes: Vec::new(),
        idempotency: None,
        count: NonZeroU32::MIN,
        trace: None,
    };
    numbers.map(record).collect()
}

#[track_caller]
fn expect_conflict<T: std::fmt::Debug>(answer: Result<T, StoreError>, about: &str) {
    match answer.unwrap_err() {
        StoreError::Conflict(text) => assert!(text.contains(about), "{text}"),
        other => panic!("not a conflict: {other:?}"),
    }
}

#[track_caller]
fn expect_not_found<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    match answer.unwrap_err() {
        StoreError::NotFound => {}
        other => panic!("not `not found`: {other:?}"),
    }
}
