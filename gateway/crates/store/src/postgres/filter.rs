//! Translates a selection of requests into conditions on the log and on the sums.

use jiff::Timestamp;

use super::codec::{ReadColumn, parameters};
use super::transaction::Transaction;
use crate::condition::Condition;
use crate::summary::DAY;
use crate::{RequestFilter, StoreError, predicates};
use domain::id::AccountId;

/// A [`RequestFilter`] with the account of its key, because rows are found by account.
pub(super) struct Selection<'a> {
    filter: &'a RequestFilter,
    account: Option<AccountId>,
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
        Ok(Self { filter, account, since, until })
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
        condition.and_if_some("status = ?", self.filter.status);
        predicates::narrow(&mut condition, &self.filter.terms);
        condition
    }
}
