//! `ctl request tail`: the log as it grows, over connections that break.

use std::pin::pin;
use std::time::Duration;

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{RequestFilter, TailRequestsRequest};

use super::{Line, filter};
use crate::Shell;
use crate::cli::request::Tail;
use crate::error::{Exit, Failure};
use crate::output::{Format, Stream};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// A log that is being followed.
struct Followed {
    filter: RequestFilter,
    /// Where to go on; what is before it was printed.
    cursor: String,
    history: u32,
    /// Whether the gateway answered once: before, there is nothing to go on with.
    begun: bool,
    /// How long to wait before the next connection.
    retry: Duration,
    printed: Stream,
}

/// Runs `ctl request tail`.
pub(super) async fn tail(shell: &mut Shell<'_>, input: Tail) -> Result<(), Failure> {
    if shell.output.format() == Format::Json {
        return Err(Failure::usage("a log that has no end is no JSON document")
            .advise("use -o jsonl, which prints an object per line"));
    }
    let mut log = Followed {
        filter: filter(shell, input.filter, None)?,
        history: if input.cursor.is_empty() { input.history } else { 0 },
        cursor: input.cursor,
        begun: false,
        retry: FIRST_RETRY,
        printed: Stream::default(),
    };
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    let ended = tokio::select! {
        ended = log.follow(shell, !input.no_reconnect) => ended,
        _ = &mut interrupt => return Ok(()),
    };
    match ended {
        Err(failure) if failure.exit() == Exit::Unavailable && !log.cursor.is_empty() => {
            let cursor = &log.cursor;
            Err(failure.advise(format!("go on with `ctl request tail --cursor {cursor}`")))
        }
        other => other,
    }
}

// === impl Followed ===

impl Followed {
    /// Prints what comes for as long as the gateway can be reached again.
    async fn follow(&mut self, shell: &mut Shell<'_>, reconnect: bool) -> Result<(), Failure> {
        loop {
            match self.read(shell).await {
                Err(failure) if failure.exit() == Exit::Unavailable && reconnect && self.begun => {
                    let wait = self.retry;
                    shell.output.note(&format!("({failure}; reconnecting in {wait:?})"));
                    tokio::time::sleep(wait).await;
                    self.retry = (wait * 2).min(LAST_RETRY);
                }
                other => return other,
            }
        }
    }

    /// Prints what comes over one connection, until that ends.
    async fn read(&mut self, shell: &mut Shell<'_>) -> Result<(), Failure> {
        let mut client = UsageServiceClient::new(shell.connect().await?);
        let request = TailRequestsRequest {
            filter: Some(self.filter.clone()),
            cursor: self.cursor.clone(),
            history: self.history,
        };
        let mut news = client.tail_requests(request).await?.into_inner();
        while let Some(batch) = news.message().await? {
            if batch.dropped > 0 {
                shell.output.note(&format!("({} skipped: too slow)", batch.dropped));
            }
            if !batch.requests.is_empty() {
                let lines: Vec<_> = batch.requests.into_iter().map(Line::from).collect();
                shell.output.more(&lines, &mut self.printed)?;
            }
            self.cursor = batch.cursor;
            self.begun = true;
            self.retry = FIRST_RETRY;
        }
        Err(Failure::new(Exit::Unavailable, "the gateway ended the log"))
    }
}
