//! Turns a [`RequestQuery`] into a store filter: resolves names to ids and restricts members to
//! their account.

use super::usage::RequestQuery;
use super::{Caller, Control, ControlError};
use domain::expression::{self, Expression, Predicate, Resolver};
use domain::id::{AccountId, KeyId, ModelId};
use store::RequestFilter;

/// Resolves names in filter expressions, as far as the caller may see the named objects.
struct CallerNames<'a> {
    control: &'a Control,
    caller: &'a Caller,
}

impl Resolver for CallerNames<'_> {
    type Error = ControlError;

    fn account(&self, text: &str) -> Result<AccountId, ControlError> {
        Ok(self.control.visible_account(self.caller, text)?.id)
    }

    fn model(&self, text: &str) -> ModelId {
        // Unknown names stay as they are, because records outlive their model.
        let found = self.control.visible_model(self.caller, text).map(|model| model.id.clone());
        found.unwrap_or_else(|_| ModelId::new(text))
    }
}

impl Control {
    /// Builds the filter of `query`. Members are restricted to their own account.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] for an account that the caller may not see,
    /// [`ControlError::Invalid`] if the expression does not parse.
    pub(super) fn filter(
        &self,
        caller: &Caller,
        query: RequestQuery,
    ) -> Result<RequestFilter, ControlError> {
        let names = CallerNames { control: self, caller };
        let account = match &query.account {
            Some(text) => Some(names.account(text)?),
            None if caller.sees_all() => None,
            None => Some(caller.account.id),
        };
        let mut filter = RequestFilter {
            account,
            key: query.key.map(KeyId::new),
            model: query.model.map(|name| names.model(&name)),
            status: query.status,
            since: query.since,
            until: query.until,
            terms: Vec::new(),
        };
        add_conditions(
            &mut filter,
            expression::parse(&query.expression, self.clock.now(), &names)?,
        );
        Ok(filter)
    }
}

/// Adds the conditions of `expression` to `filter`. Prefers the filter's own fields, which the
/// store answers fastest, over `terms`.
fn add_conditions(filter: &mut RequestFilter, expression: Expression) {
    let Expression { since, until, terms } = expression;
    filter.since = filter.since.max(since);
    filter.until = match (filter.until, until) {
        (Some(field), Some(expression)) => Some(field.min(expression)),
        (field, expression) => field.or(expression),
    };
    for term in terms {
        let has_field = match &term.predicate {
            _ if term.negated => false,
            Predicate::Account(accounts) => set_single(&mut filter.account, accounts),
            Predicate::Key(keys) => set_single(&mut filter.key, keys),
            Predicate::Model(models) => set_single(&mut filter.model, models),
            Predicate::Status(statuses) => set_single(&mut filter.status, statuses),
            _ => false,
        };
        if !has_field {
            filter.terms.push(term);
        }
    }
}

/// Sets `field` to the single element of `values`. Returns whether `field` now has that value;
/// `false` if it has another one, or if there is not exactly one element.
fn set_single<T: Clone + PartialEq>(field: &mut Option<T>, values: &[T]) -> bool {
    let [value] = values else { return false };
    *field.get_or_insert_with(|| value.clone()) == *value
}
