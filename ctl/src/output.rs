//! The only printer: records go to stdout as a table, JSON, JSON lines or CSV; talk goes to stderr.
//!
//! It knows no noun; a noun's [`Record`] names its fields and which of them a table shows. JSON
//! names are a contract: fields may be added, never renamed or removed. `table` lays columns out,
//! `cell` says how a field reads, `wrap` breaks lines, `chart` draws bars, `progress` is for those who wait.

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

pub(crate) use table::Stream;
pub(crate) use wrap::wrapped;

/// How data is printed.
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

/// Something that can be printed in every [`Format`].
pub(crate) trait Record: Serialize {
    /// The JSON names of all fields, in order; also CSV's header. The first is what names the
    /// record: a quiet table shows it alone.
    const FIELDS: &'static [&'static str];
    /// The columns of a table of many. One that is no field has its [`text`](Record::text) alone.
    const COLUMNS: &'static [&'static str];
    /// The columns where those do not fit, the dearest first: the last go. `short_X` is the field `X`
    /// in fewer characters.
    const NARROW: &'static [&'static str] = Self::COLUMNS;
    /// How wide columns are at least when rows come one by one; none, if they do not.
    const WIDTHS: &'static [(&'static str, usize)] = &[];

    /// Returns the text of a field in tables and CSV, where its JSON value does not say it.
    fn text(&self, _field: &str) -> Option<String> {
        None
    }
}

/// The meaning of a word, for who sees colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hue {
    /// As it should be.
    Good,
    /// Worth a look.
    Doubtful,
    /// Wrong.
    Bad,
    /// A heading.
    Strong,
}

/// The two streams, and how to write on them.
pub(crate) struct Output<'a> {
    format: Format,
    quiet: bool,
    environment: &'a Environment,
    /// What was said last of how far it is.
    progress: String,
    out: &'a mut (dyn Write + Send),
    err: &'a mut (dyn Write + Send),
}

// === impl Output ===

impl<'a> Output<'a> {
    /// Makes a printer for this environment; a quiet one says nothing beside data and errors.
    pub(crate) fn new(
        format: Format,
        quiet: bool,
        environment: &'a Environment,
        out: &'a mut (dyn Write + Send),
        err: &'a mut (dyn Write + Send),
    ) -> Self {
        Self { format, quiet, environment, progress: String::new(), out, err }
    }

    /// Returns how data is printed.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Prints data so from now on.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    /// Whether only what names a thing is asked for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a terminal shows more than ASCII.
    pub(crate) fn unicode(&self) -> bool {
        self.environment.unicode
    }

    /// How many columns stdout has; absent if it is no terminal.
    pub(crate) fn width(&self) -> Option<usize> {
        self.environment.width.map(usize::from)
    }

    /// Prints one record: in a table, a line per field.
    pub(crate) fn one<R: Record>(&mut self, record: &R) -> Result<(), Failure> {
        match self.format {
            Format::Table if self.quiet => self.names(std::slice::from_ref(record)),
            Format::Table => self.sheet(record),
            Format::Json => self.document(record),
            Format::Jsonl | Format::Csv => self.many(std::slice::from_ref(record)),
        }
    }

    /// Prints a list of records.
    pub(crate) fn many<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                self.rows(records, &mut Stream::default())?;
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

    /// Prints the next records of a stream that may never end, and flushes.
    pub(crate) fn more<R: Record>(
        &mut self,
        records: &[R],
        stream: &mut Stream,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                stream.endless = true;
                self.rows(records, stream)?;
            }
            Format::Csv if stream.begun => {
                csv_rows(csv::Writer::from_writer(&mut self.out), records)?;
            }
            Format::Csv => {
                stream.begun = true;
                self.many(records)?;
            }
            Format::Json | Format::Jsonl => self.many(records)?,
        }
        self.flush()
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

    /// Writes bytes as they are to stdout.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.out.write_all(bytes)?)
    }

    /// Lets what was printed be seen.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Gives a text its colour, where there are colours.
    pub(crate) fn hued(&self, text: &str, hue: Hue) -> String {
        let code = match hue {
            _ if !self.environment.colour => return text.to_owned(),
            Hue::Good => 32,
            Hue::Doubtful => 33,
            Hue::Bad => 31,
            Hue::Strong => 1,
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Says something on stderr, unless it should be quiet.
    pub(crate) fn note(&mut self, text: &str) {
        if !self.quiet {
            let text = wrapped(&crate::error::one_line(text), 0, self.width());
            // Talk that nobody can hear is no failure.
            let _ = writeln!(self.err, "{text}");
        }
    }

    /// Puts a question on stderr, without the end of its line.
    pub(crate) fn ask(&mut self, text: &str) {
        let _ = write!(self.err, "{}", crate::error::one_line(text) + " ");
        let _ = self.err.flush();
    }

    /// Prints what names each record, a line each.
    fn names<R: Record>(&mut self, records: &[R]) -> Result<(), Failure> {
        records.iter().try_for_each(|record| {
            let name = cell::shown(record, &cell::fields(record)?, R::FIELDS[0]);
            self.text(&format!("{name}\n"))
        })
    }
}

/// Writes records as CSV rows in the form of RFC 4180, except that lines end in `\n`, as Unix tools expect.
fn csv_rows<R: Record>(mut csv: csv::Writer<impl Write>, records: &[R]) -> Result<(), Failure> {
    for record in records {
        let fields = cell::fields(record)?;
        csv.write_record(R::FIELDS.iter().map(|name| cell::csv_text(record, &fields, name)))?;
    }
    Ok(csv.flush()?)
}

fn unprintable(error: &serde_json::Error) -> Failure {
    Failure::new(Exit::Failed, format!("writing the output: {error}"))
}

fn json<T: Serialize>(value: &T) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| unprintable(&error))
}
