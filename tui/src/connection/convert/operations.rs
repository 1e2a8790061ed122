//! Conversion of the answers to operations and route explanations.

use proto::v1;

use crate::model::operations::{Finding, Severity, Verification};
use crate::model::route::{Route, RouteStep};

use super::present;

pub(in crate::connection) fn finding(finding: v1::DiagnoseResponse) -> Finding {
    Finding {
        area: match finding.area() {
            v1::DiagnosticArea::Unspecified => "gateway".to_owned(),
            area => name(area.as_str_name(), "DIAGNOSTIC_AREA_"),
        },
        severity: match finding.severity() {
            v1::Severity::Ok => Severity::Ok,
            // A newer gateway may have other severities. None of them means that all is well.
            v1::Severity::Warning | v1::Severity::Unspecified => Severity::Warning,
            v1::Severity::Problem => Severity::Problem,
        },
        subject: present(finding.subject),
        text: finding.finding,
        remedy: present(finding.remedy),
        elapsed_ms: finding.elapsed_ms,
    }
}

pub(in crate::connection) fn verification(answer: v1::VerifyLedgerResponse) -> Verification {
    Verification {
        is_ok: answer.ok,
        balances: answer.balances,
        entries: answer.entries,
        charges: answer.charges,
        requests: answer.requests,
        sums: answer.sums,
        under_way: answer.under_way,
        found: answer.differences_found,
        differences: answer.differences.into_iter().map(difference).collect(),
    }
}

/// Describes a difference, with its kind, account and request.
fn difference(difference: v1::LedgerDifference) -> String {
    let kind = name(difference.kind().as_str_name(), "DIFFERENCE_KIND_");
    let account = difference.account.map(|it| format!(" `{it}`")).unwrap_or_default();
    let request = difference.request_id.map(|it| format!(" request {it}")).unwrap_or_default();
    format!("{kind}{account}{request}: {}", difference.text)
}

pub(in crate::connection) fn route(answer: v1::ExplainRouteResponse) -> Route {
    Route {
        routing: match answer.routing() {
            v1::Routing::Unspecified => "weighted".to_owned(),
            routing => name(routing.as_str_name(), "ROUTING_"),
        },
        hedge_after_ms: answer.hedge_after_ms,
        steps: answer.steps.into_iter().map(step).collect(),
    }
}

fn step(step: v1::RouteStep) -> RouteStep {
    let deployment = step.deployment.unwrap_or_default();
    RouteStep {
        upstream: deployment.upstream,
        model: deployment.upstream_model,
        priority: deployment.priority,
        weight: deployment.weight,
        first_percent: step.first_percent,
        in_flight: step.in_flight,
        latency_ms: step.latency_ms,
        reason: step.reason,
    }
}

/// Returns the name of a value of an enumeration as `ctl` prints it.
fn name(value: &str, prefix: &str) -> String {
    value.strip_prefix(prefix).unwrap_or(value).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_severity_is_a_warning() {
        let answer = v1::DiagnoseResponse { severity: 99, ..v1::DiagnoseResponse::default() };
        assert_eq!(finding(answer).severity, Severity::Warning);
    }
}
