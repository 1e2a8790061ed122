//! The operations screen: the operations with their state, and the results of the selected one.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::model::Model;
use crate::model::command_line::line;
use crate::model::operations::{
    Finding, OperationKind, OperationRun, RunState, Severity, Verification,
};

use super::widget::detail::{Detail, plain};
use super::widget::frame::{frame, note};
use super::widget::text::{UNKNOWN, ago, count, duration, fit, several};

const MIB: u64 = 1 << 20;
/// The widths of the columns before the result.
const WIDTHS: [u16; 3] = [26, 10, 9];
/// What the dashboard leaves to `ctl doctor`.
const LOCAL_NOTE: &str = "`ctl doctor` also checks the clock and the token files of its own host.";
const SEAL_KEY_NOTE: &str = "Keep `seal.key` of the gateway's data directory with it: without that \
    key, the credentials of upstreams in the copy cannot be read.";

/// Draws the operations.
pub(super) fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let operations = &model.data.operations;
    let height = u16::try_from(OperationKind::ALL.len() + 3).unwrap_or(u16::MAX);
    let [above, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    let inside = frame(model.theme, "Operations", buffer, above);
    let mut rows = inside.rows();
    if let Some(row) = rows.next() {
        let titles = ["operation", "state", "took", "result"];
        cells(titles.map(|title| Span::styled(title, model.theme.faint())), buffer, row);
    }
    let all = OperationKind::ALL.into_iter().zip(&operations.runs);
    for ((index, (kind, run)), row) in all.enumerate().zip(rows) {
        let line =
            [plain(kind.name()), state(model, run), plain(took(model, run)), result(model, run)];
        cells(line, buffer, row);
        if index == operations.selected {
            buffer.set_style(row, model.theme.cursor());
        }
    }
    let (kind, run) = (operations.kind(), &operations.runs[operations.selected]);
    let command = format!("= {}", line(&kind.arguments(run.file.as_deref())));
    let title = title(model, kind, run);
    let inside = frame(model.theme, &title, buffer, below);
    note(model.theme, &title, &[command], buffer, below);
    detail(model, kind, run).render(model.theme, model.detail_scroll, buffer, inside);
}

fn cells(line: [Span<'_>; 4], buffer: &mut Buffer, row: Rect) {
    let [name, state, took] = WIDTHS.map(Constraint::Length);
    let areas = Layout::horizontal([name, state, took, Constraint::Fill(1)]).areas::<4>(row);
    for (cell, area) in line.into_iter().zip(areas) {
        let width = usize::from(area.width).saturating_sub(1);
        Line::from(Span::styled(fit(&cell.content, width), cell.style)).render(area, buffer);
    }
}

fn title(model: &Model, kind: OperationKind, run: &OperationRun) -> String {
    match run.ended_at {
        Some(at) => format!("{} · ended {}", kind.name(), ago(Some(at), model.now)),
        None => kind.name().to_owned(),
    }
}

fn state(model: &Model, run: &OperationRun) -> Span<'static> {
    let theme = model.theme;
    match run.state {
        RunState::New => Span::styled(UNKNOWN, theme.faint()),
        RunState::Running => Span::styled("running…", theme.warning()),
        RunState::Done => Span::styled("done", theme.good()),
        RunState::Stopped => Span::styled("stopped", theme.faint()),
        RunState::Failed(_) => Span::styled("failed", theme.bad()),
    }
}

/// Returns the duration of the run, so far in seconds.
fn took(model: &Model, run: &OperationRun) -> String {
    let Some(start) = run.started_at else { return String::new() };
    match (run.ended_at, model.now) {
        (Some(end), _) => duration(Some(end.duration_since(start).as_secs_f64() * 1_000.0)),
        (None, Some(now)) if run.is_running() => {
            format!("{}s", now.duration_since(start).as_secs().max(0))
        }
        _ => String::new(),
    }
}

/// Returns the result in a few words.
fn result(model: &Model, run: &OperationRun) -> Span<'static> {
    let theme = model.theme;
    if let RunState::Failed(problem) = &run.state {
        return Span::styled(problem.clone(), theme.bad());
    }
    if let Some(found) = &run.verification {
        return verdict(model, found);
    }
    if let Some((bytes, total)) = run.copied.filter(|_| run.state != RunState::Stopped) {
        let text = if run.is_running() {
            format!("{} of {} MiB", count(Some(bytes / MIB)), count(Some(total.div_ceil(MIB))))
        } else {
            format!("{} bytes", count(Some(bytes)))
        };
        return plain(text);
    }
    diagnosis(model, run)
}

/// Counts what a diagnosis found. That there is no problem is known only once it is complete.
fn diagnosis(model: &Model, run: &OperationRun) -> Span<'static> {
    let theme = model.theme;
    let (problems, warnings) = (run.count(Severity::Problem), run.count(Severity::Warning));
    if run.findings.is_empty() {
        return plain("");
    }
    let (rest, style) = match (problems, warnings) {
        (0, 0) if run.state == RunState::Done => (", no problem".to_owned(), theme.good()),
        (0, 0) => (String::new(), theme.base()),
        (0, _) => (format!(", {}", several(warnings, "warning")), theme.warning()),
        (_, 0) => (format!(", {}", several(problems, "problem")), theme.bad()),
        _ => {
            let (problems, warnings) = (several(problems, "problem"), several(warnings, "warning"));
            (format!(", {problems}, {warnings}"), theme.bad())
        }
    };
    Span::styled(format!("{}{rest}", several(run.findings.len(), "check")), style)
}

fn verdict(model: &Model, found: &Verification) -> Span<'static> {
    if found.is_ok {
        return Span::styled("everything adds up", model.theme.good());
    }
    Span::styled(several(found.found, "difference"), model.theme.bad())
}

fn detail<'a>(model: &'a Model, kind: OperationKind, run: &'a OperationRun) -> Detail<'a> {
    let theme = model.theme;
    let mut detail = Detail::default();
    let hint = match &run.state {
        RunState::New => Some(Span::styled(explanation(kind), theme.faint())),
        RunState::Failed(problem) => Some(Span::styled(problem.as_str(), theme.bad())),
        RunState::Stopped => Some(Span::styled("stopped before its end", theme.warning())),
        RunState::Running | RunState::Done => None,
    };
    if let Some(hint) = hint {
        detail.text(hint);
    }
    for it in run.sorted_findings() {
        finding(model, it, &mut detail);
    }
    if let Some(found) = &run.verification {
        verification(model, found, &mut detail);
    }
    if let Some(file) = run.file.as_deref() {
        detail.row("file", plain(file));
    }
    let is_done = run.state == RunState::Done;
    match kind {
        OperationKind::Diagnosis | OperationKind::TestRequests if is_done => {
            detail.gap().text(Span::styled(LOCAL_NOTE, theme.faint()));
        }
        OperationKind::Backup if is_done => {
            detail.gap().text(Span::styled(SEAL_KEY_NOTE, theme.warning()));
        }
        _ => {}
    }
    detail
}

/// Returns what an operation that was not run yet does.
fn explanation(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Diagnosis => {
            "Enter checks disk, database, ledger, upstreams, certificates, files with secrets, \
            scheduled backups and what else the gateway depends on. No model gets a request."
        }
        OperationKind::TestRequests => {
            "Enter does the same, and sends a short request to each model of each upstream. \
            Upstreams may charge for them."
        }
        OperationKind::Verification => {
            "Enter recomputes all balances, charges and sums from entries and records while the \
            gateway serves. It takes some seconds per million records."
        }
        OperationKind::Backup => {
            "Enter writes a consistent, checked copy of the SQLite database to a file on this host. \
            Scheduled backups are made by the gateway (`backup_every`); the check names the newest."
        }
    }
}

fn finding<'a>(model: &Model, finding: &'a Finding, detail: &mut Detail<'a>) {
    let style = match finding.severity {
        Severity::Ok => model.theme.base(),
        Severity::Warning => model.theme.warning(),
        Severity::Problem => model.theme.bad(),
    };
    let subject = finding.subject.as_ref().map(|it| format!("{it}: ")).unwrap_or_default();
    let took = duration(Some(finding.elapsed_ms));
    let text = format!("{}: {subject}{} ({took})", finding.severity.name(), finding.text);
    detail.row(finding.area.as_str(), Span::styled(plain(text).content, style));
    if let Some(remedy) = &finding.remedy {
        detail.row("", Span::styled(format!("→ {remedy}"), model.theme.strong()));
    }
}

fn verification<'a>(model: &Model, found: &'a Verification, detail: &mut Detail<'a>) {
    detail
        .row("result", verdict(model, found))
        .row("balances", plain(count(Some(found.balances))))
        .row("entries", plain(count(Some(found.entries))))
        .row("charges", plain(count(Some(found.charges))))
        .row("requests", plain(count(Some(found.requests))))
        .row("sums", plain(format!("{} checked", count(Some(found.sums)))));
    if found.under_way > 0 {
        let text = format!("{} balances kept changing: memory not compared", found.under_way);
        detail.row("under way", plain(text));
    }
    if found.differences.is_empty() {
        return;
    }
    detail.heading("Differences");
    for difference in &found.differences {
        detail.text(Span::styled(difference.as_str(), model.theme.bad()));
    }
    let shown = u64::try_from(found.differences.len()).unwrap_or(u64::MAX);
    if shown < found.found {
        let text = format!("the first {shown} of {}", count(Some(found.found)));
        detail.text(Span::styled(text, model.theme.faint()));
    }
}
