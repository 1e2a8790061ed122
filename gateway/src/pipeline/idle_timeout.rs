//! A timeout on silence.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Detects that an event has not occurred for too long, without touching a timer on each event.
pub(super) struct IdleTimeout {
    limit: Duration,
    waiting_since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl IdleTimeout {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, waiting_since: None, timer: None }
    }

    /// Ends the wait; the next call of `poll_elapsed` begins another.
    pub(super) fn reset(&mut self) {
        self.waiting_since = None;
    }

    /// Ready once the wait has lasted for the whole limit.
    pub(super) fn poll_elapsed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let due = since + self.limit;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        loop {
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            // The timer was set for an earlier wait.
            timer.as_mut().reset(due);
        }
    }
}
