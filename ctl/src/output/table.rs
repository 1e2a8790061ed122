//! Columns that fit the terminal: where not all do, shorter ones, of which the last go or are cut.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width,
    presets,
};
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use super::{Hue, Output, Record, cell};
use crate::error::Failure;

/// The padding that a cell has, both sides together; the first column has none on its left.
const GAP: usize = 2;
/// A text is cut to no less.
const MIN_WIDTH: usize = 8;

/// What a printed stream of records remembers from batch to batch.
#[derive(Default)]
pub(crate) struct Stream {
    /// The header was printed.
    pub(super) begun: bool,
    /// More will come, as wide as nobody knows.
    pub(super) endless: bool,
    columns: Vec<Column>,
}

/// A column as it was begun.
struct Column {
    name: &'static str,
    width: usize,
    /// There is no room for more: what is longer is cut.
    is_cut: bool,
}

/// Records with their fields by name.
type Rows<'a, R> = [(&'a R, Map<String, Value>)];

impl Output<'_> {
    /// Prints a record with a line for each field.
    pub(super) fn sheet<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        let fields = cell::fields(record)?;
        let mut table = self.new_table();
        for name in R::FIELDS {
            let cell = Cell::new(cell::shown(record, &fields, name));
            table.add_row([self.bold(Cell::new(name)), self.hue(cell, &fields[*name])]);
        }
        self.write_table(table)
    }

    /// Prints records in columns, under a header if they are the first of their stream.
    pub(super) fn rows<R: Record>(
        &mut self,
        records: &[R],
        stream: &mut Stream,
    ) -> Result<(), Failure> {
        if self.quiet {
            return self.names(records);
        }
        let rows = records.iter().map(|record| Ok((record, cell::fields(record)?)));
        let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
        let mut table = self.new_table();
        let is_first = !std::mem::replace(&mut stream.begun, true);
        if is_first {
            stream.columns = self.columns(&rows, stream.endless);
            let title = |it: &Column| align(it, self.bold(Cell::new(cell::heading(it.name))));
            table.set_header(stream.columns.iter().map(title));
        }
        for column in stream.columns.iter_mut().filter(|column| !column.is_cut) {
            column.width = column.width.max(widest(&rows, column.name));
        }
        for (record, fields) in &rows {
            table.add_row(stream.columns.iter().map(|column| {
                let text = cell::shown(*record, fields, column.name);
                let text = cell::cut(&text, column.width, self.environment.unicode);
                align(column, self.hue(Cell::new(text), cell::value(fields, column.name)))
            }));
        }
        let padded = |(index, it): (usize, &Column)| it.width + GAP - usize::from(index == 0);
        let fixed = |width| u16::try_from(width).unwrap_or(u16::MAX);
        table.set_constraints(
            stream
                .columns
                .iter()
                .enumerate()
                .map(padded)
                .map(|width| ColumnConstraint::Absolute(Width::Fixed(fixed(width)))),
        );
        self.write_table(table)?;
        if is_first {
            self.tell_hidden::<R>(&stream.columns);
        }
        Ok(())
    }

    /// Chooses the columns: all of them if they fit, else what does of the narrow ones.
    fn columns<R: Record>(&self, rows: &Rows<'_, R>, endless: bool) -> Vec<Column> {
        let least = |name: &str| {
            let set = R::WIDTHS.iter().find(|(column, _)| endless && *column == name);
            set.map_or(0, |(_, width)| *width)
        };
        let column = |name: &&'static str| {
            let width = cell::heading(name).width().max(widest(rows, name)).max(least(name));
            Column { name, width, is_cut: false }
        };
        let all: Vec<_> = R::COLUMNS.iter().map(column).collect();
        let needed: usize = all.iter().map(|column| column.width + GAP).sum();
        let Some(width) = self.width().filter(|width| needed > width + 1) else { return all };
        // the first has no padding on its left
        let mut room = width + 1;
        let mut shown = Vec::new();
        for mut column in R::NARROW.iter().map(column) {
            let left = room.saturating_sub(GAP);
            if column.width > left && !shown.is_empty() {
                if left >= MIN_WIDTH && cell::is_text(column.name) {
                    column = Column { width: left, is_cut: true, ..column };
                    shown.push(column);
                }
                break;
            }
            room = room.saturating_sub(column.width + GAP);
            shown.push(column);
        }
        shown
    }

    /// Says what there was no room for.
    fn tell_hidden<R: Record>(&mut self, columns: &[Column]) {
        let is_whole = |name: &str| columns.iter().any(|it| it.name == name && !it.is_cut);
        if R::COLUMNS.iter().all(|name| is_whole(name)) {
            return;
        }
        let hidden = R::NARROW.iter().filter(|name| !is_whole(name));
        let hidden: Vec<_> = hidden.map(|name| cell::heading(name)).collect();
        if !hidden.is_empty() {
            self.note(&format!("(too narrow for {}; -o json has all)", hidden.join(", ")));
        }
    }

    fn new_table(&self) -> Table {
        let mut table = Table::new();
        // Not wrapped here: a terminal's own wrapping leaves a secret whole when copied.
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.load_style(presets::NOTHING).force_no_tty();
        if self.environment.colour {
            table.enforce_styling();
        }
        table
    }

    fn write_table(&mut self, mut table: Table) -> Result<(), Failure> {
        if table.header().is_none() && table.row_count() == 0 {
            return Ok(());
        }
        // Padding is inside the escapes of a coloured cell, where it could not be cut off later.
        if let Some(first) = table.column_mut(0) {
            first.set_padding((0, 1));
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        self.text(&text)
    }

    fn bold(&self, cell: Cell) -> Cell {
        if self.environment.colour { cell.add_attribute(Attribute::Bold) } else { cell }
    }

    /// Gives a status word its colour.
    fn hue(&self, cell: Cell, value: &Value) -> Cell {
        match cell::hue(value).filter(|_| self.environment.colour) {
            Some(Hue::Good) => cell.fg(Color::Green),
            Some(Hue::Doubtful) => cell.fg(Color::Yellow),
            Some(Hue::Bad) => cell.fg(Color::Red),
            Some(Hue::Strong) => cell.add_attribute(Attribute::Bold),
            None => cell,
        }
    }
}

/// How many columns of the terminal the longest text of a column takes.
fn widest<R: Record>(rows: &Rows<'_, R>, name: &str) -> usize {
    let texts = rows.iter().map(|(record, fields)| cell::shown(*record, fields, name));
    texts.map(|text| text.width()).max().unwrap_or_default()
}

fn align(column: &Column, cell: Cell) -> Cell {
    cell.set_alignment(if cell::is_number(column.name) {
        CellAlignment::Right
    } else {
        CellAlignment::Left
    })
}
