//! The calls about usage: totals, totals by period, recent errors, and pages of older requests.

use jiff::{SignedDuration, Timestamp};
use proto::client;
use proto::v1;
use proto::v1::usage_service_client::UsageServiceClient;
use tonic::Status;

use std::collections::BTreeMap;

use super::call::with_timeout;
use super::convert;
use crate::clock;
use crate::model::record::OlderPage;
use crate::model::traffic::ErrorCount;
use crate::model::usage::{Period, Range, Usage};

/// The number of requests per page. Over a link of 20 KB/s, a page takes two seconds.
const PAGE_SIZE: u32 = 250;
/// The filter of the errors of the last hour.
const ERRORS: &str = "status:failed,rejected,interrupted since:1h";
/// The maximum number of pages that are read for the error codes of the last hour.
const MAX_ERROR_PAGES: usize = 5;

/// Returns the totals of the requests that match `filter` in the time range that ends now, `back`
/// ranges ago.
pub(super) async fn summary(
    channel: client::Connection,
    filter: &str,
    range: Range,
    back: i32,
    models_by_time: bool,
) -> Result<Usage, Status> {
    let length = SignedDuration::from_hours(range.hours());
    let now = clock::now();
    let end = now.saturating_sub(length * back).unwrap_or(now);
    let since = end.saturating_sub(length).unwrap_or(end);
    let until = (back > 0).then_some(end);
    let answer = summarize(channel, filter, since, until, models_by_time).await?;
    Ok(convert::usage(answer, &starts(end, range)))
}

/// Returns the totals of the last hour by minute, and those of the current minute.
pub(super) async fn minutes(channel: client::Connection) -> Result<Vec<Period>, Status> {
    Ok(summary(channel, "", Range::Hour, 0, false).await?.series)
}

/// Returns the starts of the periods of the range that ends at `end`, also of the one that contains
/// `end`.
fn starts(end: Timestamp, range: Range) -> Vec<Timestamp> {
    let seconds = range.period_seconds();
    let current = end.as_second().div_euclid(seconds);
    let count = range.hours() * 3_600 / seconds;
    let starts = (current - count..=current).map(move |number| number * seconds);
    starts.filter_map(|start| Timestamp::from_second(start).ok()).collect()
}

async fn summarize(
    channel: client::Connection,
    filter: &str,
    since: Timestamp,
    until: Option<Timestamp>,
    models_by_time: bool,
) -> Result<v1::SummarizeUsageResponse, Status> {
    let filter = Some(v1::RequestFilter {
        since: Some(to_time(since)),
        until: until.map(to_time),
        expression: filter.to_owned(),
        ..v1::RequestFilter::default()
    });
    let mut usage = UsageServiceClient::new(channel);
    with_timeout(usage.summarize_usage(v1::SummarizeUsageRequest { filter, models_by_time })).await
}

/// Returns the error codes of the last hour, most frequent first. If there are more errors than a page
/// has, each code of the page is counted by itself, and the page after them has only other codes.
pub(super) async fn errors(channel: client::Connection) -> Result<Vec<ErrorCount>, Status> {
    let mut errors: Vec<ErrorCount> = Vec::new();
    for _ in 0..MAX_ERROR_PAGES {
        let codes = errors.iter().map(|it| it.code.as_str()).filter(|it| is_plain(it));
        let filter = match codes.collect::<Vec<_>>().as_slice() {
            [] => ERRORS.to_owned(),
            known => format!("{ERRORS} -error:{}", known.join(",")),
        };
        let (found, is_last) = error_page(channel.clone(), &filter).await?;
        let is_new = |it: &ErrorCount| errors.iter().all(|known| known.code != it.code);
        let mut found: Vec<_> = found.into_iter().filter(is_new).collect();
        let is_over = is_last || found.is_empty();
        for error in found.iter_mut().filter(|it| !is_last && is_plain(&it.code)) {
            let filter = format!("{ERRORS} error:{}", error.code);
            let usage = summary(channel.clone(), &filter, Range::Hour, 0, false).await?;
            error.count = error.count.max(usage.totals.requests);
        }
        errors.extend(found);
        if is_over {
            break;
        }
    }
    errors.sort_by_key(|it| std::cmp::Reverse(it.count));
    Ok(errors)
}

/// Returns whether a code can be a term of a filter. An upstream may have sent any text.
fn is_plain(code: &str) -> bool {
    !code.is_empty() && code.chars().all(|it| it.is_ascii_alphanumeric() || "_-.".contains(it))
}

/// Counts the codes of the newest requests that match, and returns whether these are all. Requests
/// without a code count under the name of their status.
async fn error_page(
    channel: client::Connection,
    expression: &str,
) -> Result<(Vec<ErrorCount>, bool), Status> {
    let filter =
        v1::RequestFilter { expression: expression.to_owned(), ..v1::RequestFilter::default() };
    let request = v1::ListRequestsRequest {
        filter: Some(filter),
        page_size: PAGE_SIZE,
        page_token: String::new(),
    };
    let answer = with_timeout(UsageServiceClient::new(channel).list_requests(request)).await?;
    let mut errors: BTreeMap<String, ErrorCount> = BTreeMap::new();
    for record in answer.requests.into_iter().map(convert::record) {
        let status = || record.status.map(|status| status.name().to_owned());
        let Some(code) = record.error_code.clone().or_else(status) else { continue };
        let entry =
            errors.entry(code.clone()).or_insert(ErrorCount { code, count: 0, last_at: None });
        entry.count = entry.count.saturating_add(record.count.max(1).into());
        entry.last_at = entry.last_at.max(record.started_at);
    }
    Ok((errors.into_values().collect(), answer.next_page_token.is_empty()))
}

/// Returns a page of requests, newest first, with the token of the next one.
pub(super) async fn older(
    channel: client::Connection,
    filter: String,
    page_token: String,
) -> Result<(OlderPage, Option<String>), Status> {
    let expression = filter.clone();
    let request = v1::ListRequestsRequest {
        filter: Some(v1::RequestFilter { expression, ..v1::RequestFilter::default() }),
        page_size: PAGE_SIZE,
        page_token,
    };
    let answer = with_timeout(UsageServiceClient::new(channel).list_requests(request)).await?;
    let next = Some(answer.next_page_token).filter(|token| !token.is_empty());
    let records = answer.requests.into_iter().map(convert::record).collect();
    Ok((OlderPage { filter, records, is_last: next.is_none() }, next))
}

fn to_time(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }
}
