//! Translates a selection of requests into a condition on the log.
//!
//! The log is in the order of commits, account by account within a batch, and has no index on the
//! arrival time: `request_hours` bounds the rows that a time range can be in.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params_from_iter};

use super::codec::{Parameter, ReadColumn, parameters};
use super::spans::{self, EVERYTHING, RowRange};
use crate::condition::Condition;
use crate::predicates;
use crate::summary::HOUR;
use crate::{RequestFilter, StoreError};
use domain::expression::Term;
use domain::id::{AccountId, KeyId, ModelId};
use domain::record::{RequestRecord, RequestStatus};

/// A [`RequestFilter`] with times in microseconds and with the account of its key.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    pub(super) account: Option<AccountId>,
    pub(super) key: Option<KeyId>,
    pub(super) model: Option<ModelId>,
    pub(super) status: Option<RequestStatus>,
    pub(super) since: Option<i64>,
    pub(super) until: Option<i64>,
    pub(super) terms: Vec<Term>,
}

// === impl Selection ===

impl Selection {
    /// Converts `filter`. Adds the account of a key, because rows can be found by account.
    pub(super) fn of(tx: &Connection, filter: &RequestFilter) -> Result<Self, StoreError> {
        let account = filter.account.or_else(|| predicates::account(&filter.terms));
        let account = match (account, &filter.key) {
            (None, Some(key)) => tx
                .prepare_cached("SELECT account FROM keys WHERE id = ?")?
                .query_row(parameters![key], |row| row.column(0))
                .optional()?,
            (account, _) => account,
        };
        Ok(Self {
            account,
            key: filter.key.clone(),
            model: filter.model.clone(),
            status: filter.status,
            since: filter.since.map(Timestamp::as_microsecond),
            until: filter.until.map(Timestamp::as_microsecond),
            terms: filter.terms.clone(),
        })
    }

    /// Returns whether nothing can match. Keys are never deleted, so a key that is not stored has no
    /// requests. (After an older copy of the database was restored, requests from the journal may
    /// name a key that the copy does not have; they are only found without the key.)
    pub(super) fn matches_nothing(&self) -> bool {
        self.key.is_some() && self.account.is_none()
    }

    /// Returns whether the selection depends on the model.
    fn depends_on_model(&self) -> bool {
        self.model.is_some() || predicates::concern_model(&self.terms)
    }

    /// Returns whether no completed request is selected.
    fn excludes_completed(&self) -> bool {
        self.status.is_some_and(|status| status != RequestStatus::Completed)
            || predicates::exclude_completed(&self.terms)
    }

    /// Returns selections that together have the same rows, each of which an index finds in the order
    /// of the log.
    pub(super) fn parts(&self) -> Vec<Self> {
        if self.account.is_some() || self.status.is_some() {
            return vec![self.clone()];
        }
        match predicates::separate_statuses(&self.terms) {
            Some(statuses) => {
                let part = |status| Self { status: Some(status), ..self.clone() };
                statuses.into_iter().map(part).collect()
            }
            None => vec![self.clone()],
        }
    }

    /// Returns the table expression to select from.
    pub(super) fn source(&self) -> String {
        spans::REQUEST_SPANS.source(self.account)
    }

    /// Returns the condition on rows between the ends.
    pub(super) fn condition(
        &self,
        tx: &Connection,
        (mut first, mut last): RowRange,
    ) -> Result<Condition, StoreError> {
        let mut condition = Condition::default();
        if self.matches_nothing() {
            condition.and("FALSE");
        }
        condition.and_if_some("key = ?", self.key.clone());
        condition.and_if_some("model = ?", self.model.clone());
        condition.and_if_some("status = ?", self.status);
        predicates::narrow(&mut condition, &self.terms);
        if self.excludes_completed() && self.account.is_none() {
            // Tells SQLite that it may use the partial index on these rows.
            condition.and("status <> 1");
        }
        if self.since.is_some() || self.until.is_some() {
            condition.and_if_some("started_at >= ?", self.since);
            condition.and_if_some("started_at < ?", self.until);
            let (earliest, latest) = self.arrival_range(tx)?;
            (first, last) = (first.max(earliest), last.min(latest));
        }
        spans::REQUEST_SPANS.narrow(&mut condition, self.account, (first, last));
        Ok(condition)
    }

    /// Returns the shortest range of the log that contains all requests that arrived in the time
    /// range.
    fn arrival_range(&self, tx: &Connection) -> Result<RowRange, StoreError> {
        let sql = "SELECT coalesce(min(first), 1), coalesce(max(last), 0) \
            FROM request_hours WHERE hour BETWEEN ? AND ?";
        let since = self.since.map_or(i64::MIN, |time| time.div_euclid(HOUR));
        let until = self.until.map_or(i64::MAX, |time| time.div_euclid(HOUR));
        let ends = |row: &rusqlite::Row<'_>| Ok((row.column(0)?, row.column(1)?));
        Ok(tx.prepare_cached(sql)?.query_row(parameters![since, until], ends)?)
    }

    /// Returns the ranges of the log that may contain the selection, oldest first. The log has no
    /// index on the model; a rare model is found by the hours in which it was used.
    pub(super) fn ranges(&self, tx: &Connection) -> Result<Vec<RowRange>, StoreError> {
        if self.account.is_some() || !self.depends_on_model() {
            return Ok(vec![EVERYTHING]);
        }
        let mut condition = Condition::default();
        condition.and("account = x''");
        condition.and_if_some("model = ?", self.model.clone());
        condition.and_if_some("status = ?", self.status);
        condition.and_if_some("hour >= ?", self.since.map(|time| time.div_euclid(HOUR)));
        condition.and_if_some("hour <= ?", self.until.map(|time| time.div_euclid(HOUR)));
        predicates::narrow(
            &mut condition,
            self.terms.iter().filter(|term| predicates::is_in_global_sums(term)),
        );
        let sql = format!(
            "SELECT first, last FROM request_hours WHERE hour IN (SELECT hour FROM request_sums {}) \
                ORDER BY first",
            condition.sql()
        );
        let mut select = tx.prepare_cached(&sql)?;
        let mut rows = select.query(params_from_iter(condition.values().map(Parameter)))?;
        let mut ranges = Vec::<RowRange>::new();
        while let Some(row) = rows.next()? {
            let (first, last): (i64, i64) = (row.column(0)?, row.column(1)?);
            match ranges.last_mut() {
                // A request that arrived early may have ended late, so the ranges of hours overlap.
                Some((_, end)) if first <= *end + 1 => *end = last.max(*end),
                _ => ranges.push((first, last)),
            }
        }
        Ok(ranges)
    }
}

/// Removes positions before `first`, the new start of the log, from the hours.
pub(super) fn shorten_hours(tx: &Connection, first: i64) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM request_hours WHERE last < ?")?.execute(parameters![first])?;
    let sql = "UPDATE request_hours SET first = ?1 WHERE first < ?1";
    tx.prepare_cached(sql)?.execute(parameters![first])?;
    Ok(())
}

/// Records the hours in which these records arrived.
pub(super) fn extend_hours(
    tx: &Connection,
    fresh: &[(i64, &RequestRecord)],
) -> Result<(), StoreError> {
    let mut hours = HashMap::<i64, (i64, i64)>::new();
    for (seq, record) in fresh {
        let hour = record.started_at.as_microsecond().div_euclid(HOUR);
        // Positions are ascending.
        hours.entry(hour).or_insert((*seq, *seq)).1 = *seq;
    }
    let sql = "INSERT INTO request_hours VALUES (?, ?, ?) \
        ON CONFLICT DO UPDATE SET last = excluded.last";
    let mut extend = tx.prepare_cached(sql)?;
    for (hour, (first, last)) in hours {
        extend.execute(parameters![hour, first, last])?;
    }
    Ok(())
}
