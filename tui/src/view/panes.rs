//! A list, and a detail pane for the selected row if the user opened it: side by side in a wide
//! terminal, else one at a time.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Span;

use crate::model::Model;
use crate::model::fetched::{FetchState, List, ListEntry};

use super::widget::detail::Detail;
use super::widget::frame::{frame, note};
use super::widget::status::{empty, stale};
use super::widget::table::{Column, Table, hidden_columns};
use super::widget::text::count as format_count;

/// The minimum width to show list and detail side by side.
const MIN_SPLIT_WIDTH: u16 = 120;
/// The relative widths of list and detail.
const SHARES: [u16; 2] = [3, 2];

/// The configuration of a list screen.
pub(super) struct Panes<'a, T> {
    /// The title of the list.
    pub(super) title: &'a str,
    /// The list.
    pub(super) list: &'a List<T>,
    /// The columns of the table.
    pub(super) columns: &'a [Column],
    /// The text for an empty list.
    pub(super) empty_text: &'a str,
}

/// Returns the areas of list and detail with these relative widths. An area that is not drawn has
/// no width.
pub(super) fn split(model: &Model, area: Rect, shares: [u16; 2]) -> (Rect, Rect) {
    let none = Rect { width: 0, ..area };
    match (model.is_detail_open, area.width) {
        (false, _) => (area, none),
        (true, MIN_SPLIT_WIDTH..) => {
            let [list, detail] = Layout::horizontal(shares.map(Constraint::Fill)).areas(area);
            (list, detail)
        }
        (true, _) => (none, area),
    }
}

/// Returns the title after the names of the rows that led to the screen.
pub(super) fn with_trail(model: &Model, title: &str) -> String {
    let steps = model.trail.iter().flat_map(|it| [it.from.name(), " › ", &it.name, " › "]);
    steps.chain([title]).collect()
}

/// Returns the area of the list, the index of the selected row, and the number of rows.
pub(super) fn list_area<T: ListEntry>(
    model: &Model,
    list: &List<T>,
    area: Rect,
) -> (Rect, usize, usize) {
    (split(model, area, SHARES).0, list.selected, list.visible().count())
}

// === impl Panes ===

impl<'a, T: ListEntry> Panes<'a, T> {
    /// Draws list and detail. `cells` returns the cells of a table row, `detail` the contents of
    /// the detail pane.
    pub(super) fn render(
        &self,
        model: &Model,
        cells: impl Fn(&'a T) -> Vec<Span<'a>>,
        detail: impl Fn(&'a T) -> Detail<'a>,
        buffer: &mut Buffer,
        area: Rect,
    ) {
        let (left, right) = split(model, area, SHARES);
        if left.width > 0 {
            self.table(model, cells, buffer, left);
        }
        if right.width > 0 {
            let inside = frame(model.theme, "Detail · Esc closes", buffer, right);
            match self.list.current() {
                Some(entry) => {
                    detail(entry).render(model.theme, model.detail_scroll, buffer, inside);
                }
                None => empty(model.theme, &FetchState::Ready, "nothing selected", buffer, inside),
            }
        }
    }

    fn table(
        &self,
        model: &Model,
        cells: impl Fn(&'a T) -> Vec<Span<'a>>,
        buffer: &mut Buffer,
        area: Rect,
    ) {
        let Self { title, list, columns, empty_text } = *self;
        let count = list.visible().count();
        let of = if list.filter.is_empty() {
            String::new()
        } else {
            format!(
                " of {} · /{}",
                format_count(u64::try_from(list.entries.len()).ok()),
                list.filter
            )
        };
        let of = if list.has_more { format!("{of} newest, there are more") } else { of };
        let of = match list.marked().len() {
            0 => of,
            marked => format!("{of} · {marked} marked"),
        };
        let title = with_trail(model, title);
        let number = format_count(u64::try_from(count).ok());
        let title = match list.fetch {
            FetchState::Ready => format!("{title} · {number}{of}"),
            _ if list.entries.is_empty() => title,
            _ => format!("{title} · {number}{of}{}", stale(&list.fetch)),
        };
        let inside = frame(model.theme, &title, buffer, area);
        if count == 0 {
            let empty_text = if list.entries.is_empty() {
                empty_text
            } else {
                "nothing passes the filter: Esc clears it"
            };
            empty(model.theme, &list.fetch, empty_text, buffer, inside);
            return;
        }
        let (theme, selected) = (model.theme, Some(list.selected));
        let table = Table { theme, columns, count, selected, state: &list.table };
        let hidden = table.render(list.visible(), cells, buffer, inside);
        note(theme, &title, &hidden_columns(hidden, columns.len()), buffer, area);
        let marks: Vec<_> = list.visible().map(|it| list.table.marked.contains(it.id())).collect();
        table.marks(&marks, buffer, inside);
    }
}
