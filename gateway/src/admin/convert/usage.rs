//! Converts filters, request records and usage totals.

use std::num::NonZeroU64;

use proto::v1;

use super::request::{self, unknown};
use super::response::millis;
use super::time;
use crate::capture::{MessageKind, WireMessage};
use crate::control::requests_in_flight::{RequestInFlight, RequestsInFlight};
use crate::control::tail::{TailBatch, TailStart};
use crate::control::usage::{RecordView, RequestQuery, SummaryView, parse_cursor};
use domain::ValidationError;
use domain::record::RequestStatus;
use domain::response::{StoredResponse, response_id};
use domain::usage::{Usage, UsageBasis};
use store::Totals;

pub(in super::super) fn filter(
    filter: Option<v1::RequestFilter>,
) -> Result<RequestQuery, ValidationError> {
    let filter = filter.unwrap_or_default();
    let some = |text: String| (!text.is_empty()).then_some(text);
    Ok(RequestQuery {
        account: some(filter.account),
        key: some(filter.key),
        model: some(filter.model),
        status: status(filter.status)?,
        since: filter.since.map(|since| request::time("since", &since)).transpose()?,
        until: filter.until.map(|until| request::time("until", &until)).transpose()?,
        expression: filter.expression,
    })
}

pub(in super::super) fn tail(
    request: v1::TailRequestsRequest,
) -> Result<(RequestQuery, TailStart, Option<NonZeroU64>), ValidationError> {
    let start = match request.cursor.as_str() {
        "" => TailStart::History(usize::try_from(request.history).unwrap_or(usize::MAX)),
        cursor => TailStart::After(parse_cursor("cursor", cursor)?),
    };
    let max_backlog = NonZeroU64::new(request.max_backlog.into());
    Ok((self::filter(request.filter)?, start, max_backlog))
}

fn status(number: i32) -> Result<Option<RequestStatus>, ValidationError> {
    Ok(Some(match v1::RequestStatus::try_from(number) {
        Ok(v1::RequestStatus::Unspecified) => return Ok(None),
        Ok(v1::RequestStatus::Completed) => RequestStatus::Completed,
        Ok(v1::RequestStatus::Incomplete) => RequestStatus::Incomplete,
        Ok(v1::RequestStatus::Failed) => RequestStatus::Failed,
        Ok(v1::RequestStatus::Cancelled) => RequestStatus::Cancelled,
        Ok(v1::RequestStatus::Interrupted) => RequestStatus::Interrupted,
        Ok(v1::RequestStatus::Rejected) => RequestStatus::Rejected,
        Err(_) => return Err(unknown("status", number)),
    }))
}

pub(in super::super) fn wire_message(message: WireMessage) -> v1::WireMessage {
    let kind = match message.kind {
        MessageKind::Received => v1::WireMessageKind::Received,
        MessageKind::Sent => v1::WireMessageKind::Sent,
        MessageKind::Answered => v1::WireMessageKind::Answered,
        MessageKind::Returned => v1::WireMessageKind::Returned,
    };
    v1::WireMessage {
        kind: kind.into(),
        upstream: message.upstream.unwrap_or_default(),
        head: message.head,
        body: message.body,
        body_bytes: message.body_bytes,
        kept_bytes: message.kept_bytes,
    }
}

pub(in super::super) fn record(view: RecordView) -> v1::RequestRecord {
    let record = view.record;
    let status = match record.status {
        RequestStatus::Completed => v1::RequestStatus::Completed,
        RequestStatus::Incomplete => v1::RequestStatus::Incomplete,
        RequestStatus::Failed => v1::RequestStatus::Failed,
        RequestStatus::Cancelled => v1::RequestStatus::Cancelled,
        RequestStatus::Interrupted => v1::RequestStatus::Interrupted,
        RequestStatus::Rejected => v1::RequestStatus::Rejected,
    };
    let basis = match record.basis {
        UsageBasis::Upstream => v1::UsageBasis::Upstream,
        UsageBasis::Counted => v1::UsageBasis::Counted,
        UsageBasis::Bounded => v1::UsageBasis::Bounded,
        UsageBasis::None => v1::UsageBasis::None,
    };
    v1::RequestRecord {
        id: record.id.to_string(),
        account: view.account,
        key: record.key.to_string(),
        endpoint: record.endpoint.as_str().to_owned(),
        model: record.model.map(|model| model.to_string()),
        deployment: record.deployment.map(|deployment| deployment.to_string()),
        stream: record.stream,
        status: status.into(),
        http_status: record.http_status.map(u32::from),
        error_code: record.error_code,
        tokens: record.usage.map(|usage| tokens(&usage)),
        usage_basis: basis.into(),
        cost_usd: record.cost.map(|cost| cost.to_string()),
        price_version: record.price_version,
        started_at: Some(time(record.started_at)),
        duration_ms: Some(millis(record.duration)),
        ttft_ms: record.ttft.map(millis),
        notes: record.notes,
        count: record.count.get(),
    }
}

pub(in super::super) fn requests_in_flight(
    in_flight: RequestsInFlight,
) -> v1::ListRequestsInFlightResponse {
    let RequestsInFlight { requests, total } = in_flight;
    let requests = requests.into_iter().map(request_in_flight).collect();
    v1::ListRequestsInFlightResponse { requests, total: total as u64 }
}

fn request_in_flight(request: RequestInFlight) -> v1::RequestInFlight {
    let RequestInFlight { view, age, input_bytes, output_bytes } = request;
    let v1::RequestRecord {
        id, account, key, endpoint, model, deployment, stream, started_at, ..
    } = record(view);
    v1::RequestInFlight {
        id,
        account,
        key,
        endpoint,
        model: model.unwrap_or_default(),
        deployment: deployment.unwrap_or_default(),
        stream,
        started_at,
        age_ms: millis(age),
        input_bytes,
        output_bytes,
    }
}

fn tokens(usage: &Usage) -> v1::TokenCounts {
    v1::TokenCounts {
        input: Some(usage.input.0),
        cached: usage.cached.map(|tokens| tokens.0),
        output: Some(usage.output.0),
        reasoning: usage.reasoning.map(|tokens| tokens.0),
    }
}

pub(in super::super) fn tail_update(update: TailBatch) -> v1::TailRequestsResponse {
    v1::TailRequestsResponse {
        requests: update.records.into_iter().map(record).collect(),
        cursor: update.cursor.0.to_string(),
        dropped: update.dropped,
        live: update.live,
    }
}

/// The maximum size of a chunk of an exported response, in bytes.
const CHUNK_BYTES: usize = 256 * 1024;

/// Returns a stored response as a JSON line, in chunks.
pub(in super::super) fn response_chunks(
    response: &StoredResponse,
) -> Vec<v1::ExportResponsesResponse> {
    // A line break in JSON is white space: within a string, it is escaped.
    let one_line = |json: &str| json.replace(['\n', '\r'], " ");
    let line = format!(
        "{{\"record\":\"response\",\"id\":\"{}\",\"created_at\":\"{}\",\"input\":{},\"response\":{}}}\n",
        response_id(response.id),
        response.created_at,
        one_line(&response.input),
        one_line(&response.object),
    );
    let chunk = |data: &[u8]| v1::ExportResponsesResponse { data: data.to_vec() };
    line.as_bytes().chunks(CHUNK_BYTES).map(chunk).collect()
}

pub(in super::super) fn export(page: Vec<RecordView>) -> v1::ExportRequestsResponse {
    v1::ExportRequestsResponse { requests: page.into_iter().map(record).collect() }
}

pub(in super::super) fn summary(
    view: SummaryView,
    models_by_time: bool,
) -> v1::SummarizeUsageResponse {
    let SummaryView { summary, by_key } = view;
    let by_key = by_key.into_iter().map(|(sum, account)| v1::KeyUsage {
        key: sum.key.to_string(),
        label: sum.label.unwrap_or_default(),
        account,
        totals: Some(totals(&sum.totals)),
    });
    let by_model = summary.by_model.into_iter().map(|(model, sum)| v1::ModelUsage {
        model: model.map(|model| model.to_string()).unwrap_or_default(),
        totals: Some(totals(&sum)),
    });
    let by_day = summary
        .by_day
        .into_iter()
        .map(|(day, sum)| v1::DayUsage { day, totals: Some(totals(&sum)) });
    let by_hour = summary
        .by_hour
        .into_iter()
        .map(|(start, sum)| v1::HourUsage { start: Some(time(start)), totals: Some(totals(&sum)) });
    let by_minute = summary.by_minute.into_iter().map(|(start, sum)| v1::MinuteUsage {
        start: Some(time(start)),
        totals: Some(totals(&sum)),
    });
    let by_model_and_time = summary.by_model_and_time.into_iter().filter(|_| models_by_time);
    let by_model_and_time = by_model_and_time.map(|(start, model, sum)| v1::ModelTimeUsage {
        start: Some(time(start)),
        model: model.map(|model| model.to_string()).unwrap_or_default(),
        totals: Some(totals(&sum)),
    });
    v1::SummarizeUsageResponse {
        by_minute: by_minute.collect(),
        by_model_and_time: by_model_and_time.collect(),
        totals: Some(totals(&summary.totals)),
        by_model: by_model.collect(),
        by_day: by_day.collect(),
        by_hour: by_hour.collect(),
        by_key: by_key.collect(),
    }
}

fn totals(sum: &Totals) -> v1::UsageTotals {
    v1::UsageTotals {
        requests: sum.requests,
        errors: sum.errors,
        tokens: Some(v1::TokenCounts {
            input: Some(sum.input),
            cached: Some(sum.cached),
            output: Some(sum.output),
            reasoning: Some(sum.reasoning),
        }),
        cost_usd: sum.cost.to_string(),
    }
}
