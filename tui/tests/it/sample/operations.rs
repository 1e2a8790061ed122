//! Sample results of operations, and a sample route.

use tui::model::operations::{Finding, OperationEvent, Severity, Verification};
use tui::model::route::{Route, RouteStep};

use super::Sample;
use super::data::name;

/// Returns the findings of a diagnosis. One that fails has ended after the first.
pub(super) fn findings(state: Sample) -> Vec<OperationEvent> {
    let found = |area: &str, subject: &str, severity, text: &str, remedy: &str| Finding {
        area: area.to_owned(),
        subject: Some(subject.to_owned()).filter(|it| !it.is_empty()),
        severity,
        text: text.to_owned(),
        remedy: Some(remedy.to_owned()).filter(|it| !it.is_empty()),
        elapsed_ms: 3.2,
    };
    let mut findings = vec![
        found("disk", "/var/lib/tollgate", Severity::Ok, "212 GiB are free", ""),
        found("database", "", Severity::Ok, "it is intact and can be written", ""),
        found(
            "backups",
            "",
            Severity::Warning,
            "there are no scheduled backups",
            "set `backup_every`, such as `6h`",
        ),
        found(
            "upstream",
            "openai",
            Severity::Problem,
            "it refuses the credential: HTTP 401",
            "give it a credential that works: `ctl upstream update openai --key-…`",
        ),
        found("upstream", "local", Severity::Ok, "it lists `qwen3-32b`", ""),
    ];
    if state == Sample::Full {
        let many = |it| found("upstream", &name("up", it, state), Severity::Ok, "it answers", "");
        findings.extend((0..100).map(many));
    }
    if state == Sample::Error {
        findings.truncate(1);
    }
    findings.into_iter().map(OperationEvent::Found).collect()
}

/// Returns the result of a verification.
pub(super) fn verified(state: Sample) -> OperationEvent {
    let is_ok = state != Sample::Full;
    let difference = |it| format!("charge `ada` request {it}: 0.1 is charged, and 0.2 recorded");
    OperationEvent::Verified(Verification {
        is_ok,
        balances: 12,
        entries: 1_204_311,
        charges: 1_204_280,
        requests: 1_310_022,
        sums: 40_211,
        under_way: u64::from(!is_ok),
        found: if is_ok { 0 } else { 230 },
        differences: (0..if is_ok { 0 } else { 100 }).map(difference).collect(),
    })
}

/// Returns a route with two deployments.
pub(crate) fn route() -> Route {
    let step = |upstream: &str, first_percent, reason: &str| RouteStep {
        upstream: upstream.to_owned(),
        model: "qwen3-32b".to_owned(),
        priority: 0,
        weight: 2,
        first_percent,
        in_flight: 3,
        latency_ms: Some(240.0),
        reason: reason.to_owned(),
    };
    Route {
        routing: "weighted".to_owned(),
        hedge_after_ms: Some(800),
        steps: vec![
            step("local", Some(66.7), "weight 2 of 3 among those of priority 0"),
            step("spare", Some(33.3), "its breaker is open for 4 s: tried after the others"),
        ],
    }
}
