//! Translates a selection of requests into conditions on the log and on the sums.

use jiff::Timestamp;

use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use crate::condition::Condition;
use crate::summary::DAY;
use crate::{RequestFilter, StoreError, predicates};
use domain::expression::{Predicate, Term};
use domain::id::AccountId;
use domain::record::RequestStatus;

/// A [`RequestFilter`] with the account of its key, because rows are found by account.
#[derive(Clone)]
pub(super) struct Selection<'a> {
    filter: &'a RequestFilter,
    account: Option<AccountId>,
    status: Option<RequestStatus>,
    terms: Vec<&'a Term>,
    /// The start in microseconds, if any.
    pub(super) since: Option<i64>,
    /// The end in microseconds, if any.
    pub(super) until: Option<i64>,
}

impl<'a> Selection<'a> {
    /// Converts `filter`.
    pub(super) async fn of(
        tx: &Transaction<'_>,
        filter: &'a RequestFilter,
    ) -> Result<Self, StoreError> {
        let account = filter.account.or_else(|| predicates::account(&filter.terms));
        let account = match (account, &filter.key) {
            (None, Some(key)) => {
                let sql = "SELECT account FROM keys WHERE id = $1";
                tx.query_opt(sql, parameters![key]).await?.map(|row| row.column(0)).transpose()?
            }
            (account, _) => account,
        };
        let since = filter.since.map(Timestamp::as_microsecond);
        let until = filter.until.map(Timestamp::as_microsecond);
        let terms = filter.terms.iter().collect();
        Ok(Self { filter, account, status: filter.status, terms, since, until })
    }

    /// Returns selections that together have the same rows, each of which an index finds in the order of the log.
    pub(super) fn parts(&self) -> Vec<Self> {
        if self.account.is_some() || self.status.is_some() {
            return vec![self.clone()];
        }
        let Some(statuses) = predicates::separate_statuses(&self.filter.terms) else {
            return vec![self.clone()];
        };
        // With the terms on the status, which each of these satisfies, the planner would expect hardly any rows, and
        // read all of them to sort what it finds.
        let is_left = |term: &&&Term| !matches!(term.predicate, Predicate::Status(_));
        let terms: Vec<_> = self.terms.iter().filter(is_left).copied().collect();
        let part = |status| Self { status: Some(status), terms: terms.clone(), ..self.clone() };
        statuses.into_iter().map(part).collect()
    }

    /// Returns whether only the log has what the selection depends on.
    pub(super) fn needs_log(&self) -> bool {
        !self.filter.terms.iter().all(predicates::is_summed)
    }

    /// Returns the condition on records that arrived in the time range.
    pub(super) fn in_log(&self, since: Option<i64>, until: Option<i64>) -> Condition {
        let mut condition = self.in_sums();
        condition.and_if_some("started_at >= ?", since);
        condition.and_if_some("started_at < ?", until);
        // Only the partitions of these days are read.
        condition.and_if_some("day >= ?", since.map(|since| since.div_euclid(DAY)));
        condition.and_if_some("day <= ?", until.map(|until| until.div_euclid(DAY)));
        condition
    }

    /// Returns the condition on sums, whatever their time.
    pub(super) fn in_sums(&self) -> Condition {
        let mut condition = Condition::default();
        condition.and_if_some("account = ?", self.account);
        condition.and_if_some("key = ?", self.filter.key.clone());
        condition.and_if_some("model = ?", self.filter.model.clone());
        condition.and_if_some("status = ?", self.status);
        predicates::narrow(&mut condition, self.terms.iter().copied());
        condition
    }
}
