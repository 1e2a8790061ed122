//! Lays out tables. If the columns do not fit the terminal, uses the narrow columns of the record,
//! drops the last ones and truncates text.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width,
    presets,
};
use serde_json::{Map, Value};
use unicode_width::UnicodeWidthStr;

use super::{Output, Record, Style, cell};
use crate::error::Failure;

/// The horizontal padding of a cell, both sides together; the first column has no left padding.
const GAP: usize = 2;
/// The minimum width to which a column is truncated; with less room, it is dropped.
const MIN_TRUNCATED_WIDTH: usize = 8;

/// The state of a printed stream of records between its batches.
#[derive(Default)]
pub(crate) struct StreamState {
    /// Whether the header was printed.
    pub(super) has_header: bool,
    /// Whether more records may follow, whose widths are unknown.
    pub(super) is_unbounded: bool,
    columns: Vec<Column>,
}

/// A column of a table, with its width at the last printed batch.
struct Column {
    name: &'static str,
    width: usize,
    /// Whether longer texts are truncated, because the terminal has no more room.
    is_truncated: bool,
}

/// Records with their fields by name.
type Rows<'a, R> = [(&'a R, Map<String, Value>)];

impl Output<'_> {
    /// Prints a record with one line per field.
    pub(super) fn vertical_table<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        let fields = cell::fields(record)?;
        let mut table = self.new_table();
        for name in R::FIELDS {
            let cell = Cell::new(cell::table_text(record, &fields, name));
            table.add_row([self.bold(Cell::new(name)), self.style(cell, &fields[*name])]);
        }
        self.write_table(table)
    }

    /// Prints records as rows, with a header before the first batch of a stream.
    pub(super) fn rows<R: Record>(
        &mut self,
        records: &[R],
        stream: &mut StreamState,
    ) -> Result<(), Failure> {
        if self.quiet {
            return self.names(records);
        }
        let rows = records.iter().map(|record| Ok((record, cell::fields(record)?)));
        let rows = rows.collect::<Result<Vec<_>, Failure>>()?;
        let mut table = self.new_table();
        let is_first = !std::mem::replace(&mut stream.has_header, true);
        if is_first {
            stream.columns = self.columns(&rows, stream.is_unbounded);
            let title = |it: &Column| align(it, self.bold(Cell::new(cell::heading(it.name))));
            table.set_header(stream.columns.iter().map(title));
        }
        for column in stream.columns.iter_mut().filter(|column| !column.is_truncated) {
            column.width = column.width.max(max_width(&rows, column.name));
        }
        for (record, fields) in &rows {
            table.add_row(stream.columns.iter().map(|column| {
                let text = cell::table_text(*record, fields, column.name);
                let text = cell::truncate(&text, column.width, self.environment.unicode);
                align(column, self.style(Cell::new(text), cell::value(fields, column.name)))
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
            self.note_hidden_columns::<R>(&stream.columns);
        }
        Ok(())
    }

    /// Returns all columns if they fit the terminal, else as many of the narrow columns as fit.
    fn columns<R: Record>(&self, rows: &Rows<'_, R>, is_unbounded: bool) -> Vec<Column> {
        let min_width = |name: &str| {
            let set = R::MIN_WIDTHS.iter().find(|(column, _)| is_unbounded && *column == name);
            set.map_or(0, |(_, width)| *width)
        };
        let column = |name: &&'static str| {
            let width = cell::heading(name).width().max(max_width(rows, name)).max(min_width(name));
            Column { name, width, is_truncated: false }
        };
        let all: Vec<_> = R::COLUMNS.iter().map(column).collect();
        let needed: usize = all.iter().map(|column| column.width + GAP).sum();
        let Some(width) = self.width().filter(|width| needed > width + 1) else { return all };
        // The first column has no left padding.
        let mut room = width + 1;
        let mut shown = Vec::new();
        for mut column in R::NARROW_COLUMNS.iter().map(column) {
            let left = room.saturating_sub(GAP);
            if column.width > left && !shown.is_empty() {
                if left >= MIN_TRUNCATED_WIDTH && cell::is_truncatable(column.name) {
                    column = Column { width: left, is_truncated: true, ..column };
                    shown.push(column);
                }
                break;
            }
            room = room.saturating_sub(column.width + GAP);
            shown.push(column);
        }
        shown
    }

    /// Prints a note that lists the columns that were dropped or truncated.
    fn note_hidden_columns<R: Record>(&mut self, columns: &[Column]) {
        let is_whole = |name: &str| columns.iter().any(|it| it.name == name && !it.is_truncated);
        if R::COLUMNS.iter().all(|name| is_whole(name)) {
            return;
        }
        let hidden = R::NARROW_COLUMNS.iter().filter(|name| !is_whole(name));
        let hidden: Vec<_> = hidden.map(|name| cell::heading(name)).collect();
        if !hidden.is_empty() {
            self.note(&format!("(too narrow for {}; -o json has all)", hidden.join(", ")));
        }
    }

    fn new_table(&self) -> Table {
        let mut table = Table::new();
        // No wrapping: a secret that the terminal wraps is still copied as one line.
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
        // A coloured cell has its padding inside the escape sequences, so padding cannot be trimmed
        // later.
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

    /// Colours the cell of a status value, if colour is enabled.
    fn style(&self, cell: Cell, value: &Value) -> Cell {
        match cell::status_style(value).filter(|_| self.environment.colour) {
            Some(Style::Success) => cell.fg(Color::Green),
            Some(Style::Warning) => cell.fg(Color::Yellow),
            Some(Style::Error) => cell.fg(Color::Red),
            Some(Style::Heading) => cell.add_attribute(Attribute::Bold),
            None => cell,
        }
    }
}

/// Returns the width of the widest cell of a column, in terminal columns.
fn max_width<R: Record>(rows: &Rows<'_, R>, name: &str) -> usize {
    let texts = rows.iter().map(|(record, fields)| cell::table_text(*record, fields, name));
    texts.map(|text| text.width()).max().unwrap_or_default()
}

fn align(column: &Column, cell: Cell) -> Cell {
    cell.set_alignment(if cell::is_number(column.name) {
        CellAlignment::Right
    } else {
        CellAlignment::Left
    })
}
