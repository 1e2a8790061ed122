//! Converts traffic, the use of limits and the health of upstreams to messages.

use proto::v1;

use super::response::{credential, millis};
use super::time;
use crate::control::health::{CredentialView, HealthView};
use crate::control::limit_use::{LimitMetric, LimitView};
use crate::control::traffic::{LedgerState, TrafficSnapshot};
use domain::health::{BreakerState, CheckState};
use domain::latency::Percentiles;
use domain::limit::{LimitKind, LimitScope};

pub(in super::super) fn snapshot(snapshot: TrafficSnapshot) -> v1::WatchTrafficResponse {
    let TrafficSnapshot { at, in_flight, history, ledger } = snapshot;
    let minutes = history.minutes.iter().map(|minute| v1::MinuteTraffic {
        requests: minute.requests,
        errors: minute.errors,
        tokens: minute.tokens,
    });
    let errors = history.errors.into_iter().map(|error| v1::ErrorCount {
        code: error.code,
        count: error.count,
        last_at: Some(time(error.last_at)),
    });
    v1::WatchTrafficResponse {
        at: Some(time(at)),
        in_flight,
        requests_per_second: history.requests_per_second,
        tokens_per_second: history.tokens_per_second,
        minutes: minutes.collect(),
        ttft: history.ttft.map(percentiles),
        errors: errors.collect(),
        ledger: ledger.as_ref().map(ledger_state),
    }
}

fn ledger_state(ledger: &LedgerState) -> v1::LedgerState {
    v1::LedgerState {
        balance_usd: ledger.balances.amount.to_string(),
        held_usd: ledger.balances.held.to_string(),
        stopped: ledger.is_stopped,
        waiting_records: ledger.waiting_records,
        oldest_waiting: ledger.oldest_waiting.map(time),
    }
}

pub(in super::super) fn limit_use(view: LimitView) -> v1::LimitUse {
    let scope = match view.scope {
        LimitScope::Plan => v1::LimitScope::Plan,
        LimitScope::Model => v1::LimitScope::Model,
        LimitScope::Key => v1::LimitScope::Key,
    };
    let kind = match view.metric {
        LimitMetric::Use(LimitKind::Requests) => v1::LimitKind::Requests,
        LimitMetric::Use(LimitKind::Tokens) => v1::LimitKind::Tokens,
        LimitMetric::Use(LimitKind::Concurrency) => v1::LimitKind::Concurrency,
        LimitMetric::Use(LimitKind::MonthlyTokens) => v1::LimitKind::MonthlyTokens,
        LimitMetric::Spending => v1::LimitKind::Spending,
    };
    v1::LimitUse {
        scope: scope.into(),
        subject: view.subject,
        kind: kind.into(),
        limit: view.limit,
        used: view.used,
        observed: view.observed,
        resets_at: view.resets_at.map(time),
    }
}

pub(in super::super) fn upstream_health(view: HealthView) -> v1::UpstreamHealth {
    let HealthView { name, health, retry_at, in_flight, problem, credentials } = view;
    let credentials = (1..).zip(credentials).map(|(number, view)| credential_health(number, view));
    let breaker = match health.breaker {
        BreakerState::Closed => v1::BreakerState::Closed,
        BreakerState::Open { .. } => v1::BreakerState::Open,
        BreakerState::HalfOpen => v1::BreakerState::HalfOpen,
    };
    let check = match health.check {
        None => v1::HealthCheckState::Unspecified,
        Some(CheckState::Passing) => v1::HealthCheckState::Passing,
        Some(CheckState::Failing) => v1::HealthCheckState::Failing,
    };
    let (last_error, last_error_at) = match health.last_error {
        // A problem that affects all requests takes precedence over the last error of a single one.
        _ if !problem.is_empty() => (problem, None),
        Some(error) => (error.text, Some(time(error.at))),
        None => Default::default(),
    };
    v1::UpstreamHealth {
        name: name.to_string(),
        breaker: breaker.into(),
        retry_at: retry_at.map(time),
        in_flight,
        requests: health.requests,
        failures: health.failures,
        implausible_usage: health.miscounts,
        latency: health.latency.map(percentiles),
        last_error,
        last_error_at,
        credentials: credentials.collect(),
        health_check: check.into(),
    }
}

fn credential_health(number: u32, view: CredentialView) -> v1::CredentialHealth {
    let CredentialView { source, health, paused_until, problem } = view;
    v1::CredentialHealth {
        number,
        source: Some(credential(&source)),
        paused_until: paused_until.map(time),
        requests: health.requests,
        refusals: health.refusals,
        last_refusal: health.last_refusal.map(u32::from).unwrap_or_default(),
        problem: problem.unwrap_or_default(),
    }
}

fn percentiles(Percentiles { p50, p90, p99 }: Percentiles) -> v1::Percentiles {
    v1::Percentiles { p50_ms: millis(p50), p90_ms: millis(p90), p99_ms: millis(p99) }
}
