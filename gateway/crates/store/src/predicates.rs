//! Translates filter terms into SQL conditions on the request log and, for fields that the sums
//! have, on the sums.

use crate::codec::{Count, Encode, Micros};
use crate::condition::{Condition, ConditionValue};
use domain::expression::{Comparison, Predicate, Term};
use domain::id::AccountId;
use domain::record::RequestStatus;

/// Adds all of `terms` to the condition.
pub(crate) fn narrow<'a>(condition: &mut Condition, terms: impl IntoIterator<Item = &'a Term>) {
    for Term { predicate, negated } in terms {
        let (clause, values) = clause(predicate);
        if *negated {
            // The clause is null for unknown values, and NOT would leave it null.
            condition.and_with(&format!("({clause}) IS NOT TRUE"), values);
        } else {
            condition.and_with(&clause, values);
        }
    }
}

/// Returns the account that `terms` require, if they name a single one.
pub(crate) fn account(terms: &[Term]) -> Option<AccountId> {
    terms.iter().find_map(|term| match (&term.predicate, term.negated) {
        (Predicate::Account(accounts), false) if accounts.len() == 1 => accounts.first().copied(),
        _ => None,
    })
}

/// Returns whether the sums by key have the field of `term`.
pub(crate) fn is_summed(term: &Term) -> bool {
    match term.predicate {
        Predicate::Account(_) | Predicate::Key(_) | Predicate::Model(_) | Predicate::Status(_) => {
            true
        }
        Predicate::Endpoint(_)
        | Predicate::Error(_)
        | Predicate::Stream(_)
        | Predicate::Cost(..)
        | Predicate::Tokens(..)
        | Predicate::Duration(..)
        | Predicate::Ttft(..) => false,
    }
}

/// Returns whether the sums over all accounts have the field of `term`.
pub(crate) fn is_in_global_sums(term: &Term) -> bool {
    matches!(term.predicate, Predicate::Model(_) | Predicate::Status(_))
}

/// Returns whether `terms` concern the account or key, which the sums over all accounts do not
/// have.
pub(crate) fn concern_owner(terms: &[Term]) -> bool {
    terms.iter().any(|term| matches!(term.predicate, Predicate::Account(_) | Predicate::Key(_)))
}

/// Returns whether `terms` concern the model.
pub(crate) fn concern_model(terms: &[Term]) -> bool {
    terms.iter().any(|term| matches!(term.predicate, Predicate::Model(_)))
}

/// Returns whether `terms` admit requests with this status.
pub(crate) fn allow_status(terms: &[Term], status: RequestStatus) -> bool {
    terms.iter().all(|term| match &term.predicate {
        Predicate::Status(statuses) => statuses.contains(&status) != term.negated,
        _ => true,
    })
}

/// Returns the statuses by which a page is read one at a time, if no account and no single status is selected. The partial
/// index on requests that did not complete is in the order of the log only for one status; of several, the database
/// would sort all rows. `None` if completed requests are selected, which are read in the order of the log.
pub(crate) fn separate_statuses(terms: &[Term]) -> Option<Vec<RequestStatus>> {
    let selected = RequestStatus::ALL.into_iter().filter(|status| allow_status(terms, *status));
    exclude_completed(terms).then(|| selected.collect())
}

/// Returns whether `terms` exclude all completed requests.
pub(crate) fn exclude_completed(terms: &[Term]) -> bool {
    !allow_status(terms, RequestStatus::Completed)
}

fn clause(predicate: &Predicate) -> (String, Vec<ConditionValue>) {
    match predicate {
        Predicate::Account(accounts) => any_of("account", accounts),
        Predicate::Key(keys) => any_of("key", keys),
        Predicate::Model(models) => any_of("model", models),
        Predicate::Status(statuses) => any_of("status", statuses),
        Predicate::Endpoint(endpoints) => any_of("endpoint", endpoints),
        Predicate::Error(codes) => any_of("error_code", codes),
        Predicate::Stream(wanted) => any_of("stream", &[*wanted]),
        Predicate::Cost(how, amount) => compared("cost", *how, *amount),
        Predicate::Tokens(how, tokens) => {
            // The difference cannot overflow, as the sum of two counts can.
            let (clause, values) = compared("input", *how, Count(tokens.0));
            (format!("{clause} - output"), values)
        }
        Predicate::Duration(how, length) => compared("duration", *how, Micros(*length)),
        Predicate::Ttft(how, length) => compared("ttft", *how, Micros(*length)),
    }
}

fn any_of<T: Encode + Clone + Send + Sync + 'static>(
    column: &str,
    values: &[T],
) -> (String, Vec<ConditionValue>) {
    let marks = vec!["?"; values.len()].join(", ");
    let values = values.iter().map(|value| Box::new(value.clone()) as ConditionValue);
    (format!("{column} IN ({marks})"), values.collect())
}

fn compared(
    column: &str,
    how: Comparison,
    value: impl Encode + Send + Sync + 'static,
) -> (String, Vec<ConditionValue>) {
    let sign = match how {
        Comparison::Above => ">",
        Comparison::AtLeast => ">=",
        Comparison::Below => "<",
        Comparison::AtMost => "<=",
    };
    (format!("{column} {sign} ?"), vec![Box::new(value)])
}
