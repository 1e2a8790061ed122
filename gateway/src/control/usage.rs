//! Queries of the request log: pages, single records and summaries.
//!
//! [`super::tail`] follows the log, [`super::export`] reads all of it, and `filter` resolves
//! queries.

use jiff::{SignedDuration, Timestamp};

use super::accounts::Page;
use super::{Caller, Control, ControlError};
use domain::ValidationError;
use domain::id::RequestId;
use domain::record::{RequestRecord, RequestStatus};
use store::{Cursor, KeySum, Summary, TimeUnit};

/// The period of a summary whose query has no start.
const DEFAULT_SUMMARY_PERIOD: SignedDuration = SignedDuration::from_hours(30 * 24);

/// The longest range that is divided by hour: two days, and the hour that both of its ends may share.
const MAX_HOURLY_RANGE: SignedDuration = SignedDuration::from_hours(2 * 24 + 1);

/// The longest range that is divided by minute: two hours, and the minute that both of its ends may share.
const MAX_MINUTELY_RANGE: SignedDuration = SignedDuration::from_mins(2 * 60 + 1);
/// The age of a range from which on it is not divided by minute: the log may no longer have it.
const MAX_MINUTELY_AGE: SignedDuration = SignedDuration::from_hours(24);

/// A query of the request log, with names as the caller gives them. All conditions must hold.
#[derive(Clone, Debug, Default)]
pub struct RequestQuery {
    /// The account, by name or id.
    pub account: Option<String>,
    /// The key, by its public id.
    pub key: Option<String>,
    /// The model, by id or alias.
    pub model: Option<String>,
    /// The final status.
    pub status: Option<RequestStatus>,
    /// The earliest start of a request, inclusive.
    pub since: Option<Timestamp>,
    /// The latest start of a request, exclusive.
    pub until: Option<Timestamp>,
    /// Further conditions, as a filter expression; may be empty.
    pub expression: String,
}

/// A summary, with the account names of its keys.
#[derive(Clone, Debug)]
pub struct SummaryView {
    /// The sums, without those by key.
    pub summary: Summary,
    /// The sums by key with the name of the key's account, highest cost first.
    pub by_key: Vec<(KeySum, String)>,
}

/// A record with the name of its account.
#[derive(Clone, Debug)]
pub struct RecordView {
    /// The record.
    pub record: RequestRecord,
    /// The name of its account; the id if the account no longer exists.
    pub account: String,
}

impl Control {
    /// Lists at most `size` records, newest first, starting after the page token `token`.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the query names an account that the caller may not see,
    /// [`ControlError::Invalid`] if the token is malformed.
    pub async fn list_requests(
        &self,
        caller: &Caller,
        query: RequestQuery,
        size: usize,
        token: &str,
    ) -> Result<Page<RecordView>, ControlError> {
        let filter = self.filter(caller, query)?;
        let before = match token {
            "" => None,
            token => Some(parse_cursor("page_token", token)?),
        };
        if before.is_none() {
            self.ledger.wait_until_stored().await;
        }
        let mut rows = self.store.requests_before(&filter, before, size + 1).await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more).map(|(cursor, _)| cursor.0.to_string());
        Ok(Page { items: self.record_views(rows), next })
    }

    /// Returns one record by its id.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if it does not exist or the caller may not see it.
    pub async fn get_request(&self, caller: &Caller, id: &str) -> Result<RecordView, ControlError> {
        let missing = || ControlError::missing("request", id);
        let id = RequestId(id.parse().map_err(|_| missing())?);
        // Memory first: records move from memory to the store, so this order cannot miss one.
        let record = match self.ledger.find_unwritten(id) {
            Some(record) => Some(record),
            None => self.store.find_request(id).await?,
        };
        record
            .filter(|record| caller.can_see(record.account))
            .map(|record| self.record_view(record))
            .ok_or_else(missing)
    }

    /// Sums the matching requests; those of the last 30 days if the query has no start. The sums are also divided by
    /// hour if the range is not longer than 49 hours, and by minute if it begins in the last day and is not longer
    /// than 121 minutes.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the query names an account that the caller may not see.
    pub async fn summarize(
        &self,
        caller: &Caller,
        query: RequestQuery,
    ) -> Result<SummaryView, ControlError> {
        let now = self.clock.now();
        let mut filter = self.filter(caller, query)?;
        if filter.since.is_none() {
            filter.since = now.saturating_sub(DEFAULT_SUMMARY_PERIOD).ok();
        }
        let range = filter.since.map(|since| filter.until.unwrap_or(now).duration_since(since));
        let age = filter.since.map(|since| now.duration_since(since));
        let by = match range {
            Some(range) if range <= MAX_MINUTELY_RANGE && age <= Some(MAX_MINUTELY_AGE) => {
                TimeUnit::Minute
            }
            Some(range) if range <= MAX_HOURLY_RANGE => TimeUnit::Hour,
            _ => TimeUnit::Day,
        };
        self.ledger.wait_until_stored().await;
        let mut summary = self.store.summarize(&filter, by).await?;
        let by_key = std::mem::take(&mut summary.by_key).into_iter();
        let by_key = by_key.map(|sum| (sum.clone(), self.name_of(sum.account))).collect();
        Ok(SummaryView { summary, by_key })
    }

    pub(super) fn record_views(&self, rows: Vec<(Cursor, RequestRecord)>) -> Vec<RecordView> {
        rows.into_iter().map(|(_, record)| self.record_view(record)).collect()
    }

    pub(super) fn record_view(&self, record: RequestRecord) -> RecordView {
        RecordView { account: self.name_of(record.account), record }
    }
}

/// Parses a cursor. Clients must treat its text as opaque; it is a non-negative number.
///
/// # Errors
/// [`ValidationError`] for `field` if the text is not a cursor.
pub fn parse_cursor(field: &'static str, text: &str) -> Result<Cursor, ValidationError> {
    let cursor = text.parse().ok().filter(|&cursor| cursor >= 0).map(Cursor);
    cursor.ok_or_else(|| {
        ValidationError::new(field, format!("`{field}` must be a value from an earlier response"))
    })
}
