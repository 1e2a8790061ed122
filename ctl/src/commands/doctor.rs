//! `ctl doctor`: what is wrong between here and the gateway, and in it; and what to do about it.
//!
//! What only this host can see (its files, its clock, the way to the gateway) is in `here`; the rest is
//! the gateway's own examination, which operators may ask for.

mod here;

use proto::client::Connection;
use proto::v1::diagnostics_service_client::DiagnosticsServiceClient;
use proto::v1::{DiagnoseRequest, DiagnoseResponse, DiagnosticArea, Severity};
use serde::Serialize;
use tonic::Code;

use super::{filled, word};
use crate::cli::doctor::Doctor;
use crate::error::{Exit, Failure, one_line};
use crate::output::{Format, Hue, Record, Stream, wrapped};
use crate::{Shell, clock};

/// Where on a line findings and remedies begin.
const SAID_AT: usize = 22;

/// Something that was examined, and what was found.
#[derive(Serialize)]
struct Diagnosis {
    /// `server`, `token`, `credentials`, `clock` … and the gateway's own areas.
    area: String,
    subject: Option<String>,
    /// `ok`, `warning` or `problem`.
    severity: &'static str,
    finding: String,
    remedy: Option<String>,
    elapsed_ms: Option<f64>,
}

/// What was found so far; printed at once, but for a JSON document.
#[derive(Default)]
struct Report {
    findings: Vec<Diagnosis>,
    printed: Stream,
}

/// Runs `ctl doctor`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Doctor) -> Result<(), Failure> {
    let mut report = Report::default();
    here::files(shell, &mut report)?;
    if let Some(gateway) = here::gateway(shell, &mut report).await? {
        let request = DiagnoseRequest { send_requests: input.send_requests };
        there(shell, &mut report, gateway, request).await?;
    }
    report.end(shell)
}

/// Has the gateway examine itself, and compares its clock with ours.
async fn there(
    shell: &mut Shell<'_>,
    report: &mut Report,
    gateway: Connection,
    request: DiagnoseRequest,
) -> Result<(), Failure> {
    let asked = clock::now();
    let mut found = match DiagnosticsServiceClient::new(gateway).diagnose(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return report.add(shell, Diagnosis::unexamined(&status)),
    };
    let mut compared = false;
    loop {
        match found.message().await {
            Ok(Some(answer)) => {
                if !std::mem::replace(&mut compared, true) {
                    let skew = here::clock(asked, clock::now(), answer.gateway_time_ms);
                    report.add(shell, skew)?;
                }
                report.add(shell, answer.into())?;
            }
            Ok(None) => return Ok(()),
            Err(status) => return report.add(shell, Diagnosis::unexamined(&status)),
        }
    }
}

// === impl Report ===

impl Report {
    fn add(&mut self, shell: &mut Shell<'_>, finding: Diagnosis) -> Result<(), Failure> {
        match shell.output.format() {
            Format::Table => {
                let text = finding.draw(shell);
                shell.output.text(&text)?;
                shell.output.flush()?;
            }
            Format::Json => {}
            Format::Jsonl | Format::Csv => {
                shell.output.more(std::slice::from_ref(&finding), &mut self.printed)?;
            }
        }
        self.findings.push(finding);
        Ok(())
    }

    /// Says what it comes to.
    fn end(self, shell: &mut Shell<'_>) -> Result<(), Failure> {
        if shell.output.format() == Format::Json {
            shell.output.many(&self.findings)?;
        }
        let count = |severity| self.findings.iter().filter(|it| it.severity == severity).count();
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
    /// What was found, and is well unless it is said to be otherwise.
    fn of(area: &str, subject: &str, finding: impl Into<String>) -> Self {
        Self {
            area: area.to_owned(),
            subject: filled(subject.to_owned()),
            severity: "ok",
            finding: finding.into(),
            remedy: None,
            elapsed_ms: None,
        }
    }

    /// It works, but should not stay so.
    fn warning(self, remedy: impl Into<String>) -> Self {
        Self { severity: "warning", remedy: filled(remedy.into()), ..self }
    }

    /// It does not work.
    fn problem(self, remedy: impl Into<String>) -> Self {
        Self { severity: "problem", remedy: filled(remedy.into()), ..self }
    }

    /// The gateway did not examine itself, or not to the end.
    fn unexamined(status: &tonic::Status) -> Self {
        let failure = Failure::from(status.clone());
        let advice = failure.advice().unwrap_or_default();
        match status.code() {
            Code::PermissionDenied => {
                Self::of("gateway", "", "its own examination is for operators")
                    .warning("run `ctl doctor` as an operator to have the gateway examined, too")
            }
            _ => {
                Self::of("gateway", "", format!("its examination ended: {failure}")).problem(advice)
            }
        }
    }

    /// The finding as a person reads it: a line, and under it what to do.
    fn draw(&self, shell: &Shell<'_>) -> String {
        let hue = match self.severity {
            "ok" => Hue::Good,
            "warning" => Hue::Doubtful,
            _ => Hue::Bad,
        };
        let severity = shell.output.hued(&format!("{:<8}", self.severity), hue);
        let subject = self.subject.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
        let elapsed = self.elapsed_ms.map(|ms| format!(" ({ms:.1} ms)")).unwrap_or_default();
        let finding = format!("{subject}{}{elapsed}", self.finding);
        let said = |text: &str| wrapped(&one_line(text), SAID_AT, shell.output.width());
        let mut text = format!("{severity} {:<11}  {}\n", self.area, said(&finding));
        if let Some(remedy) = &self.remedy {
            text = format!("{text}{:SAID_AT$}{}\n", "", said(remedy));
        }
        text
    }
}

impl From<DiagnoseResponse> for Diagnosis {
    fn from(answer: DiagnoseResponse) -> Self {
        let area: DiagnosticArea = answer.area();
        Self {
            area: word(area.as_str_name(), "DIAGNOSTIC_AREA_").unwrap_or("gateway".to_owned()),
            severity: match answer.severity() {
                Severity::Ok | Severity::Unspecified => "ok",
                Severity::Warning => "warning",
                Severity::Problem => "problem",
            },
            subject: filled(answer.subject),
            finding: answer.finding,
            remedy: filled(answer.remedy),
            elapsed_ms: Some(answer.elapsed_ms),
        }
    }
}

impl Record for Diagnosis {
    const FIELDS: &'static [&'static str] =
        &["area", "subject", "severity", "finding", "remedy", "elapsed_ms"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
