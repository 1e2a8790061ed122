//! The only module that prints: records to stdout as a table, JSON, JSON lines or CSV; messages to
//! stderr.
//!
//! It is independent of the nouns: their [`Record`] implementations list the fields and table
//! columns. JSON names are a contract: fields may be added, never renamed or removed. `table` lays
//! out columns, `cell` formats fields, `wrap` breaks lines, `chart` draws bars, `progress` draws
//! the progress line.

pub(crate) mod cell;
pub(crate) mod chart;
mod progress;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod wrap;

use std::io::Write;

use clap::ValueEnum;
use serde::Serialize;

use crate::error::{Exit, Failure};
use crate::profile::Environment;

pub(crate) use table::StreamState;
pub(crate) use wrap::wrapped;

/// The format of printed data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values under a header
    Csv,
}

/// A record that can be printed in every [`Format`].
pub(crate) trait Record: Serialize {
    /// The JSON names of all fields, in order, and the header of CSV. The first field identifies
    /// the record: a quiet table prints only this one.
    const FIELDS: &'static [&'static str];
    /// The columns of a table. A column that is not a field gets its content from
    /// [`text`](Record::text).
    const COLUMNS: &'static [&'static str];
    /// The columns for a terminal too narrow for [`COLUMNS`](Record::COLUMNS), most important
    /// first: columns that do not fit are dropped from the end. `short_X` is the field `X` in fewer
    /// characters.
    const NARROW_COLUMNS: &'static [&'static str] = Self::COLUMNS;
    /// The minimum widths of columns when rows are printed as they arrive; empty otherwise.
    const MIN_WIDTHS: &'static [(&'static str, usize)] = &[];

    /// Returns the text of a field in tables and CSV, if it is not that of its JSON value.
    fn text(&self, _field: &str) -> Option<String> {
        None
    }
}

/// The style of a text on a terminal with colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Green: the expected state.
    Success,
    /// Yellow: a state that deserves attention.
    Warning,
    /// Red: a failure.
    Error,
    /// Bold: a heading.
    Heading,
}

/// The printer of a command: its streams, format and terminal properties.
pub(crate) struct Output<'a> {
    format: Format,
    quiet: bool,
    environment: &'a Environment,
    /// The text of the progress line that is currently visible; empty if there is none.
    progress: String,
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
}

// === impl Output ===

impl<'a> Output<'a> {
    /// Creates a printer. A quiet one prints only data and errors.
    pub(crate) fn new(
        format: Format,
        quiet: bool,
        environment: &'a Environment,
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
    ) -> Self {
        Self { format, quiet, environment, progress: String::new(), out, err }
    }

    /// Returns the format of data.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Sets the format of subsequent data.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Returns whether only identifying fields and errors are printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether the terminal displays Unicode.
    pub(crate) fn unicode(&self) -> bool {
        self.environment.unicode
    }

    /// Returns the width of stdout in columns; `None` if it is not a terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.environment.width.map(usize::from)
    }

    /// Returns the height of stdout in lines; `None` if it is not a terminal, or a terminal of unknown height.
    pub(crate) fn height(&self) -> Option<usize> {
        self.environment.height.map(usize::from)
    }

    /// Prints one record; as a table, with one line per field.
    pub(crate) fn one<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        match self.format {
            Format::Table if self.quiet => self.names(std::slice::from_ref(record)),
            Format::Table => self.vertical_table(record),
            Format::Json => self.document(record),
            Format::Jsonl | Format::Csv => self.many(std::slice::from_ref(record)),
        }
    }

    /// Prints a list of records.
    pub(crate) fn many<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                self.rows(records, &mut StreamState::default())?;
                if records.is_empty() {
                    self.note("(none)");
                }
                Ok(())
            }
            Format::Json => self.document(records),
            Format::Jsonl => {
                records.iter().try_for_each(|record| self.text(&format!("{}\n", json(record)?)))
            }
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(&mut self.out);
                csv.write_record(R::FIELDS)?;
                csv_rows(csv, records)
            }
        }
    }

    /// Prints the next records of a stream of unknown length, and flushes.
    pub(crate) fn append<R: Record>(
        &mut self,
        records: &[R],
        stream: &mut StreamState,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                stream.is_unbounded = true;
                self.rows(records, stream)?;
            }
            Format::Csv if stream.has_header => {
                csv_rows(csv::Writer::from_writer(&mut self.out), records)?;
            }
            Format::Csv => {
                stream.has_header = true;
                self.many(records)?;
            }
            Format::Json | Format::Jsonl => self.many(records)?,
        }
        self.flush()
    }

    /// Prints a value as one JSON document, on one line if the format is lines of JSON.
    pub(crate) fn document<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let text = match self.format() {
            Format::Jsonl => serde_json::to_string(value),
            Format::Table | Format::Json | Format::Csv => serde_json::to_string_pretty(value),
        };
        let text = text.map_err(|error| serialization_failure(&error))?;
        self.text(&format!("{text}\n"))
    }

    /// Writes text to stdout, without a line end.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes bytes to stdout.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Flushes stdout.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Adds the escape sequences of a style, if colour is enabled.
    pub(crate) fn styled(&self, text: &str, style: Style) -> String {
        let code = match style {
            _ if !self.environment.colour => return text.to_owned(),
            Style::Success => 32,
            Style::Warning => 33,
            Style::Error => 31,
            Style::Heading => 1,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Prints a message on stderr, unless quiet.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            let text = wrapped(&crate::error::one_line(text), 0, self.width());
            // A closed stderr does not fail the command.
            let _ = writeln!(self.err, "{text}");
        }
    }

    /// Prints a question on stderr, without a line end.
    pub(crate) fn ask(&mut self, text: &str) {
        let _ = write!(self.err, "{}", crate::error::one_line(text) + " ");
        let _ = self.err.flush();
    }

    /// Prints the identifying field of each record, one per line.
    fn names<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        records.iter().try_for_each(|record| {
            let name = cell::table_text(record, &cell::fields(record)?, R::FIELDS[0]);
            self.text(&format!("{name}\n"))
        })
    }
}

/// Writes records as rows of CSV (RFC 4180), but with `\n` as line ending, as Unix tools expect.
fn csv_rows<R: Record>(mut csv: csv::Writer<impl Write>, records: &[R]) -> Result<(), Failure> {
    for record in records {
        let fields = cell::fields(record)?;
        csv.write_record(R::FIELDS.iter().map(|name| cell::csv_text(record, &fields, name)))?;
    }
    Ok(csv.flush()?)
}

fn serialization_failure(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, format!("writing the output: {error}"))
}

fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| serialization_failure(&error))
}
