//! Conversion of request records and usage totals.

use jiff::Timestamp;
use proto::v1;

use super::{present, time};
use crate::model::record::{Record, RequestStatus, Tokens, Totals, UsageBasis};
use crate::model::usage::Usage;

pub(in crate::connection) fn usage(usage: v1::SummarizeUsageResponse) -> Usage {
    let key = |it: v1::KeyUsage| {
        let name = present(it.label).unwrap_or(it.key);
        (name, totals(it.totals))
    };
    Usage {
        totals: totals(usage.totals),
        by_model: usage.by_model.into_iter().map(|by| (by.model, totals(by.totals))).collect(),
        by_day: usage.by_day.into_iter().map(|by| (by.day, totals(by.totals))).collect(),
        by_key: usage.by_key.into_iter().map(key).collect(),
    }
}

/// Returns the start of an hour and its totals.
pub(in crate::connection) fn hour(hour: v1::HourUsage) -> (Timestamp, Totals) {
    (time(hour.start).unwrap_or_default(), totals(hour.totals))
}

pub(in crate::connection) fn record(record: v1::RequestRecord) -> Record {
    Record {
        status: status(record.status()),
        basis: match record.usage_basis() {
            v1::UsageBasis::Unspecified => None,
            v1::UsageBasis::Upstream => Some(UsageBasis::Upstream),
            v1::UsageBasis::Counted => Some(UsageBasis::Counted),
            v1::UsageBasis::Bounded => Some(UsageBasis::Bounded),
            v1::UsageBasis::None => Some(UsageBasis::Nothing),
        },
        started_at: time(record.started_at),
        tokens: tokens(record.tokens),
        cost_usd: record.cost_usd.and_then(present),
        id: record.id,
        account: record.account,
        key: record.key,
        endpoint: record.endpoint,
        model: record.model,
        deployment: record.deployment,
        stream: record.stream,
        http_status: record.http_status,
        error_code: record.error_code.and_then(present),
        price_version: record.price_version,
        duration_ms: record.duration_ms,
        ttft_ms: record.ttft_ms,
        notes: record.notes,
        count: record.count,
    }
}

fn status(status: v1::RequestStatus) -> Option<RequestStatus> {
    match status {
        v1::RequestStatus::Unspecified => None,
        v1::RequestStatus::Completed => Some(RequestStatus::Completed),
        v1::RequestStatus::Incomplete => Some(RequestStatus::Incomplete),
        v1::RequestStatus::Failed => Some(RequestStatus::Failed),
        v1::RequestStatus::Cancelled => Some(RequestStatus::Cancelled),
        v1::RequestStatus::Interrupted => Some(RequestStatus::Interrupted),
        v1::RequestStatus::Rejected => Some(RequestStatus::Rejected),
    }
}

fn totals(totals: Option<v1::UsageTotals>) -> Totals {
    let totals = totals.unwrap_or_default();
    Totals {
        requests: totals.requests,
        errors: totals.errors,
        tokens: tokens(totals.tokens),
        cost_usd: present(totals.cost_usd),
    }
}

fn tokens(tokens: Option<v1::TokenCounts>) -> Tokens {
    let tokens = tokens.unwrap_or_default();
    Tokens {
        input: tokens.input,
        cached: tokens.cached,
        output: tokens.output,
        reasoning: tokens.reasoning,
    }
}
