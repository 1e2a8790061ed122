//! Conversion of live traffic, limit usage and upstream health.

use proto::v1;

use super::{present, time};
use crate::model::traffic::{
    ErrorCount, LedgerState, LimitKind, LimitScope, LimitUse, Minute, Percentiles, Traffic,
};
use crate::model::upstreams::{BreakerState, CheckState, CredentialHealth, Health};

pub(in crate::connection) fn traffic(traffic: v1::WatchTrafficResponse) -> Traffic {
    let minute = |it: v1::MinuteTraffic| Minute {
        requests: it.requests,
        errors: it.errors,
        tokens: it.tokens,
    };
    let error = |it: v1::ErrorCount| ErrorCount {
        code: it.code,
        count: it.count,
        last_at: time(it.last_at),
    };
    Traffic {
        in_flight: traffic.in_flight,
        requests_per_second: traffic.requests_per_second,
        tokens_per_second: traffic.tokens_per_second,
        minutes: traffic.minutes.into_iter().map(minute).collect(),
        ttft: traffic.ttft.map(percentiles),
        errors: traffic.errors.into_iter().map(error).collect(),
        ledger: traffic.ledger.map(ledger_state),
    }
}

fn ledger_state(ledger: v1::LedgerState) -> LedgerState {
    LedgerState {
        balance_usd: ledger.balance_usd,
        held_usd: ledger.held_usd,
        is_stopped: ledger.stopped,
        waiting_records: ledger.waiting_records,
        oldest_waiting: time(ledger.oldest_waiting),
    }
}

pub(in crate::connection) fn limit_use(limit: v1::LimitUse) -> LimitUse {
    LimitUse {
        scope: match limit.scope() {
            v1::LimitScope::Unspecified => None,
            v1::LimitScope::Plan => Some(LimitScope::Plan),
            v1::LimitScope::Model => Some(LimitScope::Model),
            v1::LimitScope::Key => Some(LimitScope::Key),
        },
        kind: match limit.kind() {
            v1::LimitKind::Unspecified => None,
            v1::LimitKind::Requests => Some(LimitKind::Requests),
            v1::LimitKind::Tokens => Some(LimitKind::Tokens),
            v1::LimitKind::Concurrency => Some(LimitKind::Concurrency),
            v1::LimitKind::MonthlyTokens => Some(LimitKind::MonthlyTokens),
            v1::LimitKind::Spending => Some(LimitKind::Spending),
        },
        limit: limit.limit,
        used: limit.used,
        observed: limit.observed,
        resets_at: time(limit.resets_at),
        subject: limit.subject,
    }
}

pub(in crate::connection) fn health(health: v1::UpstreamHealth) -> Health {
    Health {
        breaker: match health.breaker() {
            v1::BreakerState::Unspecified => None,
            v1::BreakerState::Closed => Some(BreakerState::Closed),
            v1::BreakerState::Open => Some(BreakerState::Open),
            v1::BreakerState::HalfOpen => Some(BreakerState::HalfOpen),
        },
        check: match health.health_check() {
            v1::HealthCheckState::Unspecified => None,
            v1::HealthCheckState::Passing => Some(CheckState::Passing),
            v1::HealthCheckState::Failing => Some(CheckState::Failing),
        },
        retry_at: time(health.retry_at),
        in_flight: health.in_flight,
        requests: health.requests,
        failures: health.failures,
        latency: health.latency.map(percentiles),
        last_error: present(health.last_error),
        last_error_at: time(health.last_error_at),
        credentials: health
            .credentials
            .into_iter()
            .map(|it| CredentialHealth {
                paused_until: time(it.paused_until),
                requests: it.requests,
                refusals: it.refusals,
                problem: present(it.problem),
            })
            .collect(),
        name: health.name,
    }
}

fn percentiles(it: v1::Percentiles) -> Percentiles {
    Percentiles { p50_ms: it.p50_ms, p90_ms: it.p90_ms, p99_ms: it.p99_ms }
}
