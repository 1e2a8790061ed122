//! Which requests a caller means: names become ids, and members are kept to what is theirs.

use super::usage::RequestQuery;
use super::{Caller, Control, ControlError};
use domain::expression::{self, Expression, Names, Test};
use domain::id::{AccountId, KeyId, ModelId};
use store::RequestFilter;

/// What one caller calls things.
struct Seen<'a> {
    control: &'a Control,
    caller: &'a Caller,
}

impl Names for Seen<'_> {
    type Error = ControlError;

    fn account(&self, text: &str) -> Result<AccountId, ControlError> {
        Ok(self.control.visible_account(self.caller, text)?.id)
    }

    fn model(&self, text: &str) -> ModelId {
        // a model that was removed, or never was there, still has its records
        let found = self.control.visible_model(self.caller, text).map(|model| model.id.clone());
        found.unwrap_or_else(|_| ModelId::new(text))
    }
}

impl Control {
    /// Turns names into ids, and keeps members to what is theirs.
    pub(super) fn filter(
        &self,
        caller: &Caller,
        choice: RequestQuery,
    ) -> Result<RequestFilter, ControlError> {
        let names = Seen { control: self, caller };
        let account = match &choice.account {
            Some(text) => Some(names.account(text)?),
            None if caller.is_operator() => None,
            None => Some(caller.account.id),
        };
        let mut filter = RequestFilter {
            account,
            key: choice.key.map(KeyId::new),
            model: choice.model.map(|name| names.model(&name)),
            status: choice.status,
            since: choice.since,
            until: choice.until,
            terms: Vec::new(),
        };
        narrow(&mut filter, expression::parse(&choice.expression, self.clock.now(), &names)?);
        Ok(filter)
    }
}

/// Adds the conditions of `expression`: those that the filter has fields for into these, which the
/// store answers fastest.
fn narrow(filter: &mut RequestFilter, expression: Expression) {
    let Expression { since, until, terms } = expression;
    filter.since = filter.since.max(since);
    filter.until = match (filter.until, until) {
        (Some(given), Some(typed)) => Some(given.min(typed)),
        (given, typed) => given.or(typed),
    };
    for term in terms {
        let taken = match &term.test {
            _ if term.negated => false,
            Test::Account(accounts) => take(&mut filter.account, accounts),
            Test::Key(keys) => take(&mut filter.key, keys),
            Test::Model(models) => take(&mut filter.model, models),
            Test::Status(statuses) => take(&mut filter.status, statuses),
            _ => false,
        };
        if !taken {
            filter.terms.push(term);
        }
    }
}

/// Puts the only one of `values` into `field`, unless another is there. Returns whether it is now.
fn take<T: Clone + PartialEq>(field: &mut Option<T>, values: &[T]) -> bool {
    let [value] = values else { return false };
    *field.get_or_insert_with(|| value.clone()) == *value
}
