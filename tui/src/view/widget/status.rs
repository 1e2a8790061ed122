//! What stands where there is nothing to show, or what is shown is not all there is.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::wrap;
use crate::model::remote::Fetch;
use crate::theme::Theme;

/// Draws why there is nothing to show; `nothing` is for when there just is nothing.
pub fn empty(theme: Theme, fetch: &Fetch, nothing: &str, buffer: &mut Buffer, area: Rect) {
    let (text, style) = match fetch {
        Fetch::Waiting => ("fetching…", theme.faint()),
        Fetch::Ready => (nothing, theme.faint()),
        Fetch::Failed(problem) => (problem.as_str(), theme.bad()),
        Fetch::Missing => ("not available on this gateway", theme.faint()),
    };
    for (line, row) in wrap(text, area.width.into()).into_iter().zip(area.rows()) {
        Line::from(Span::styled(line, style)).render(row, buffer);
    }
}

/// Returns what a title says of data that could not be fetched again.
pub fn stale(fetch: &Fetch) -> &'static str {
    match fetch {
        Fetch::Failed(_) => " · out of date",
        Fetch::Waiting | Fetch::Ready | Fetch::Missing => "",
    }
}
