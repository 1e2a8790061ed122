//! Draws overlays.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use secrecy::ExposeSecret;

use crate::keymap;
use crate::model::change::SecretKind;
use crate::model::command_line::command_line;
use crate::model::form::{FieldKind, Form};
use crate::model::overlay::{Choice, Confirm, Help, Overlay, Palette, Secret, SecretState};
use crate::model::{Model, Notice};
use crate::theme::Theme;

use super::widget::field;
use super::widget::frame::{note, popup};
use super::widget::text::fit;
use super::{chart, choices, filter, help, picker, route, shell, trial};

/// The maximum number of visible palette commands.
const MAX_VISIBLE_COMMANDS: usize = 10;

/// The width of the names of palette commands.
const COMMAND_WIDTH: usize = 16;
/// What to do with the secret of a key.
const KEEP_IT: &str = "Keep it in a safe place before you close this box.";

/// Draws the open overlay above `body`. The filter input replaces the footer in `bottom`.
pub(super) fn render(model: &Model, buffer: &mut Buffer, body: Rect, bottom: Rect) {
    match &model.overlay {
        None => {}
        Some(Overlay::Help(open)) => help::render(model, open, buffer, body),
        Some(Overlay::Palette(typed)) => palette(model, typed, buffer, body),
        Some(Overlay::Filter(input)) => filter::render(model, input, buffer, body, bottom),
        Some(Overlay::Chart(view)) => chart::render(model, *view, buffer, body),
        Some(Overlay::Columns(choice)) => {
            if let Some(table) = model.table() {
                choices::columns(model, choice, table, buffer, body);
            }
        }
        Some(Overlay::Values(choice)) => choices::values(model, choice, buffer, body),
        Some(Overlay::Themes(choice)) => choices::themes(model, *choice, buffer, body),
        Some(Overlay::Form(open)) => {
            let rows = u16::try_from(open.fields.len()).unwrap_or(u16::MAX);
            let size = Constraint::Max(rows.saturating_add(6));
            let place = body.centered(Constraint::Max(72), size);
            let command = open.command.as_deref().map(|it| format!("= {it}")).unwrap_or_default();
            let mut remark = Text::styled(command, model.theme.faint());
            remark.extend(open.preview.iter().map(|it| Line::styled(it, model.theme.warning())));
            form(model.theme, open, remark, buffer, place);
            picker::render(model, open, buffer, body, place);
        }
        Some(Overlay::Choose(choice)) => choose(model.theme, choice, buffer, body),
        Some(Overlay::Confirm(question)) => confirm(model.theme, question, buffer, body),
        Some(Overlay::Route(view)) => route::render(model, view, buffer, body),
        Some(Overlay::Trial(open)) => trial::render(model, open, buffer, body),
        Some(Overlay::Secret(key)) => secret(model.theme, key, buffer, body),
    }
    let has_notice = match (&model.overlay, &model.notice) {
        // A trial has a line for notices.
        (None | Some(Overlay::Trial(_)), _) | (_, None) => false,
        // The box says itself that there is a secret.
        (Some(Overlay::Secret(_)), Some(notice)) => matches!(notice, Notice::Problem(_)),
        (Some(_), Some(_)) => true,
    };
    if has_notice {
        shell::notice(model, buffer, body);
    }
}

/// Draws a form. `remark` appears below the fields unless a problem or the submission state does.
pub(super) fn form(theme: Theme, form: &Form, remark: Text<'_>, buffer: &mut Buffer, area: Rect) {
    let inside = popup(theme, &form.title, buffer, area);
    if form.fields.iter().any(|field| field.is_required) {
        note(theme, &form.title, &["* required".to_owned()], buffer, area);
    }
    let gap = gap(form, area);
    let mut rows = inside.rows().skip(gap.into());
    for ((index, field), row) in form.fields.iter().enumerate().zip(&mut rows) {
        let [left, right] =
            Layout::horizontal([Constraint::Length(15), Constraint::Fill(1)]).areas(row);
        let focused = index == form.current && !form.is_submitting;
        let style = if focused { theme.accent() } else { theme.faint() };
        let mark = if field.is_required { " *" } else { "" };
        let mark = Span::styled(mark, theme.warning());
        Line::from_iter([Span::styled(field.label, style), mark]).render(left, buffer);
        if field.input.value().is_empty() && field.kind != FieldKind::Fixed {
            Line::styled(fit(field.hint, right.width.into()), theme.faint()).render(right, buffer);
        }
        match field.kind {
            FieldKind::Text if focused => field::typed(theme, &field.input, buffer, right),
            FieldKind::Text => field::line(theme, field.input.value(), None, buffer, right),
            FieldKind::Masked => field::masked(theme, &field.input, focused, buffer, right),
            FieldKind::Choice(options) => {
                let current = field.input.value();
                let all = choice(theme, options, current, focused);
                let fits = all.width() <= usize::from(right.width) + 2;
                let line = if fits { all } else { choice(theme, &[current], current, focused) };
                line.render(right, buffer);
            }
            FieldKind::Fixed => {
                let text = fit(field.input.value(), right.width.into());
                Line::styled(text, theme.strong()).render(right, buffer);
            }
        }
    }
    let text = match &form.problem {
        _ if form.is_submitting => Text::styled("waiting for the gateway…", theme.warning()),
        Some(problem) => Text::styled(problem.as_str(), theme.bad()),
        None => remark,
    };
    let y = below_fields(form, area);
    let below = Rect { y, height: inside.bottom().saturating_sub(y), ..inside };
    Paragraph::new(text).wrap(Wrap { trim: true }).render(below.intersection(inside), buffer);
}

/// Returns the first row below the fields of a form that is drawn in `area`: that of its problem.
pub(super) fn below_fields(form: &Form, area: Rect) -> u16 {
    let rows = u16::try_from(form.fields.len()).unwrap_or(u16::MAX);
    area.y.saturating_add(1).saturating_add(rows).saturating_add(2 * gap(form, area))
}

/// Returns the number of empty rows above the fields of a form that is drawn in `area`, and below
/// them: none if there would be no room for the problem of the form.
pub(super) fn gap(form: &Form, area: Rect) -> u16 {
    let rows = u16::try_from(form.fields.len()).unwrap_or(u16::MAX);
    // The border has two rows, the problem at least one.
    u16::from(area.height >= rows.saturating_add(2 + 2 + 1))
}

/// Returns the options of a choice with arrows around the current one, each with two spaces behind it.
fn choice<'a>(theme: Theme, options: &[&'a str], current: &'a str, focused: bool) -> Line<'a> {
    let style = if focused { theme.strong() } else { theme.faint() };
    let shown = |option: &&str| {
        if *option == current {
            Span::styled(format!("◂ {option} ▸  "), style)
        } else {
            Span::styled(format!("{option}  "), theme.faint())
        }
    };
    options.iter().map(shown).collect()
}

fn palette(model: &Model, palette: &Palette, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let commands = keymap::commands(model, palette.input.value());
    let height = u16::try_from(MAX_VISIBLE_COMMANDS + 3).unwrap_or(u16::MAX);
    let place = area.centered(Constraint::Max(76), Constraint::Max(height));
    let place = Rect { y: area.y.saturating_add(1), ..place }.intersection(area);
    let first = (palette.selected + 1).saturating_sub(MAX_VISIBLE_COMMANDS);
    let title = match commands.len() {
        count if count > MAX_VISIBLE_COMMANDS => {
            format!("Command · {}–{} of {count}", first + 1, first + MAX_VISIBLE_COMMANDS)
        }
        _ => "Command".to_owned(),
    };
    let inside = popup(theme, &title, buffer, place);
    let mut rows = inside.rows();
    if let Some(row) = rows.next() {
        Span::styled(":", theme.accent()).render(row, buffer);
        let typed = Rect { x: row.x + 1, width: row.width.saturating_sub(1), ..row };
        field::typed(theme, &palette.input, buffer, typed);
    }
    if commands.is_empty()
        && let Some(row) = rows.next()
    {
        let elsewhere = Help { input: palette.input.clone(), ..Help::default() };
        let text = if keymap::help::help(model, &elsewhere).is_empty() {
            "nothing is called like this: Esc, then ? lists all keys"
        } else {
            "no command of this screen: Enter shows where there is something like it"
        };
        Line::styled(fit(text, row.width.into()), theme.faint()).render(row, buffer);
    }
    for ((index, command), row) in commands.iter().enumerate().skip(first).zip(rows) {
        let key = command.labels().next().unwrap_or_default();
        let name = command.command.unwrap_or_default();
        let text = format!("{name:<COMMAND_WIDTH$} {}", command.help);
        let text = fit(&text, usize::from(row.width) - 4);
        Line::raw(text).render(row, buffer);
        // A styled line would dim the whole row, as if the command were not available.
        Line::from(Span::styled(key, theme.faint())).right_aligned().render(row, buffer);
        if index == palette.selected {
            buffer.set_style(row, theme.cursor());
        }
    }
}

fn choose(theme: Theme, choice: &Choice, buffer: &mut Buffer, area: Rect) {
    let height = u16::try_from(choice.options.len() + 2).unwrap_or(u16::MAX);
    let area = area.centered(Constraint::Max(44), Constraint::Max(height));
    let inside = popup(theme, &format!("Go to, for `{}`", choice.name), buffer, area);
    for ((index, option), row) in choice.options.iter().enumerate().zip(inside.rows()) {
        Line::raw(option.name()).render(row, buffer);
        if index == choice.selected {
            buffer.set_style(row, theme.cursor());
        }
    }
}

fn confirm(theme: Theme, confirm: &Confirm, buffer: &mut Buffer, area: Rect) {
    let command = command_line(&confirm.change);
    let commands: Vec<_> = command.iter().flat_map(|it| it.lines()).collect();
    let lines = [
        Line::default(),
        Line::styled(confirm.question.as_str(), theme.strong()),
        Line::raw(confirm.consequence.as_str()),
    ];
    let mut answers = vec![
        Line::default(),
        Line::from_iter([
            Span::styled("y", theme.accent()),
            Span::raw(" yes    "),
            Span::styled("n", theme.accent()),
            Span::raw(" no"),
        ]),
    ];
    if let [first, others @ ..] = commands.as_slice() {
        let more = match others.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        let text = format!("= {first}{more}");
        answers.extend([Line::default(), Line::from(Span::styled(text, theme.faint()))]);
    }
    let area = area.centered(Constraint::Max(72), Constraint::Length(11));
    let inside = popup(theme, "Are you sure?", buffer, area);
    // A long consequence is cut, but never the answers. A long command has two rows.
    let is_long = answers.last().is_some_and(|line| line.width() > inside.width.into());
    let rows = u16::try_from(answers.len() + usize::from(is_long)).unwrap_or(u16::MAX);
    let [above, below] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(rows)]).areas(inside);
    Paragraph::new(Text::from_iter(lines)).wrap(Wrap { trim: true }).render(above, buffer);
    Paragraph::new(Text::from(answers)).wrap(Wrap { trim: true }).render(below, buffer);
}

fn secret(theme: Theme, secret: &Secret, buffer: &mut Buffer, area: Rect) {
    // Wide enough for the secret in one line: the mouse cannot select a wrapped one.
    let area = area.centered(Constraint::Max(80), Constraint::Length(11));
    let (title, use_of_it) = match secret.kind {
        SecretKind::Key => (format!("Key `{}`", secret.label), KEEP_IT.to_owned()),
        SecretKind::Invite => {
            let text = "The new account uses it with Ctrl-N here, or with ctl register --invite.";
            ("Invite code".to_owned(), text.to_owned())
        }
        SecretKind::Person => {
            let name = &secret.label;
            let text = format!("For seven days and one use: ctl login {name} --reset-code CODE");
            (format!("Code of `{name}`"), text)
        }
        SecretKind::PasswordReset => {
            let name = &secret.label;
            let text = format!("For one hour and one use: ctl login {name} --reset-code CODE");
            (format!("Code for a new password of `{name}`"), text)
        }
    };
    let inside = popup(theme, &title, buffer, area);
    let text = secret.text.expose_secret();
    let copied = match secret.state {
        SecretState::Shown => {
            Line::styled("y copies it (where the terminal allows it, over ssh, too)", theme.faint())
        }
        SecretState::Copied => Line::styled("sent to the terminal's clipboard", theme.good()),
        SecretState::Closing => {
            Line::styled("not copied yet: y copies it, Esc once more closes the box", theme.bad())
        }
    };
    let text = Text::from_iter([
        Line::default(),
        Line::styled(text, theme.strong()),
        Line::default(),
        Line::styled("It is shown this once and will not come back.", theme.warning()),
        Line::raw(use_of_it),
        Line::default(),
        copied,
    ]);
    Paragraph::new(text).wrap(Wrap { trim: false }).render(inside, buffer);
}
