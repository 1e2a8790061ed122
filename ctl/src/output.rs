//! The only printer: records go to stdout as a table, JSON, JSON lines or CSV; talk goes to stderr.
//!
//! It knows no noun; a noun's [`Record`] names its fields and which of them a table shows. JSON
//! names are a contract: fields may be added, never renamed or removed.

use std::io::Write;

use clap::ValueEnum;
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width,
    presets,
};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{Exit, Failure};
use crate::profile::Environment;

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values under a header
    Csv,
}

/// Something that can be printed in every [`Format`].
pub(crate) trait Record: Serialize {
    /// The JSON names of all fields, in order; also CSV's header.
    const FIELDS: &'static [&'static str];
    /// The fields that a table of many shows, the dearest first: on a narrow terminal the last go.
    const COLUMNS: &'static [&'static str];
    /// How wide a table's columns are at least when rows come one by one; none, if they do not.
    const WIDTHS: &'static [u16] = &[];

    /// Returns the text of a field in tables and CSV, where its JSON value does not say it.
    fn text(&self, _field: &str) -> Option<String> {
        None
    }
}

/// The two streams, and how to write on them.
pub(crate) struct Output<'a> {
    format: Format,
    colour: bool,
    width: Option<u16>,
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
}

/// What a printed stream of records remembers from batch to batch.
#[derive(Default)]
pub(crate) struct Stream {
    /// The header was printed.
    begun: bool,
    /// How wide each column is, as long as what comes fits.
    widths: Vec<u16>,
}

// === impl Output ===

impl<'a> Output<'a> {
    /// Makes a printer for this environment.
    pub(crate) fn new(
        format: Format,
        environment: &Environment,
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
    ) -> Self {
        Self { format, colour: environment.colour, width: environment.width, out, err }
    }

    /// Returns how data is printed.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints data so from now on.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Says how far it has come, in the place of what it said before. For a terminal.
    pub(crate) fn progress(&mut self, text: &str) {
        // Talk that nobody can hear is no failure.
        let _ = write!(self.err, "\r{}\u{1b}[K", crate::error::one_line(text));
        let _ = self.err.flush();
    }

    /// Prints one record: in a table, a line per field.
    pub(crate) fn one<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                let fields = fields(record)?;
                let mut table = self.new_table();
                // Not wrapped here: a terminal's own wrapping leaves a secret whole when copied.
                table.set_content_arrangement(ContentArrangement::Disabled);
                for name in R::FIELDS {
                    let cell = Cell::new(shown(record, &fields, name));
                    table.add_row([self.bold(Cell::new(name)), self.hue(cell, &fields[*name])]);
                }
                self.write_table(&table)
            }
            Format::Json => self.document(record),
            Format::Jsonl | Format::Csv => self.many(std::slice::from_ref(record)),
        }
    }

    /// Prints a list of records.
    pub(crate) fn many<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.rows(records, &mut Stream::default()),
            Format::Json => self.document(records),
            Format::Jsonl => {
                records.iter().try_for_each(|record| self.text(&format!("{}\n", json(record)?)))
            }
            Format::Csv => {
                self.text(&csv_line(R::FIELDS.iter().map(|name| (*name).to_owned())))?;
                self.csv_rows(records)
            }
        }
    }

    /// Prints the next records of a stream that may never end, and flushes.
    pub(crate) fn more<R: Record>(
        &mut self,
        records: &[R],
        stream: &mut Stream,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                if !stream.begun {
                    stream.widths = R::WIDTHS.to_vec();
                }
                self.rows(records, stream)?;
            }
            Format::Csv if stream.begun => self.csv_rows(records)?,
            Format::Csv => {
                stream.begun = true;
                self.many(records)?;
            }
            Format::Json | Format::Jsonl => self.many(records)?,
        }
        Ok(self.out.flush()?)
    }

    /// Prints a value that is one JSON document and no record.
    pub(crate) fn document<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value).map_err(|error| unprintable(&error))?;
        self.text(&format!("{text}\n"))
    }

    /// Prints text as it is, on stdout.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Says something on stderr.
    pub(crate) fn note(&mut self, text: &str) {
        // Talk that nobody can hear is no failure.
        let _ = writeln!(self.err, "{}", crate::error::one_line(text));
    }

    fn csv_rows<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        records.iter().try_for_each(|record| {
            let fields = fields(record)?;
            let cells = R::FIELDS
                .iter()
                .map(|name| record.text(name).unwrap_or_else(|| plain(&fields[*name], ";")));
            self.text(&csv_line(cells))
        })
    }

    fn rows<R: Record>(&mut self, records: &[R], stream: &mut Stream) -> Result<(), Failure> {
        let mut rows = Vec::with_capacity(records.len());
        for record in records {
            let fields = fields(record)?;
            let texts: Vec<_> =
                R::COLUMNS.iter().map(|name| shown(record, &fields, name)).collect();
            rows.push((fields, texts));
        }
        let first = !std::mem::replace(&mut stream.begun, true);
        let least = std::mem::take(&mut stream.widths);
        let mut columns = if first { R::COLUMNS } else { &R::COLUMNS[..least.len()] };
        loop {
            let mut table = self.new_table();
            if first {
                let title = |name: &&str| align(name, self.bold(Cell::new(heading(name))));
                table.set_header(columns.iter().map(title));
            }
            for (fields, texts) in &rows {
                table.add_row(
                    columns
                        .iter()
                        .zip(texts)
                        .map(|(name, text)| align(name, self.hue(Cell::new(text), &fields[*name]))),
                );
            }
            let mut widths = table.column_max_content_widths();
            for (width, least) in widths.iter_mut().zip(&least) {
                *width = (*width).max(*least);
            }
            let needed: u16 = widths.iter().map(|width| width + GAP).sum();
            // The first column's left padding is cut off again.
            let fits = self.width.is_none_or(|width| needed <= width + 1);
            if !fits && columns.len() > 2 {
                columns = &columns[..columns.len() - 1];
                continue;
            }
            if fits {
                let fixed = |width: &u16| ColumnConstraint::Absolute(Width::Fixed(width + GAP));
                table.set_constraints(widths.iter().map(fixed));
            }
            stream.widths = widths;
            self.write_table(&table)?;
            if first && columns.len() < R::COLUMNS.len() {
                let hidden: Vec<_> =
                    R::COLUMNS[columns.len()..].iter().map(|name| heading(name)).collect();
                self.note(&format!("(too narrow for {}; -o json has all)", hidden.join(", ")));
            }
            return Ok(());
        }
    }

    fn new_table(&self) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).force_no_tty();
        if self.colour {
            table.enforce_styling();
        }
        if let Some(width) = self.width {
            table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
        table
    }

    fn write_table(&mut self, table: &Table) -> Result<(), Failure> {
        if table.header().is_none() && table.row_count() == 0 {
            return Ok(());
        }
        let mut text = String::new();
        for line in table.lines() {
            // The preset pads both sides of a cell by one; the first column starts at the edge.
            text.push_str(line.strip_prefix(' ').unwrap_or(&line).trim_end());
            text.push('\n');
        }
        self.text(&text)
    }

    fn bold(&self, cell: Cell) -> Cell {
        if self.colour { cell.add_attribute(Attribute::Bold) } else { cell }
    }

    /// Gives a status word its colour.
    fn hue(&self, cell: Cell, value: &Value) -> Cell {
        if !self.colour {
            return cell;
        }
        match value.as_str() {
            Some("completed" | "active") => cell.fg(Color::Green),
            Some("failed" | "interrupted" | "suspended") => cell.fg(Color::Red),
            Some("rejected" | "incomplete" | "cancelled") => cell.fg(Color::Yellow),
            _ => cell,
        }
    }
}

/// The padding that a cell has, both sides together.
const GAP: u16 = 2;

fn unprintable(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, format!("writing the output: {error}"))
}

fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| unprintable(&error))
}

/// The fields of a record by name; a name that it does not have is `null`.
fn fields<R: Record>(record: &R) -> Result<Map<String, Value>, Failure> {
    let mut fields = match serde_json::to_value(record).map_err(|error| unprintable(&error))? {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    debug_assert_eq!(fields.len(), R::FIELDS.len(), "`FIELDS` and the record differ");
    for name in R::FIELDS {
        fields.entry(*name).or_insert(Value::Null);
    }
    Ok(fields)
}

/// `input_tokens` → `INPUT`, `created_at` → `CREATED`, `cost_usd` → `COST USD`.
fn heading(name: &str) -> String {
    let name = name.strip_suffix("_tokens").unwrap_or(name);
    let name = name.strip_suffix("_at").unwrap_or(name);
    name.replace('_', " ").to_uppercase()
}

/// Puts amounts, counts and times in milliseconds to the right, the unknown ones too.
fn align(name: &str, cell: Cell) -> Cell {
    let right =
        ["_usd", "_tokens", "_ms", "_window", "_version"].iter().any(|it| name.ends_with(it))
            || ["rpm", "tpm", "concurrency", "requests", "errors", "http_status"].contains(&name);
    cell.set_alignment(if right { CellAlignment::Right } else { CellAlignment::Left })
}

/// A field as a table shows it: unknown is `-`, times to the second, no control characters.
fn shown<R: Record>(record: &R, fields: &Map<String, Value>, name: &str) -> String {
    let text = match (record.text(name), &fields[name]) {
        (Some(text), _) => text,
        (None, Value::Number(number)) if number.is_f64() => {
            format!("{:.1}", number.as_f64().unwrap_or_default())
        }
        (None, Value::String(text)) if name.ends_with("_at") => match text.parse::<Timestamp>() {
            Ok(time) => time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
            Err(_) => text.clone(),
        },
        (None, value) => plain(value, ", "),
    };
    if text.is_empty() {
        return "-".to_owned();
    }
    // A record may carry what a stranger sent (a model's name); it must not drive the terminal.
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn plain(value: &Value, separator: &str) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|item| plain(item, separator)).collect::<Vec<_>>().join(separator)
        }
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    }
}

/// A line of RFC 4180, but for the line's end, which is the one that Unix tools expect.
fn csv_line(cells: impl Iterator<Item = String>) -> String {
    let mut line = String::new();
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            line.push(',');
        }
        if cell.contains(['"', ',', '\n', '\r']) {
            line.push('"');
            line.push_str(&cell.replace('"', "\"\""));
            line.push('"');
        } else {
            line.push_str(&cell);
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        input_tokens: Option<u64>,
        ttft_ms: Option<f64>,
        started_at: &'static str,
        notes: [&'static str; 0],
    }

    impl Record for Row {
        const FIELDS: &'static [&'static str] =
            &["name", "input_tokens", "ttft_ms", "started_at", "notes"];
        const COLUMNS: &'static [&'static str] = Self::FIELDS;
    }

    const ROWS: [Row; 2] = [
        Row {
            name: "first, \"quoted\" \u{1b}[31m",
            input_tokens: Some(12_345),
            ttft_ms: Some(38.0625),
            started_at: "2026-11-20T12:00:00.123456Z",
            notes: [],
        },
        Row {
            name: "\u{65e5}\u{672c}",
            input_tokens: None,
            ttft_ms: None,
            started_at: "2026-11-20T12:00:01Z",
            notes: [],
        },
    ];

    fn print(
        format: Format,
        width: Option<u16>,
        act: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>,
    ) -> (String, String) {
        let mut environment = Environment::within(std::path::Path::new("/nowhere"));
        environment.width = width;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        act(&mut Output::new(format, &environment, &mut out, &mut err)).unwrap();
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_table_aligns_marks_the_unknown_and_disarms_control_characters() {
        let (out, _) = print(Format::Table, None, |output| output.many(&ROWS));
        insta::assert_snapshot!(out);
    }

    #[test]
    fn a_narrow_table_drops_the_last_columns_and_says_so() {
        let (out, err) = print(Format::Table, Some(50), |output| output.many(&ROWS));
        assert!(out.lines().all(|line| line.chars().count() <= 50), "{out}");
        insta::assert_snapshot!(format!("{out}---\n{err}"));
    }

    #[test]
    fn a_streamed_table_keeps_its_columns_and_its_one_header() {
        let (out, _) = print(Format::Table, None, |output| {
            let mut stream = Stream::default();
            output.more(&ROWS[..1], &mut stream)?;
            output.more(&ROWS[1..], &mut stream)
        });
        let (whole, _) = print(Format::Table, None, |output| output.many(&ROWS));
        assert_eq!(out, whole);
    }

    #[test]
    fn a_secret_is_never_broken_into_two_lines() {
        let (out, _) = print(Format::Table, Some(20), |output| output.one(&ROWS[0]));
        assert_eq!(out.lines().count(), Row::FIELDS.len(), "{out}");
    }

    #[test]
    fn colour_is_only_where_it_is_wanted() {
        for colour in [false, true] {
            let mut environment = Environment::within(std::path::Path::new("/nowhere"));
            environment.colour = colour;
            let (mut out, mut err) = (Vec::new(), Vec::new());
            let row = Row { name: "failed", ..ROWS[1] };
            Output::new(Format::Table, &environment, &mut out, &mut err).many(&[row]).unwrap();
            assert_eq!(out.contains(&0x1b), colour);
        }
    }

    #[test]
    fn csv_quotes_what_needs_it_and_leaves_the_unknown_empty() {
        let (out, _) = print(Format::Csv, None, |output| {
            let mut stream = Stream::default();
            output.more(&ROWS[..1], &mut stream)?;
            output.more(&ROWS[1..], &mut stream)
        });
        insta::assert_snapshot!(out.replace('\u{1b}', "<ESC>"));
    }

    #[test]
    fn an_empty_list_is_a_header_or_an_empty_array() {
        let none: &[Row] = &[];
        assert_eq!(print(Format::Json, None, |output| output.many(none)).0, "[]\n");
        assert_eq!(print(Format::Jsonl, None, |output| output.many(none)).0, "");
        let header = "name,input_tokens,ttft_ms,started_at,notes\n";
        assert_eq!(print(Format::Csv, None, |output| output.many(none)).0, header);
        let header = "NAME  INPUT  TTFT MS  STARTED  NOTES\n";
        assert_eq!(print(Format::Table, None, |output| output.many(none)).0, header);
    }
}
