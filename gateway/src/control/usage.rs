//! The request log, read: pages, single records and sums. [`super::tail`] follows it, and
//! `filter` reads what is chosen of it.

use jiff::{SignedDuration, Timestamp};

use super::accounts::Page;
use super::{Caller, Control, ControlError};
use domain::Invalid;
use domain::id::RequestId;
use domain::record::{RequestRecord, RequestStatus};
use store::{Cursor, KeySum, Summary};

/// How far back sums go if nobody says.
const SUMMARY: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Which requests, as a caller names them; every field narrows the choice.
#[derive(Clone, Debug, Default)]
pub struct RequestQuery {
    /// Of the account with this name or id.
    pub account: Option<String>,
    /// Of the key with this public id.
    pub key: Option<String>,
    /// Of the model with this id or alias.
    pub model: Option<String>,
    /// That ended so.
    pub status: Option<RequestStatus>,
    /// That came in at or after this time.
    pub since: Option<Timestamp>,
    /// That came in before this time.
    pub until: Option<Timestamp>,
    /// More conditions, as people type them.
    pub expression: String,
}

/// Sums, with the names of the accounts that keys belong to.
#[derive(Clone, Debug)]
pub struct SummaryView {
    /// The sums.
    pub summary: Summary,
    /// Those by key, the dearest first.
    pub by_key: Vec<(KeySum, String)>,
}

/// A record with the name of its account.
#[derive(Clone, Debug)]
pub struct RecordView {
    /// The record.
    pub record: RequestRecord,
    /// The name of its account.
    pub account: String,
}

impl Control {
    /// Lists records, newest first, at most `size` from where `token` says.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the choice names an account that is not the caller's to see,
    /// [`ControlError::Invalid`] if the token is not one of ours.
    pub async fn list_requests(
        &self,
        caller: &Caller,
        choice: RequestQuery,
        size: usize,
        token: &str,
    ) -> Result<Page<RecordView>, ControlError> {
        let filter = self.filter(caller, choice)?;
        let before = match token {
            "" => None,
            token => Some(parse_cursor("page_token", token)?),
        };
        if before.is_none() {
            self.ledger.flushed().await;
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
    /// [`ControlError::NotFound`] if it does not exist or is not the caller's to see.
    pub async fn get_request(&self, caller: &Caller, id: &str) -> Result<RecordView, ControlError> {
        let missing = || ControlError::missing("request", id);
        let id = RequestId(id.parse().map_err(|_| missing())?);
        // first what is in memory: from there records go into the store, and never back
        let record = match self.ledger.find_unwritten(id) {
            Some(record) => Some(record),
            None => self.store.find_request(id).await?,
        };
        record
            .filter(|record| caller.sees(record.account))
            .map(|record| self.record_view(record))
            .ok_or_else(missing)
    }

    /// Sums the chosen requests; those of the last 30 days if the choice names no start.
    ///
    /// # Errors
    /// [`ControlError::NotFound`] if the choice names an account that is not the caller's to see.
    pub async fn summarize(
        &self,
        caller: &Caller,
        choice: RequestQuery,
    ) -> Result<SummaryView, ControlError> {
        let mut filter = self.filter(caller, choice)?;
        if filter.since.is_none() {
            filter.since = self.clock.now().saturating_sub(SUMMARY).ok();
        }
        self.ledger.flushed().await;
        let mut summary = self.store.summarize(&filter).await?;
        let by_key = std::mem::take(&mut summary.by_key).into_iter();
        let by_key = by_key.map(|sum| (sum.clone(), self.account_name(sum.account))).collect();
        Ok(SummaryView { summary, by_key })
    }

    pub(super) fn record_views(&self, rows: Vec<(Cursor, RequestRecord)>) -> Vec<RecordView> {
        rows.into_iter().map(|(_, record)| self.record_view(record)).collect()
    }

    fn record_view(&self, record: RequestRecord) -> RecordView {
        RecordView { account: self.account_name(record.account), record }
    }
}

/// Reads a cursor's text. It is opaque to callers; to us it is a number.
///
/// # Errors
/// [`Invalid`] for `field` if we did not make it.
pub fn parse_cursor(field: &'static str, text: &str) -> Result<Cursor, Invalid> {
    let cursor = text.parse().ok().filter(|&cursor| cursor >= 0).map(Cursor);
    cursor.ok_or_else(|| {
        Invalid::new(field, format!("`{field}` must be one that an earlier answer gave"))
    })
}
