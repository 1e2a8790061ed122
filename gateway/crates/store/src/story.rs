//! A test story for every backend.
//!
//! It starts with an empty store and calls every method, error cases included. Each chapter is a file;
//! [`play`] lists them.

mod audit;
mod catalogue;
mod identities;
mod ledger;
mod requests;
mod responses;
mod terms;

use jiff::{SignedDuration, Timestamp};
use uuid::Uuid;

use super::{AuditFilter, RequestFilter, Store, StoreError};
use domain::audit::{AuditAction, AuditEntry};
use domain::id::AccountId;

/// Runs the whole story on an empty store.
pub(crate) async fn play(store: &dyn Store) {
    catalogue::play(store).await;
    identities::play(store).await;
    requests::play(store).await;
    responses::play(store).await;
    audit::play(store).await;
    ledger::play(store).await;
}

/// Returns everything that the story can observe of a store, to compare before and after a restart.
pub(crate) async fn portrait(store: &dyn Store) -> String {
    let everything = store.load().await.unwrap();
    let requests =
        store.requests_before(&RequestFilter::default(), None, usize::MAX).await.unwrap();
    let summary = store.summarize(&RequestFilter::default()).await.unwrap();
    let keys = store.keys(None).await.unwrap();
    let audit = store.audit_before(&AuditFilter::default(), None, usize::MAX).await.unwrap();
    format!("{everything:#?}\n{keys:#?}\n{summary:#?}\n{requests:#?}\n{audit:#?}")
}

const ALICE: AccountId = AccountId(Uuid::from_u128(0xa11ce));
const BOB: AccountId = AccountId(Uuid::from_u128(0xb0b));

/// Returns the time `minutes` after the start of the story's first day.
fn at(minutes: i64) -> Timestamp {
    let start: Timestamp = "2026-11-20T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_mins(minutes)
}

/// Returns an audit entry about `object`.
fn noted(object: &str) -> AuditEntry {
    AuditEntry {
        at: at(0),
        actor: None,
        action: AuditAction::PlanPut,
        object: object.to_owned(),
        account: None,
        details: String::new(),
        call: None,
    }
}

#[track_caller]
fn conflicts<T: std::fmt::Debug>(answer: Result<T, StoreError>, about: &str) {
    match answer.unwrap_err() {
        StoreError::Conflict(text) => assert!(text.contains(about), "{text}"),
        other => panic!("not a conflict: {other:?}"),
    }
}

#[track_caller]
fn is_not_found<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    match answer.unwrap_err() {
        StoreError::NotFound => {}
        other => panic!("not `not found`: {other:?}"),
    }
}
