//! Sets up the log on standard error: its format, its filter, and the thread that writes it.

mod access;
mod events;
mod journal;
mod request_fields;
mod request_lines;
mod writer;

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use self::request_lines::Style;
pub use access::{AccessLog, AccessLogSetting, UnknownAccessLogError};
pub use events::{LogEvent, LogEvents, LogLevel, LogValue};
pub use request_fields::{FieldValue, RequestFields};
pub use request_lines::RequestLines;
pub use writer::LogGuard;

/// The filter of the log if none is set. `h2` warns about each connection that a client ends badly, which any client can
/// do thousands of times a second.
const DEFAULT_FILTER: &str = "info,h2=error";

/// The log, for what needs more of it than `tracing`. By default, there is none.
#[derive(Clone, Default)]
pub struct Log {
    /// The events that have a name, for the export.
    pub events: LogEvents,
    /// The lines of the access log.
    pub request_lines: Option<RequestLines>,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text, coloured on a terminal.
    Human,
    /// A JSON object per line.
    Json,
    /// A JSON object per line, after its level in the form that journald takes from standard error (`<4>`).
    Journald,
}

/// The format is none of `human`, `json` and `journald`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format; write `human`, `json` or `journald`")]
pub struct UnknownFormatError(String);

impl FromStr for LogFormat {
    type Err = UnknownFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            "journald" => Ok(Self::Journald),
            _ => Err(UnknownFormatError(text.to_owned())),
        }
    }
}

/// Starts logging with `filter`, in the syntax of `RUST_LOG`; `info` by default. The default format is
/// [`LogFormat::Human`] on a terminal, [`LogFormat::Journald`] if `journal_stream`, the value of `JOURNAL_STREAM`, says
/// that standard error is journald's, else [`LogFormat::Json`]. The guard writes the rest of the log when it is dropped.
///
/// # Errors
/// `filter` is malformed, a global subscriber is already set, or there is no thread.
pub fn init(
    filter: Option<&str>,
    format: Option<LogFormat>,
    journal_stream: Option<&str>,
) -> anyhow::Result<(Log, LogGuard)> {
    let filter = EnvFilter::try_new(filter.unwrap_or(DEFAULT_FILTER))?;
    let is_terminal = std::io::stderr().is_terminal();
    let default = if is_terminal {
        LogFormat::Human
    } else if journal_stream.is_some_and(journal::is_standard_error) {
        LogFormat::Journald
    } else {
        LogFormat::Json
    };
    let format = format.unwrap_or(default);
    let report = match format {
        LogFormat::Human => |dropped| format!("{DROPPED_LINES} dropped={dropped}\n").into_bytes(),
        LogFormat::Json => |dropped| format!("{}\n", dropped_lines(dropped)).into_bytes(),
        LogFormat::Journald => |dropped| {
            let prefix = journal::prefix(tracing::Level::WARN);
            format!("{prefix}{}\n", dropped_lines(dropped)).into_bytes()
        },
    };
    let (lines, guard) = writer::start(std::io::stderr(), report)?;
    let style = Style { format, is_coloured: is_terminal && format == LogFormat::Human };
    let request_lines = Some(RequestLines::new(lines.clone(), style));
    let log = Log { events: LogEvents::default(), request_lines };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines.with_levels(format == LogFormat::Journald))
        .with_ansi(style.is_coloured)
        .with_target(false);
    let started = match format {
        LogFormat::Human => builder.finish().with(log.events.clone()).try_init(),
        LogFormat::Json | LogFormat::Journald => {
            let builder = builder.json().flatten_event(true);
            let builder = builder.with_current_span(false).with_span_list(false);
            builder.finish().with(log.events.clone()).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))?;
    Ok((log, guard))
}

fn dropped_lines(dropped: u64) -> serde_json::Value {
    serde_json::json!({
        "level": "WARN", "event": "log_lines_dropped", "dropped": dropped, "message": DROPPED_LINES,
    })
}

/// The message about lines that were not written.
const DROPPED_LINES: &str = "lines of the log were dropped, because they were written too slowly";
