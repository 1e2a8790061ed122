//! Terms of expressions: what they are asked in the story, and what they mean to a list.

use std::time::Duration;

use super::{ALICE, BOB};
use domain::endpoint::Endpoint;
use domain::expression::{Relation, Term, Test};
use domain::id::{KeyId, ModelId};
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::Tokens;

/// Choices of one term and of some together, of every kind.
pub(super) fn choices() -> Vec<Vec<Term>> {
    let (gpt, none) = (ModelId::new("gpt"), ModelId::new("none"));
    let trouble = vec![RequestStatus::Failed, RequestStatus::Rejected];
    let tests = [
        Test::Account(vec![ALICE]),
        Test::Account(vec![ALICE, BOB]),
        Test::Key(vec![KeyId::new("a1"), KeyId::new("unknown")]),
        Test::Model(vec![gpt.clone(), none]),
        Test::Status(vec![RequestStatus::Completed]),
        Test::Status(trouble.clone()),
        Test::Endpoint(vec![Endpoint::Responses, Endpoint::Models]),
        Test::Error(vec!["rate_limit_exceeded".to_owned(), "' OR 1 --".to_owned()]),
        Test::Stream(true),
        Test::Cost(Relation::Above, Nanos(900)),
        Test::Cost(Relation::AtMost, Nanos(900)),
        Test::Tokens(Relation::Below, Tokens(33)),
        Test::Duration(Relation::AtLeast, Duration::from_micros(90 * 1_001)),
        Test::Ttft(Relation::Above, Duration::from_micros(77)),
    ];
    let both = |test: Test| [false, true].map(|negated| vec![Term { test: test.clone(), negated }]);
    let mut choices: Vec<_> = tests.into_iter().flat_map(both).collect();
    let term = |negated, test| Term { test, negated };
    choices.extend([
        vec![term(false, Test::Status(trouble)), term(true, Test::Model(vec![gpt]))],
        vec![term(true, Test::Stream(true)), term(true, Test::Key(vec![KeyId::new("a2")]))],
        vec![term(false, Test::Account(vec![ALICE])), term(false, Test::Account(vec![BOB]))],
    ]);
    choices
}

/// Whether `term` holds for `record`.
pub(super) fn holds(term: &Term, record: &RequestRecord) -> bool {
    let test = match &term.test {
        Test::Account(accounts) => accounts.contains(&record.account),
        Test::Key(keys) => keys.contains(&record.key),
        Test::Model(models) => record.model.as_ref().is_some_and(|model| models.contains(model)),
        Test::Status(statuses) => statuses.contains(&record.status),
        Test::Endpoint(endpoints) => endpoints.contains(&record.endpoint),
        Test::Error(codes) => record.error_code.as_ref().is_some_and(|code| codes.contains(code)),
        Test::Stream(wanted) => record.stream == *wanted,
        Test::Cost(how, amount) => compares(record.cost, *how, *amount),
        Test::Tokens(how, tokens) => {
            compares(record.usage.map(|usage| usage.total()), *how, *tokens)
        }
        Test::Duration(how, length) => compares(Some(record.duration), *how, *length),
        Test::Ttft(how, length) => compares(record.ttft, *how, *length),
    };
    test != term.negated
}

fn compares<T: PartialOrd + Copy>(known: Option<T>, how: Relation, value: T) -> bool {
    known.is_some_and(|known| match how {
        Relation::Above => known > value,
        Relation::AtLeast => known >= value,
        Relation::Below => known < value,
        Relation::AtMost => known <= value,
    })
}
