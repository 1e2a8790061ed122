//! Converts the findings of a diagnosis to messages.

use proto::v1;

use super::response::millis;
use crate::control::diagnose::{Area, FindingView, Severity};

pub(in super::super) fn finding(view: FindingView) -> v1::DiagnoseResponse {
    let FindingView { area, subject, finding, elapsed, at } = view;
    let area = match area {
        Area::Version => v1::DiagnosticArea::Version,
        Area::Clock => v1::DiagnosticArea::Clock,
        Area::Disk => v1::DiagnosticArea::Disk,
        Area::Database => v1::DiagnosticArea::Database,
        Area::Backups => v1::DiagnosticArea::Backups,
        Area::Metrics => v1::DiagnosticArea::Metrics,
        Area::Collector => v1::DiagnosticArea::Collector,
        Area::Webhooks => v1::DiagnosticArea::Webhooks,
        Area::Ledger => v1::DiagnosticArea::Ledger,
        Area::Upstream => v1::DiagnosticArea::Upstream,
        Area::Tls => v1::DiagnosticArea::Tls,
        Area::Secrets => v1::DiagnosticArea::Secrets,
        Area::Files => v1::DiagnosticArea::Files,
    };
    let severity = match finding.severity {
        Severity::Ok => v1::Severity::Ok,
        Severity::Warning => v1::Severity::Warning,
        Severity::Problem => v1::Severity::Problem,
    };
    v1::DiagnoseResponse {
        area: area.into(),
        subject,
        severity: severity.into(),
        finding: finding.text,
        remedy: finding.remedy,
        elapsed_ms: millis(elapsed),
        gateway_time_ms: at.as_millisecond(),
    }
}
