//! Filter terms to test, and a reference implementation of their meaning.

use std::time::Duration;

use super::{ALICE, BOB};
use domain::endpoint::Endpoint;
use domain::expression::{Comparison, Predicate, Term};
use domain::id::{KeyId, ModelId};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::Tokens;

/// Returns filters of single terms of every kind, and of several terms.
pub(super) fn choices() -> Vec<Vec<Term>> {
    let (gpt, none) = (ModelId::new("gpt"), ModelId::new("none"));
    let failures = vec![RequestStatus::Failed, RequestStatus::Rejected];
    let tests = [
        Predicate::Account(vec![ALICE]),
        Predicate::Account(vec![ALICE, BOB]),
        Predicate::Key(vec![KeyId::new("a1"), KeyId::new("unknown")]),
        Predicate::Model(vec![gpt.clone(), none]),
        Predicate::Status(vec![RequestStatus::Completed]),
        Predicate::Status(failures.clone()),
        Predicate::Endpoint(vec![Endpoint::Responses, Endpoint::Models]),
        Predicate::Error(vec!["rate_limit_exceeded".to_owned(), "' OR 1 --".to_owned()]),
        Predicate::Stream(true),
        Predicate::Cost(Comparison::Above, Nanos(900)),
        Predicate::Cost(Comparison::AtMost, Nanos(900)),
        Predicate::Tokens(Comparison::Below, Tokens(33)),
        Predicate::Duration(Comparison::AtLeast, Duration::from_micros(90 * 1_001)),
        Predicate::Ttft(Comparison::Above, Duration::from_micros(77)),
    ];
    let both = |predicate: Predicate| {
        [false, true].map(|negated| vec![Term { predicate: predicate.clone(), negated }])
    };
    let mut choices: Vec<_> = tests.into_iter().flat_map(both).collect();
    let term = |negated, predicate| Term { predicate, negated };
    let failed = Predicate::Status(vec![RequestStatus::Failed]);
    choices.extend([
        vec![term(false, Predicate::Status(failures)), term(true, Predicate::Model(vec![gpt]))],
        vec![
            term(true, Predicate::Stream(true)),
            term(true, Predicate::Key(vec![KeyId::new("a2")])),
        ],
        vec![
            term(false, Predicate::Account(vec![ALICE])),
            term(false, Predicate::Account(vec![BOB])),
        ],
        vec![term(false, failed.clone()), term(true, failed)],
        vec![
            term(true, Predicate::Status(vec![RequestStatus::Completed, RequestStatus::Cancelled])),
            term(false, Predicate::Stream(true)),
        ],
    ]);
    choices
}

/// Whether `term` holds for `record`.
pub(super) fn holds(term: &Term, record: &RequestRecord) -> bool {
    let predicate = match &term.predicate {
        Predicate::Account(accounts) => accounts.contains(&record.account),
        Predicate::Key(keys) => keys.contains(&record.key),
        Predicate::Model(models) => {
            record.model.as_ref().is_some_and(|model| models.contains(model))
        }
        Predicate::Status(statuses) => statuses.contains(&record.status),
        Predicate::Endpoint(endpoints) => endpoints.contains(&record.endpoint),
        Predicate::Error(codes) => {
            record.error_code.as_ref().is_some_and(|code| codes.contains(code))
        }
        Predicate::Stream(wanted) => record.stream == *wanted,
        Predicate::Cost(how, amount) => compares(record.cost, *how, *amount),
        Predicate::Tokens(how, tokens) => {
            compares(record.usage.map(|usage| usage.total()), *how, *tokens)
        }
        Predicate::Duration(how, length) => compares(Some(record.duration), *how, *length),
        Predicate::Ttft(how, length) => compares(record.ttft, *how, *length),
    };
    predicate != term.negated
}

fn compares<T: PartialOrd + Copy>(known: Option<T>, how: Comparison, value: T) -> bool {
    known.is_some_and(|known| match how {
        Comparison::Above => known > value,
        Comparison::AtLeast => known >= value,
        Comparison::Below => known < value,
        Comparison::AtMost => known <= value,
    })
}
