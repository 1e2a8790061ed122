//! Placeholders for missing data and markers for stale data.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::wrap;
use crate::model::fetched::FetchState;
use crate::theme::Theme;

/// Draws why there is no data. `empty_text` is for successfully loaded but empty data.
pub fn empty(theme: Theme, fetch: &FetchState, empty_text: &str, buffer: &mut Buffer, area: Rect) {
    let (text, style) = match fetch {
        FetchState::Loading => ("fetching…", theme.faint()),
        FetchState::Ready => (empty_text, theme.faint()),
        FetchState::Failed(problem) => (problem.as_str(), theme.bad()),
        FetchState::Unsupported => ("not available on this gateway", theme.faint()),
    };
    for (line, row) in wrap(text, area.width.into()).into_iter().zip(area.rows()) {
        Line::from(Span::styled(line, style)).render(row, buffer);
    }
}

/// Returns the title suffix for data whose last fetch failed.
pub fn stale(fetch: &FetchState) -> &'static str {
    match fetch {
        FetchState::Failed(_) => " · out of date",
        FetchState::Loading | FetchState::Ready | FetchState::Unsupported => "",
    }
}
