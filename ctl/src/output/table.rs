//! Columns that fit the terminal: on a narrow one the last go, and it says which.

use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width,
    presets,
};
use serde_json::Value;

use super::{Hue, Output, Record, cell};
use crate::error::Failure;

/// The padding that a cell has, both sides together; the first column has none on its left.
const GAP: u16 = 2;

/// What a printed stream of records remembers from batch to batch.
#[derive(Default)]
pub(crate) struct Stream {
    /// The header was printed.
    pub(super) begun: bool,
    /// How wide each column is, as long as what comes fits.
    pub(super) widths: Vec<u16>,
}

impl Output<'_> {
    /// Prints a record with a line for each field.
    pub(super) fn sheet<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        let fields = cell::fields(record)?;
        let mut table = self.new_table();
        // Not wrapped here: a terminal's own wrapping leaves a secret whole when copied.
        table.set_content_arrangement(ContentArrangement::Disabled);
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
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            let fields = cell::fields(record)?;
            let texts: Vec<_> =
                R::COLUMNS.iter().map(|name| cell::shown(record, &fields, name)).collect();
            rows.push((fields, texts));
        }
        let first = !std::mem::replace(&mut stream.begun, true);
        let least = std::mem::take(&mut stream.widths);
        let mut columns = if first { R::COLUMNS } else { &R::COLUMNS[..least.len()] };
        loop {
            let mut table = self.new_table();
            if first {
                let title = |name: &&str| align(name, self.bold(Cell::new(cell::heading(name))));
                table.set_header(columns.iter().map(title));
            }
            for (fields, texts) in &rows {
                table.add_row(
                    columns
                        .iter()
                        .zip(texts)
                        .map(|(name, text)| (name, text, cell::value(fields, name)))
                        .map(|(name, text, value)| align(name, self.hue(Cell::new(text), value))),
                );
            }
            let mut widths = table.column_max_content_widths();
            for (width, least) in widths.iter_mut().zip(&least) {
                *width = (*width).max(*least);
            }
            let padded = |(column, width): (usize, &u16)| width + GAP - u16::from(column == 0);
            let needed: u16 = widths.iter().enumerate().map(padded).sum();
            let fits = self.environment.width.is_none_or(|width| needed <= width);
            if !fits && columns.len() > 2 {
                columns = &columns[..columns.len() - 1];
                continue;
            }
            if fits {
                let fixed = |column| ColumnConstraint::Absolute(Width::Fixed(padded(column)));
                table.set_constraints(widths.iter().enumerate().map(fixed));
            }
            stream.widths = widths;
            self.write_table(table)?;
            if first && columns.len() < R::COLUMNS.len() {
                let hidden: Vec<_> =
                    R::COLUMNS[columns.len()..].iter().map(|name| cell::heading(name)).collect();
                self.note(&format!("(too narrow for {}; -o json has all)", hidden.join(", ")));
            }
            return Ok(());
        }
    }

    fn new_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if self.environment.colour {
            table.enforce_styling();
        }
        if let Some(width) = self.environment.width {
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
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

fn align(name: &str, cell: Cell) -> Cell {
    cell.set_alignment(if cell::is_number(name) {
        CellAlignment::Right
    } else {
        CellAlignment::Left
    })
}
