//! Sets up logging to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging with `filter`, in the syntax of `RUST_LOG`; `info` by default.
///
/// # Errors
/// `filter` is malformed, or a global subscriber is already set.
pub fn init(filter: Option<&str>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter.unwrap_or("info"))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init()
        .map_err(|error| anyhow::anyhow!("starting the log: {error}"))
}
