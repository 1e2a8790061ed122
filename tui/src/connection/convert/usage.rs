//! Conversion of request records and usage totals.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proto::v1;

use std::collections::BTreeMap;

use super::{present, time};
use crate::model::in_flight::InFlight;
use crate::model::record::{Record, RequestStatus, Tokens, Totals, UsageBasis};
use crate::model::usage::{Period, Usage};

/// Converts totals. `starts` are those of all periods of the series, oldest first; the gateway omits
/// those without requests.
pub(in crate::connection) fn usage(
    usage: v1::SummarizeUsageResponse,
    starts: &[Timestamp],
) -> Usage {
    let key = |it: v1::KeyUsage| {
        let name = present(it.label).unwrap_or(it.key);
        (name, totals(it.totals))
    };
    let day = |it: v1::DayUsage| {
        let day: Date = it.day.parse().ok()?;
        Some((day.to_zoned(TimeZone::UTC).ok()?.timestamp(), totals(it.totals)))
    };
    let minute = |it: v1::MinuteUsage| Some((time(it.start)?, totals(it.totals)));
    let hour = |it: v1::HourUsage| Some((time(it.start)?, totals(it.totals)));
    let length = starts
        .get(1)
        .zip(starts.first())
        .map_or(0, |(second, first)| second.duration_since(*first).as_secs());
    let mut found: BTreeMap<Timestamp, Totals> = match length {
        60 => usage.by_minute.into_iter().filter_map(minute).collect(),
        3_600 => usage.by_hour.into_iter().filter_map(hour).collect(),
        _ => usage.by_day.into_iter().filter_map(day).collect(),
    };
    let period = |start| Period { start, totals: found.remove(&start).unwrap_or_default() };
    let series = starts.iter().copied().map(period).collect();
    let by_model_and_time = usage.by_model_and_time.into_iter();
    Usage {
        totals: totals(usage.totals),
        by_model: usage.by_model.into_iter().map(|by| (by.model, totals(by.totals))).collect(),
        series,
        by_model_and_time: by_model_and_time
            .filter_map(|it| Some((time(it.start)?, it.model, totals(it.totals))))
            .collect(),
        by_key: usage.by_key.into_iter().map(key).collect(),
    }
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

pub(in crate::connection) fn in_flight(request: v1::RequestInFlight) -> InFlight {
    InFlight {
        started_at: time(request.started_at),
        id: request.id,
        account: request.account,
        key: request.key,
        endpoint: request.endpoint,
        model: request.model,
        deployment: request.deployment,
        stream: request.stream,
        age_ms: request.age_ms,
        input_bytes: request.input_bytes,
        output_bytes: request.output_bytes,
        recent: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_has_all_periods_in_the_unit_of_the_range() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let start = |second: i64| Some(prost_types::Timestamp { seconds: second, nanos: 0 });
        let of = |requests| Some(v1::UsageTotals { requests, ..v1::UsageTotals::default() });
        let answer = v1::SummarizeUsageResponse {
            by_day: vec![v1::DayUsage { day: "1970-01-02".to_owned(), totals: of(3) }],
            by_hour: vec![v1::HourUsage { start: start(3_600), totals: of(2) }],
            by_minute: vec![v1::MinuteUsage { start: start(60), totals: of(1) }],
            ..v1::SummarizeUsageResponse::default()
        };
        for (seconds, expected) in [(60, [0, 1, 0]), (3_600, [0, 2, 0]), (86_400, [0, 3, 0])] {
            let starts = [0, 1, 2].map(|number| at(number * seconds));
            let found = usage(answer.clone(), &starts);
            let requests: Vec<_> = found.series.iter().map(|it| it.totals.requests).collect();
            assert_eq!(requests, expected, "by {seconds} s");
            assert!(found.series.iter().map(|it| it.start).eq(starts));
        }
    }
}
