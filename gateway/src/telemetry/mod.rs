//! Sets up the log on standard error: its format, its filter, and the thread that writes it.

mod access;
mod events;
mod writer;

use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use access::{AccessLog, AccessLogSetting, UnknownAccessLogError};
pub use events::{LogEvent, LogEvents, LogLevel, LogValue};
pub use writer::LogGuard;

/// The format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text, coloured on a terminal.
    Human,
    /// A JSON object per line.
    Json,
}

/// The format is neither `human` nor `json`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format; write `human` or `json`")]
pub struct UnknownFormatError(String);

impl FromStr for LogFormat {
    type Err = UnknownFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            _ => Err(UnknownFormatError(text.to_owned())),
        }
    }
}

/// Starts logging with `filter`, in the syntax of `RUST_LOG`; `info` by default. The default format is
/// [`LogFormat::Human`] on a terminal, else [`LogFormat::Json`]. `events` gets the events that have a name. The guard
/// writes the rest of the log when it is dropped.
///
/// # Errors
/// `filter` is malformed, a global subscriber is already set, or there is no thread.
pub fn init(
    filter: Option<&str>,
    format: Option<LogFormat>,
    events: LogEvents,
) -> anyhow::Result<LogGuard> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    let is_terminal = std::io::stderr().is_terminal();
    let default = if is_terminal { LogFormat::Human } else { LogFormat::Json };
    let format = format.unwrap_or(default);
    let report = match format {
        LogFormat::Human => |dropped| format!("{DROPPED_LINES} dropped={dropped}\n").into_bytes(),
        LogFormat::Json => |dropped| {
            let line = serde_json::json!({
                "level": "WARN", "event": "log_lines_dropped", "dropped": dropped, "message": DROPPED_LINES,
            });
            format!("{line}\n").into_bytes()
        },
    };
    let (lines, guard) = writer::start(std::io::stderr(), report)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines)
        .with_ansi(is_terminal && format == LogFormat::Human)
        .with_target(false);
    let started = match format {
        LogFormat::Human => builder.finish().with(events).try_init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            let builder = builder.with_current_span(false).with_span_list(false);
            builder.finish().with(events).try_init()
        }
    };
    started.map_err(|error| anyhow::anyhow!("starting the log: {error}"))?;
    Ok(guard)
}

/// The message about lines that were not written.
const DROPPED_LINES: &str = "lines of the log were dropped, because they were written too slowly";
