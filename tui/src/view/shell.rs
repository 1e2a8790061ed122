//! The header with server, tabs, time and connection state, the footer with key hints, and the
//! notice above it.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use std::ops::RangeInclusive;

use crate::keymap;
use crate::model::accounts::{Account, AccountStatus};
use crate::model::first_steps::{Step, step};
use crate::model::form::FormKind;
use crate::model::overlay::Overlay;
use crate::model::{Action, ConnectionState, Model, Notice, Screen};

use super::widget::frame::clear;
use super::widget::text::{dollars, fit, hour_and_zone, wrap};

/// The maximum number of rows of a notice.
const MAX_NOTICE_ROWS: u16 = 3;

/// The lengths to which names of tabs are cut, if not all fit.
const TAB_LETTERS: RangeInclusive<usize> = 5..=8;

/// The banner on every screen of a suspended account.
const SUSPENDED: &str = " this account is suspended";

fn is_suspended(account: &Account) -> bool {
    account.status == AccountStatus::Suspended
}

/// Returns the height of the header.
pub(super) fn height(model: &Model) -> u16 {
    let suspended = model.data.account.value.as_ref().is_some_and(is_suspended);
    match model.screen {
        Screen::SignIn => 1,
        _ if suspended || step(model).is_some() => 3,
        _ => 2,
    }
}

/// Draws the header.
pub(super) fn header(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let Some(first) = area.rows().next() else { return };
    let (text, style) = connection_state(model);
    let state = Line::from_iter([
        Span::styled(clock(model), theme.faint()),
        Span::styled(text, style),
        Span::raw(" "),
    ]);
    let mut left = vec![Span::styled(" Tollgate  ", theme.strong())];
    let mut remaining = usize::from(area.width).saturating_sub(state.width() + 12);
    let mut push = |text: &str, style| {
        let text = fit(text, remaining);
        remaining = remaining.saturating_sub(Span::raw(&text).width() + 2);
        left.extend([Span::styled(text, style), Span::raw("  ")]);
    };
    if model.is_read_only {
        push("read-only", theme.warning());
    }
    push(&model.server, theme.faint());
    if let Some(account) = &model.data.account.value {
        push(&account.name, theme.strong());
        if is_suspended(account) {
            push("suspended", theme.bad());
        }
        if let Some(balance) = &account.balance_usd {
            push(&dollars(Some(balance)), theme.faint());
        }
    }
    Line::from(left).render(first, buffer);
    state.right_aligned().render(first, buffer);
    if let Some(row) = area.rows().nth(1) {
        for (screen, label, place) in tabs(model, row) {
            let style = if screen == model.screen { theme.tab() } else { theme.faint() };
            Span::styled(label, style).render(place, buffer);
        }
    }
    let Some(row) = area.rows().nth(2) else { return };
    if let Some(account) = model.data.account.value.as_ref().filter(|it| is_suspended(it)) {
        let reason = account.suspended_for.as_deref();
        let text =
            format!("{SUSPENDED}: {}", reason.unwrap_or("nothing is served, ask the operator"));
        Line::styled(fit(&text, row.width.into()), theme.bad()).render(row, buffer);
    } else if let Some(step) = step(model) {
        first_steps(model, step, buffer, row);
    }
}

/// Draws what a new user presses next. An overlay receives all keys, so that those of the screen
/// below are named as what comes after it.
fn first_steps(model: &Model, step: Step, buffer: &mut Buffer, row: Rect) {
    let theme = model.theme;
    let number = match step {
        Step::MakeKey => 1,
        Step::TryModel => 2,
        Step::SeeLog => 3,
    };
    let (is_now, keys, purpose) = match (step, &model.overlay) {
        (Step::MakeKey, Some(Overlay::Form(form))) if form.kind == FormKind::CreateKey => {
            (true, "Enter", "makes the API key")
        }
        (Step::TryModel, Some(Overlay::Secret(_))) if model.allows(Action::Try) => {
            (true, "t", "tries the key with a model")
        }
        (Step::TryModel, Some(Overlay::Trial(_))) => (true, "Enter", "sends what you typed"),
        (step, overlay) => {
            let (keys, purpose) = match (step, model.screen) {
                (Step::MakeKey, Screen::Keys) => ("n", "makes an API key"),
                (Step::MakeKey, _) => ("2, then n,", "makes an API key"),
                (Step::TryModel, Screen::Models) => ("t", "tries the model"),
                (Step::TryModel, _) => ("3, then t,", "tries a model"),
                (Step::SeeLog, _) => ("4", "shows your request in the log"),
            };
            (overlay.is_none(), keys, purpose)
        }
    };
    let before = if is_now { "" } else { "close this box, then " };
    let mut line = Line::from_iter([
        Span::styled(format!(" First steps, {number} of 3: {before}"), theme.warning()),
        Span::styled(keys, theme.accent()),
        Span::styled(format!(" {purpose}"), theme.warning()),
    ]);
    if model.overlay.is_none() {
        line.push_span(Span::styled("  ·  H hides this", theme.faint()));
    }
    line.render(row, buffer);
}

/// Returns the time of day and the name of the time zone of all displayed times.
fn clock(model: &Model) -> String {
    match (model.screen, model.now) {
        (Screen::SignIn, _) | (_, None) => String::new(),
        (_, now) => format!("{}  ", hour_and_zone(now, &model.zone)),
    }
}

/// Describes the connection; while it is lost, with the time until the next attempt.
fn connection_state(model: &Model) -> (String, Style) {
    let theme = model.theme;
    let (text, style) = match &model.connection {
        _ if model.screen == Screen::SignIn => ("", theme.faint()),
        ConnectionState::Reconnecting { retry_at, .. } => {
            let waits = retry_at.zip(model.now).map(|(at, now)| at.duration_since(now).as_secs());
            return match waits {
                Some(seconds @ 1..) => (format!("reconnecting in {seconds} s, r now"), theme.bad()),
                _ => ("reconnecting…".to_owned(), theme.bad()),
            };
        }
        ConnectionState::Idle => ("connecting…", theme.warning()),
        ConnectionState::Connected if model.is_refreshing => ("refreshing…", theme.warning()),
        ConnectionState::Connected => ("● live", theme.good()),
    };
    (text.to_owned(), style)
}

/// Returns the screen whose tab is at `position`.
pub(super) fn tab_at(model: &Model, area: Rect, position: Position) -> Option<Screen> {
    let row = area.rows().nth(1)?;
    tabs(model, row).into_iter().find(|(.., place)| place.contains(position)).map(|(it, ..)| it)
}

/// Returns the tabs with their labels and areas. Labels are shortened if not all fit.
fn tabs(model: &Model, row: Rect) -> Vec<(Screen, String, Rect)> {
    let number =
        |screen| Screen::TABS.iter().position(|it| *it == screen).map_or(0, |it| (it + 1) % 10);
    let open = model.screen;
    let padded = |it: Screen| format!(" {} {} ", number(it), it.name());
    let compact = |it: Screen| format!("{} {}", number(it), it.name());
    let shortened = |it: Screen, letters: usize| {
        let letters = if it == open { usize::MAX } else { letters };
        format!("{} {}", number(it), fit(it.name(), letters))
    };
    let shortest = |it: Screen| if it == open { padded(it) } else { format!(" {} ", number(it)) };
    // First drop the padding, then the ends of long names, then the names of all tabs except the open
    // one.
    let width = usize::from(row.width);
    let fits = |label: &dyn Fn(Screen) -> String| {
        let needed: usize = model.tabs().map(|it| Span::raw(label(it)).width() + 1).sum();
        width + 1 >= needed
    };
    let letters = TAB_LETTERS.rev().find(|it| fits(&|tab| shortened(tab, *it)));
    let short = |it: Screen| shortened(it, letters.unwrap_or(*TAB_LETTERS.start()));
    let (label, gap): (&dyn Fn(Screen) -> String, u16) = if fits(&padded) {
        (&padded, 0)
    } else if fits(&compact) {
        (&compact, 1)
    } else if letters.is_some() {
        (&short, 1)
    } else {
        (&shortest, 0)
    };
    let mut start = row.x;
    let mut tabs = Vec::new();
    for screen in model.tabs() {
        let label = label(screen);
        let width = u16::try_from(Span::raw(&label).width()).unwrap_or(u16::MAX);
        tabs.push((screen, label, Rect { x: start, width, ..row }.intersection(row)));
        start = start.saturating_add(width).saturating_add(gap);
    }
    tabs
}

/// Draws a notice over the last rows of `area`, which are the border of a box. In order of
/// precedence: a problem of the last action, a connection problem, the success of the last action.
pub(super) fn notice(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let (text, style) = match (&model.notice, &model.connection) {
        (Some(Notice::Problem(text)), _) => (text.as_str(), theme.bad()),
        (_, ConnectionState::Reconnecting { problem, .. }) => (problem.as_str(), theme.bad()),
        (Some(Notice::Success(text)), _) => (text.as_str(), theme.good()),
        (None, _) => return,
    };
    let lines = wrap(text, usize::from(area.width).saturating_sub(6));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(MAX_NOTICE_ROWS);
    let top = area.height.saturating_sub(height);
    let place = Rect { y: area.y.saturating_add(top), height, ..area }.intersection(area);
    for (line, row) in lines.into_iter().zip(place.rows()) {
        let text = Span::styled(format!(" {line} "), style);
        let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
        let row = Rect { x: row.x.saturating_add(2), width, ..row }.intersection(row);
        clear(theme, buffer, row);
        Line::from(text).render(row, buffer);
    }
}

/// Draws the footer: as many key hints as fit without truncation.
pub(super) fn footer(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let mut line = Line::default();
    let hinted: Vec<_> = keymap::bindings(model.focus())
        .filter(|row| model.allows(row.action))
        .filter_map(|row| Some((row.labels().next()?, row.hint?)))
        .collect();
    // The last two hints, help and quit, always stay.
    let last = hinted.len().saturating_sub(2);
    let width_of = |(key, hint): &(String, &str)| Span::raw(key).width() + hint.len() + 3;
    let mut remaining =
        usize::from(area.width).saturating_sub(hinted[last..].iter().map(width_of).sum());
    for (index, hint) in hinted.iter().enumerate() {
        if index < last {
            match remaining.checked_sub(width_of(hint)) {
                Some(left) => remaining = left,
                None => continue,
            }
        }
        line.push_span(Span::styled(format!(" {} ", hint.0), theme.accent()));
        line.push_span(Span::styled(format!("{} ", hint.1), theme.faint()));
    }
    line.render(area, buffer);
}
