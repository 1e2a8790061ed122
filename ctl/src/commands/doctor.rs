//! `ctl doctor`: diagnoses this host, the connection and the gateway, and suggests remedies.
//!
//! `local` has the checks of this host: files, clock and connection. The others are the gateway's
//! own diagnostics, which require the operator role.

mod local;

use proto::client::Connection;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use proto::v1::{DiagnoseRequest, DiagnoseResponse, DiagnosticArea, Severity};
use serde::Serialize;
use tonic::Code;

use super::{enum_name, non_empty};
use crate::cli::doctor::Doctor;
use crate::error::{Exit, Failure, one_line};
use crate::output::{Format, Record, StreamState, Style, wrapped};
use crate::{Shell, clock};

/// The column at which findings and remedies start.
const FINDING_COLUMN: usize = 22;

/// The result of a check.
#[derive(Serialize)]
struct Diagnosis {
    /// `server`, `token`, `credentials`, `clock` … or an area of the gateway's diagnostics.
    area: String,
    subject: Option<String>,
    /// `ok`, `warning` or `problem`.
    severity: &'static str,
    finding: String,
    remedy: Option<String>,
    elapsed_ms: Option<f64>,
}

/// The diagnoses so far. They are printed as they arrive, except in a JSON document.
#[derive(Default)]
struct Report {
    diagnoses: Vec<Diagnosis>,
    printed: StreamState,
}

/// Runs `ctl doctor`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Doctor) -> Result<(), Failure> {
    let mut report = Report::default();
    local::check_files(shell, &mut report)?;
    if let Some(gateway) = local::check_connection(shell, &mut report).await? {
        let request = DiagnoseRequest { send_requests: input.send_requests };
        diagnose_gateway(shell, &mut report, gateway, request).await?;
    }
    report.finish(shell)
}

/// Runs the gateway's diagnostics, and compares its clock with this host's.
async fn diagnose_gateway(
    shell: &mut Shell<'_>,
    report: &mut Report,
    gateway: Connection,
    request: DiagnoseRequest,
) -> Result<(), Failure> {
    let sent_at = clock::now();
    let mut answers = match DiagnosticsServiceClient::new(gateway).diagnose(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return report.add(shell, Diagnosis::failed(&status)),
    };
    let mut is_clock_checked = false;
    loop {
        match answers.message().await {
            Ok(Some(answer)) => {
                if !std::mem::replace(&mut is_clock_checked, true) {
                    let skew = local::check_clock(sent_at, clock::now(), answer.gateway_time_ms);
                    report.add(shell, skew)?;
                }
                report.add(shell, answer.into())?;
            }
            Ok(None) => return Ok(()),
            Err(status) => return report.add(shell, Diagnosis::failed(&status)),
        }
    }
}

// === impl Report ===

impl Report {
    fn add(&mut self, shell: &mut Shell<'_>, diagnosis: Diagnosis) -> Result<(), Failure> {
        match shell.output.format() {
            Format::Table => {
                let text = diagnosis.render(shell);
                shell.output.text(&text)?;
                shell.output.flush()?;
            }
            Format::Json => {}
            Format::Jsonl | Format::Csv => {
                shell.output.append(std::slice::from_ref(&diagnosis), &mut self.printed)?;
            }
        }
        self.diagnoses.push(diagnosis);
        Ok(())
    }

    /// Prints a summary.
    ///
    /// # Errors
    /// A check found a problem.
    fn finish(self, shell: &mut Shell<'_>) -> Result<(), Failure> {
        if shell.output.format() == Format::Json {
            shell.output.many(&self.diagnoses)?;
        }
        let count = |severity| self.diagnoses.iter().filter(|it| it.severity == severity).count();
        let (problems, warnings) = (count("problem"), count("warning"));
        if problems > 0 {
            let plural = if problems == 1 { "" } else { "s" };
            return Err(Failure::new(Exit::Failed, format!("{problems} problem{plural} found")));
        }
        let plural = if warnings == 1 { "" } else { "s" };
        shell.output.note(&match warnings {
            0 => "no problems found".to_owned(),
            count => format!("no problems found, {count} warning{plural}"),
        });
        Ok(())
    }
}

// === impl Diagnosis ===

impl Diagnosis {
    /// Creates a diagnosis of severity `ok`.
    fn ok(area: &str, subject: &str, finding: impl Into<String>) -> Self {
        Self {
            area: area.to_owned(),
            subject: non_empty(subject.to_owned()),
            severity: "ok",
            finding: finding.into(),
            remedy: None,
            elapsed_ms: None,
        }
    }

    /// Raises the severity to `warning`: it works, but should be changed.
    fn warning(self, remedy: impl Into<String>) -> Self {
        Self { severity: "warning", remedy: non_empty(remedy.into()), ..self }
    }

    /// Raises the severity to `problem`: it does not work.
    fn problem(self, remedy: impl Into<String>) -> Self {
        Self { severity: "problem", remedy: non_empty(remedy.into()), ..self }
    }

    /// Creates the diagnosis for gateway diagnostics that were refused or ended early.
    fn failed(status: &tonic::Status) -> Self {
        let failure = Failure::from(status.clone());
        let advice = failure.advice().unwrap_or_default();
        match status.code() {
            Code::PermissionDenied => {
                Self::ok("gateway", "", "its diagnostics are for operators only")
                    .warning("run `ctl doctor` as an operator to diagnose the gateway, too")
            }
            _ => Self::ok("gateway", "", format!("its diagnostics failed: {failure}"))
                .problem(advice),
        }
    }

    /// Renders the diagnosis as text: the finding, then the remedy on its own line.
    fn render(&self, shell: &Shell<'_>) -> String {
        let style = match self.severity {
            "ok" => Style::Success,
            "warning" => Style::Warning,
            _ => Style::Error,
        };
        let severity = shell.output.styled(&format!("{:<8}", self.severity), style);
        let subject = self.subject.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
        let elapsed = self.elapsed_ms.map(|ms| format!(" ({ms:.1} ms)")).unwrap_or_default();
        let finding = format!("{subject}{}{elapsed}", self.finding);
        let wrap = |text: &str| wrapped(&one_line(text), FINDING_COLUMN, shell.output.width());
        let mut text = format!("{severity} {:<11}  {}\n", self.area, wrap(&finding));
        if let Some(remedy) = &self.remedy {
            text = format!("{text}{:FINDING_COLUMN$}{}\n", "", wrap(remedy));
        }
        text
    }
}

impl From<DiagnoseResponse> for Diagnosis {
    fn from(answer: DiagnoseResponse) -> Self {
        let area: DiagnosticArea = answer.area();
        Self {
            area: enum_name(area.as_str_name(), "DIAGNOSTIC_AREA_").unwrap_or("gateway".to_owned()),
            severity: match answer.severity() {
                Severity::Ok => "ok",
                // A newer gateway may have other severities. None of them means that all is well.
                Severity::Warning | Severity::Unspecified => "warning",
                Severity::Problem => "problem",
            },
            subject: non_empty(answer.subject),
            finding: answer.finding,
            remedy: non_empty(answer.remedy),
            elapsed_ms: Some(answer.elapsed_ms),
        }
    }
}

impl Record for Diagnosis {
    const FIELDS: &'static [&'static str] =
        &["area", "subject", "severity", "finding", "remedy", "elapsed_ms"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_severity_is_a_warning() {
        let answer = DiagnoseResponse { severity: 99, ..DiagnoseResponse::default() };
        assert_eq!(Diagnosis::from(answer).severity, "warning");
    }
}
