//! From the model to cells; pure: the same model gives the same cells.
//!
//! [`render`] draws header, footer and the open screen, which is in the file of its name; the help
//! lies over it. Control characters in texts from outside never reach the terminal: ratatui drops them.

mod help;
mod overview;
mod sign_in;
pub mod widget;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use crate::keymap;
use crate::model::{Link, Model, Screen};

use self::widget::text::fit;

/// The smallest terminal in which the screens make sense.
const SMALLEST: (u16, u16) = (60, 16);

/// Draws `model` into `area`.
pub fn render(model: &Model, buffer: &mut Buffer, area: Rect) {
    let (width, height) = SMALLEST;
    if area.width < width || area.height < height {
        let text = format!("the terminal is too small: {width}×{height} needed");
        Line::raw(text).render(area, buffer);
        return;
    }
    let [top, body, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(area);
    header(model, buffer, top);
    match model.screen {
        Screen::SignIn => sign_in::render(model, buffer, body),
        Screen::Overview => overview::render(model, buffer, body),
    }
    footer(model, buffer, bottom);
    if model.help {
        help::render(model, buffer, body);
    }
}

fn header(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    let (text, style) = match &model.link {
        _ if model.screen == Screen::SignIn => ("", theme.faint()),
        Link::Reconnecting { .. } => ("reconnecting…", theme.bad()),
        Link::Idle => ("connecting…", theme.warning()),
        Link::Live if model.overview.refreshing => ("refreshing…", theme.warning()),
        Link::Live => ("● live", theme.good()),
    };
    let state = Span::styled(text, style);
    let room = usize::from(area.width).saturating_sub(state.width() + 15);
    let server = Span::styled(fit(&model.server, room), theme.faint());
    Line::from_iter([Span::styled(" Tollgate  ", theme.strong()), server]).render(area, buffer);
    Line::from_iter([state, Span::raw(" ")]).right_aligned().render(area, buffer);
}

/// The place of a problem, if there is one, else of what the keys do.
fn footer(model: &Model, buffer: &mut Buffer, area: Rect) {
    let theme = model.theme;
    if let (Link::Reconnecting { problem }, false) = (&model.link, model.help) {
        let text = fit(problem, usize::from(area.width).saturating_sub(2));
        Line::styled(format!(" {text}"), theme.bad()).render(area, buffer);
        return;
    }
    let hints = keymap::bindings(model.focus()).filter_map(|binding| {
        let key = binding.labels().next()?;
        Some([
            Span::styled(format!(" {key} "), theme.accent()),
            Span::styled(format!("{} ", binding.hint?), theme.faint()),
        ])
    });
    hints.flatten().collect::<Line>().render(area, buffer);
}
