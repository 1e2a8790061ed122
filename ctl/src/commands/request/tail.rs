//! `ctl request tail`: follows the request log, and reconnects when the connection breaks.

use std::pin::pin;
use std::time::Duration;

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{RequestFilter, TailRequestsRequest};

use super::{RequestRow, filter};
use crate::Shell;
use crate::cli::request::Tail;
use crate::error::{Exit, Failure};
use crate::output::{Format, StreamState};

const MIN_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(10);

/// The state of a followed log across connections.
struct LogFollower {
    filter: RequestFilter,
    /// The position in the log; everything before it was printed.
    cursor: String,
    history: u32,
    /// Whether a connection has succeeded; before that, failures are final.
    has_connected: bool,
    /// The delay before the next connection attempt.
    backoff: Duration,
    printed: StreamState,
}

/// Runs `ctl request tail`.
pub(super) async fn tail(shell: &mut Shell<'_>, input: Tail) -> Result<(), Failure> {
    if shell.output.format() == Format::Json {
        return Err(Failure::usage("an endless log cannot be one JSON document")
            .advise("use -o jsonl, which prints an object per line"));
    }
    let mut log = LogFollower {
        filter: filter(shell, input.filter, None)?,
        history: if input.cursor.is_empty() { input.history } else { 0 },
        cursor: input.cursor,
        has_connected: false,
        backoff: MIN_BACKOFF,
        printed: StreamState::default(),
    };
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let ended = tokio::select! {
        ended = log.follow(shell, !input.no_reconnect) => ended,
        _ = &mut interrupt => return Ok(()),
    };
    match ended {
        Err(failure) if failure.exit() == Exit::Unavailable && !log.cursor.is_empty() => {
            let cursor = &log.cursor;
            Err(failure.advise(format!("continue with `ctl request tail --cursor {cursor}`")))
        }
        other => other,
    }
}

// === impl LogFollower ===

impl LogFollower {
    /// Prints records, and reconnects with backoff if `reconnect` is set.
    async fn follow(&mut self, shell: &mut Shell<'_>, reconnect: bool) -> Result<(), Failure> {
        loop {
            match self.read(shell).await {
                Err(failure)
                    if failure.exit() == Exit::Unavailable && reconnect && self.has_connected =>
                {
                    let delay = self.backoff;
                    shell.output.note(&format!("({failure}; reconnecting in {delay:?})"));
                    tokio::time::sleep(delay).await;
                    self.backoff = (delay * 2).min(MAX_BACKOFF);
                }
                other => return other,
            }
        }
    }

    /// Prints the records of one connection until it ends.
    async fn read(&mut self, shell: &mut Shell<'_>) -> Result<(), Failure> {
        let mut client = UsageServiceClient::new(shell.connect().await?);
        let request = TailRequestsRequest {
            filter: Some(self.filter.clone()),
            cursor: self.cursor.clone(),
            history: self.history,
            max_backlog: 0,
        };
        let mut batches = client.tail_requests(request).await?.into_inner();
        while let Some(batch) = batches.message().await? {
            if batch.dropped > 0 {
                shell.output.note(&format!("({} skipped: too slow)", batch.dropped));
            }
            if !batch.requests.is_empty() {
                let rows: Vec<_> = batch.requests.into_iter().map(RequestRow::from).collect();
                shell.output.append(&rows, &mut self.printed)?;
            }
            self.cursor = batch.cursor;
            self.has_connected = true;
            self.backoff = MIN_BACKOFF;
        }
        Err(Failure::new(Exit::Unavailable, "the gateway closed the stream"))
    }
}
