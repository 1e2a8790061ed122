//! A table with fixed columns. If they need more room than there is, they become as narrow as the
//! visible cells allow; then those with a high drop priority disappear, and [`hidden_columns`] says
//! how many. Long cells are truncated.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::text::{UNKNOWN, fit, several};
use crate::model::table::{Sort, TableState};
use crate::theme::Theme;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The column header.
    pub title: &'static str,
    /// The minimum width.
    pub min_width: u16,
    /// The share of the remaining width; 0 keeps the minimum width.
    pub grow: u16,
    /// The alignment of cells and header.
    pub alignment: Alignment,
    /// Columns with the highest value are dropped first; 0 is never dropped.
    pub drop_priority: u8,
    /// Whether the decimal points of the visible cells are in one column.
    pub is_decimal: bool,
    /// Whether the column keeps its width although the visible cells need less. Without that, a list
    /// whose cells are seldom filled would change its columns whenever one is.
    pub is_steady: bool,
}

/// A table without its rows.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The colour theme.
    pub theme: Theme,
    /// The columns.
    pub columns: &'a [Column],
    /// The number of rows.
    pub count: usize,
    /// The index of the selected row, if any.
    pub selected: Option<usize>,
    /// The order of the rows and the scrolled-out columns.
    pub state: &'a TableState,
}

/// Returns the index of the first visible row, with the cursor kept near the middle.
pub fn first_visible_row(selected: usize, count: usize, height: u16) -> usize {
    let height = usize::from(height);
    selected.saturating_sub(height / 2).min(count.saturating_sub(height))
}

// === impl Column ===

impl Column {
    /// Returns a left-aligned text column.
    pub const fn text(title: &'static str, min_width: u16, grow: u16, drop_priority: u8) -> Self {
        let alignment = Alignment::Left;
        let (is_decimal, is_steady) = (false, false);
        Self { title, min_width, grow, alignment, drop_priority, is_decimal, is_steady }
    }

    /// Returns a right-aligned number column of fixed width.
    pub const fn number(title: &'static str, min_width: u16, drop_priority: u8) -> Self {
        let alignment = Alignment::Right;
        Self { alignment, ..Self::text(title, min_width, 0, drop_priority) }
    }

    /// Returns a number column whose decimal points are aligned.
    pub const fn decimal(title: &'static str, min_width: u16, drop_priority: u8) -> Self {
        Self { is_decimal: true, ..Self::number(title, min_width, drop_priority) }
    }

    /// Lets the column keep its width.
    #[must_use]
    pub const fn steady(self) -> Self {
        Self { is_steady: true, ..self }
    }
}

// === impl Table ===

impl Table<'_> {
    /// Draws the header and as many rows as fit. `cells` returns one cell per column. Returns the
    /// number of columns that are not visible.
    pub fn render<'r, T: 'r>(
        self,
        rows: impl Iterator<Item = &'r T>,
        cells: impl Fn(&'r T) -> Vec<Span<'r>>,
        buffer: &mut Buffer,
        area: Rect,
    ) -> usize {
        let Some(body) = body_area(area) else { return 0 };
        let order = column_order(self.columns, self.state);
        let columns: Vec<_> = order.iter().map(|index| self.columns[*index]).collect();
        let table = Table { columns: &columns, ..self };
        table.render_ordered(rows, |row| in_order(cells(row), &order), buffer, area, body)
    }

    /// Draws the columns in the order in which they are.
    fn render_ordered<'r, T: 'r>(
        self,
        rows: impl Iterator<Item = &'r T>,
        cells: impl Fn(&'r T) -> Vec<Span<'r>>,
        buffer: &mut Buffer,
        area: Rect,
        body: Rect,
    ) -> usize {
        let first = first_visible_row(self.selected.unwrap_or(0), self.count, body.height);
        let mut lines: Vec<_> = rows.skip(first).take(body.height.into()).map(cells).collect();
        self.align_decimals(&mut lines);
        let fitted = self.fitted(&lines, area.width);
        let spans = visible_spans(&fitted, self.state, area.width);
        let heads = self.columns.iter().map(|column| self.head(column));
        self.line(heads, &spans, buffer, Rect { height: 1, ..area });
        for ((row, cells), place) in (first..).zip(lines).zip(body.rows()) {
            self.line(cells.into_iter(), &spans, buffer, place);
            if self.selected == Some(row) {
                buffer.set_style(place, self.theme.cursor());
            }
        }
        spans.iter().filter(|span| span.is_none()).count()
    }

    /// Returns the columns; if they need more than `width`, as narrow as the cells of these lines
    /// allow.
    fn fitted(&self, lines: &[Vec<Span<'_>>], width: u16) -> Vec<Column> {
        let mut columns = self.columns.to_vec();
        let is_shown = |it: &&Column| !self.state.hidden.contains(it.title);
        let needed = columns.iter().filter(is_shown).map(|it| u32::from(it.min_width) + 1);
        let is_narrow = needed.sum::<u32>() > u32::from(width) + 1;
        let widest: Vec<_> =
            (0..columns.len()).map(|index| self.widest_cell(index, lines)).collect();
        for (column, widest) in columns.iter_mut().zip(&widest) {
            if is_narrow && !column.is_steady {
                column.min_width = column.min_width.min(*widest);
            }
        }
        self.widen_truncated(&mut columns, &widest, width);
        columns
    }

    /// If a column that grows would have truncated cells, makes the others as narrow as their cells allow, and
    /// divides the room that no column needs between those that grow, each up to its widest cell.
    fn widen_truncated(&self, columns: &mut [Column], widest: &[u16], width: u16) {
        let spans = visible_spans(columns, self.state, width);
        let is_truncated = |(index, column): (usize, &Column)| {
            let width = spans[index].map(|(_, width)| width);
            let width = width.filter(|_| column.grow > 0 && !column.is_steady);
            width.is_some_and(|width| width < widest[index])
        };
        if !columns.iter().enumerate().any(is_truncated) {
            return;
        }
        for (column, widest) in columns.iter_mut().zip(widest).filter(|(it, _)| !it.is_steady) {
            column.min_width = column.min_width.min(*widest);
        }
        let spans = visible_spans(columns, self.state, width);
        let shown = columns.iter().zip(&spans).filter(|(_, span)| span.is_some());
        let used: u32 = shown.map(|(column, _)| u32::from(column.min_width) + 1).sum();
        let spare = (u32::from(width) + 1).saturating_sub(used);
        let mut spare = u16::try_from(spare).unwrap_or(u16::MAX);
        let growing = columns.iter().enumerate().filter(|(_, column)| column.grow > 0);
        let mut missing: Vec<_> = growing
            .filter(|(index, _)| spans[*index].is_some())
            .map(|(index, column)| (widest[index].saturating_sub(column.min_width), index))
            .collect();
        // Those that need little get it, the others an equal part of the rest.
        missing.sort_unstable();
        let counts = (1..=missing.len()).rev().filter_map(|count| u16::try_from(count).ok());
        for (count, (needed, index)) in counts.zip(missing) {
            let more = needed.min(spare / count);
            columns[index].min_width += more;
            spare -= more;
        }
    }

    /// Returns the width of the widest cell of a column, its header included.
    fn widest_cell(&self, index: usize, lines: &[Vec<Span<'_>>]) -> u16 {
        let cells = lines.iter().filter_map(|cells| cells.get(index)).map(Span::width);
        let widest = cells.chain([self.head(&self.columns[index]).width()]).max().unwrap_or(0);
        u16::try_from(widest).unwrap_or(u16::MAX)
    }

    /// Draws a sign at the left of each marked row. `area` is that of the table.
    pub fn marks(self, marks: &[bool], buffer: &mut Buffer, area: Rect) {
        let Some(body) = body_area(area) else { return };
        let first = first_visible_row(self.selected.unwrap_or(0), self.count, body.height);
        for (is_marked, row) in marks.iter().skip(first).zip(body.rows()) {
            if *is_marked && let Some(x) = row.x.checked_sub(1) {
                let place = Rect { x, width: 1, ..row }.intersection(buffer.area);
                Line::from(Span::styled("●", self.theme.accent())).render(place, buffer);
            }
        }
    }

    /// Returns the header of a column. An arrow says that the rows are sorted by it.
    fn head(&self, column: &Column) -> Span<'static> {
        match self.state.sort {
            Some(Sort { column: sorted, is_descending }) if sorted == column.title => {
                let arrow = if is_descending { "↓" } else { "↑" };
                Span::styled(format!("{}{arrow}", column.title), self.theme.accent())
            }
            _ => Span::styled(column.title, self.theme.faint()),
        }
    }

    /// Pads the cells of decimal columns so that their points are below each other.
    fn align_decimals(&self, lines: &mut [Vec<Span<'_>>]) {
        for (index, _) in self.columns.iter().enumerate().filter(|(_, it)| it.is_decimal) {
            let longest = lines.iter().filter_map(|cells| cells.get(index)).map(fraction).max();
            let numbers = lines.iter_mut().filter_map(|cells| cells.get_mut(index));
            for cell in numbers.filter(|cell| cell.content != UNKNOWN) {
                let missing = longest.unwrap_or(0).saturating_sub(fraction(cell));
                cell.content.to_mut().push_str(&" ".repeat(missing));
            }
        }
    }

    fn line<'c>(
        &self,
        cells: impl Iterator<Item = Span<'c>>,
        spans: &[Option<(u16, u16)>],
        buffer: &mut Buffer,
        row: Rect,
    ) {
        for ((cell, column), place) in cells.zip(self.columns).zip(spans) {
            let Some((start, width)) = *place else { continue };
            let place = Rect { x: row.x.saturating_add(start), width, ..row }.intersection(row);
            let cell = Span::styled(fit(&cell.content, place.width.into()), cell.style);
            Line::from(cell).alignment(column.alignment).render(place, buffer);
        }
    }
}

/// Returns the indices of the columns in the order that the user chose. The first one stays where it
/// is.
fn column_order(columns: &[Column], state: &TableState) -> Vec<usize> {
    let place = |title: &str| state.order.iter().position(|it| *it == title);
    let mut order: Vec<_> = (0..columns.len()).collect();
    if let Some(others) = order.get_mut(1..) {
        others.sort_by_key(|index| place(columns[*index].title).unwrap_or(usize::MAX));
    }
    order
}

/// Returns the cells in this order.
fn in_order<'c>(mut cells: Vec<Span<'c>>, order: &[usize]) -> Vec<Span<'c>> {
    let mut take = |index: &usize| cells.get_mut(*index).map(std::mem::take).unwrap_or_default();
    order.iter().map(&mut take).collect()
}

/// Returns the number of columns from the decimal point of the cell on, including the point.
fn fraction(cell: &Span<'_>) -> usize {
    cell.content.find('.').map_or(0, |point| cell.content.len() - point)
}

/// Returns notes on the columns of a table with `count` that are not visible, the longest first; none
/// if all are.
pub fn hidden_columns(hidden: usize, count: usize) -> Vec<String> {
    match hidden {
        0 => Vec::new(),
        hidden => vec![
            format!("{hidden} of {count} columns hidden, Ctrl-→"),
            format!("{} hidden", several(hidden, "column")),
            format!("+{hidden}"),
        ],
    }
}

/// Returns the start and width of each column; `None` for those that are not visible. If the user
/// scrolled sideways, these are the first one and as many as fit after the scrolled-out ones.
fn visible_spans(columns: &[Column], state: &TableState, width: u16) -> Vec<Option<(u16, u16)>> {
    let skipped = state.skipped_columns.min(columns.len().saturating_sub(2));
    if skipped == 0 && state.hidden.is_empty() {
        return column_spans(columns, width);
    }
    let is_hidden = |index: usize| index > 0 && state.hidden.contains(columns[index].title);
    let is_out = |index: usize| (1..=skipped).contains(&index) || is_hidden(index);
    let mut kept: Vec<Column> = Vec::new();
    let mut used = 0_u16;
    for (_, column) in columns.iter().enumerate().filter(|(index, _)| !is_out(*index)) {
        used = used.saturating_add(column.min_width).saturating_add(1);
        if skipped > 0 && used > width.saturating_add(1) && kept.len() > 1 {
            break;
        }
        kept.push(*column);
    }
    let mut spans = column_spans(&kept, width).into_iter();
    (0..columns.len())
        .map(|index| if is_out(index) { None } else { spans.next().flatten() })
        .collect()
}

/// Returns the area of the rows below the header; `None` if there is no room.
pub fn body_area(area: Rect) -> Option<Rect> {
    let height = area.height.checked_sub(1)?;
    Some(Rect { y: area.y + 1, height, ..area })
}

/// Returns the start and width of each column; `None` for dropped columns.
fn column_spans(columns: &[Column], width: u16) -> Vec<Option<(u16, u16)>> {
    let mut kept = vec![true; columns.len()];
    let needed = |kept: &[bool]| {
        let chosen = columns.iter().zip(kept).filter(|(_, kept)| **kept);
        chosen.map(|(column, _)| u32::from(column.min_width) + 1).sum::<u32>().saturating_sub(1)
    };
    while needed(&kept) > u32::from(width) {
        let droppable =
            columns.iter().enumerate().filter(|(place, it)| kept[*place] && it.drop_priority > 0);
        match droppable.max_by_key(|(place, column)| (column.drop_priority, *place)) {
            Some((place, _)) => kept[place] = false,
            None => break,
        }
    }
    // The room of a wide column may be enough for narrower ones that were dropped before.
    let mut dropped: Vec<_> = (0..columns.len()).filter(|place| !kept[*place]).collect();
    dropped.sort_by_key(|place| columns[*place].drop_priority);
    for place in dropped {
        kept[place] = true;
        kept[place] = needed(&kept) <= u32::from(width);
    }
    let spare = u32::from(width).saturating_sub(needed(&kept));
    let chosen = columns.iter().zip(&kept).filter(|(_, kept)| **kept);
    let shares: u32 = chosen.map(|(column, _)| u32::from(column.grow)).sum();
    let mut start = 0_u16;
    let mut allocated = 0;
    let mut grow_so_far = 0;
    columns
        .iter()
        .zip(kept)
        .map(|(column, kept)| {
            kept.then(|| {
                grow_so_far += u32::from(column.grow);
                let until = (spare * grow_so_far).checked_div(shares).unwrap_or(0);
                let width =
                    column.min_width.saturating_add(u16::try_from(until - allocated).unwrap_or(0));
                allocated = until;
                let place = (start, width);
                start = start.saturating_add(width).saturating_add(1);
                place
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Palette;

    const COLUMNS: [Column; 4] = [
        Column::text("a", 10, 2, 0),
        Column::text("b", 6, 1, 1),
        Column::number("c", 5, 2),
        Column::number("d", 5, 3),
    ];

    #[test]
    fn columns_are_dropped_by_priority_and_share_the_remaining_width() {
        for (width, expected) in [
            (32, [Some((0, 12)), Some((13, 7)), Some((21, 5)), Some((27, 5))]),
            (29, [Some((0, 10)), Some((11, 6)), Some((18, 5)), Some((24, 5))]),
            (28, [Some((0, 13)), Some((14, 8)), Some((23, 5)), None]),
            (17, [Some((0, 10)), Some((11, 6)), None, None]),
            (12, [Some((0, 12)), None, None, None]),
            (3, [Some((0, 10)), None, None, None]),
        ] {
            assert_eq!(column_spans(&COLUMNS, width), expected, "in {width}");
        }
    }

    #[test]
    fn narrow_columns_take_the_room_of_a_wide_one() {
        let columns = [
            Column::text("a", 4, 1, 0),
            Column::text("wide", 20, 0, 1),
            Column::text("narrow", 5, 0, 2),
        ];
        let spans = column_spans(&columns, 14);
        assert_eq!(spans, [Some((0, 8)), None, Some((9, 5))]);
    }

    #[test]
    fn a_long_cell_gets_the_room_that_others_do_not_need() {
        let columns = [Column::text("name", 10, 1, 0), Column::text("details", 6, 1, 1)];
        let (theme, state) = (Theme::new(Palette::Plain), TableState::default());
        let table = Table { theme, columns: &columns, count: 1, selected: None, state: &state };
        for (name, details, expected) in
            [(3, 14, [10, 6]), (3, 21, [4, 21]), (3, 30, [4, 28]), (90, 90, [18, 14])]
        {
            let lines = [vec![Span::raw("x".repeat(name)), Span::raw("x".repeat(details))]];
            let widths: Vec<_> = table.fitted(&lines, 33).iter().map(|it| it.min_width).collect();
            assert_eq!(widths, expected, "{name}, {details}");
        }
    }

    #[test]
    fn the_cursor_stays_visible_and_the_area_stays_full() {
        for (selected, count, height, row) in
            [(0, 3, 10, 0), (2, 3, 10, 0), (5, 100, 10, 0), (6, 100, 10, 1), (99, 100, 10, 90)]
        {
            assert_eq!(first_visible_row(selected, count, height), row);
        }
    }
}
