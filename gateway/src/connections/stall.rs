//! Measures how long an operation has made no progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Detects an operation that is blocked for too long. It touches no timer while there is progress.
#[derive(Debug)]
pub struct StallTimer {
    /// `None` if it may be blocked for ever.
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    is_blocked: bool,
}

impl StallTimer {
    /// Creates a timer that elapses when the operation is blocked for `limit`.
    pub const fn new(limit: Option<Duration>) -> Self {
        Self { limit, timer: None, is_blocked: false }
    }

    /// Records progress: the next call of [`Self::poll_stalled`] begins another wait.
    pub const fn progressed(&mut self) {
        self.is_blocked = false;
    }

    /// Records that there is no progress. Ready once that has lasted for the whole limit.
    pub fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(limit) = self.limit else { return Poll::Pending };
        let was_blocked = std::mem::replace(&mut self.is_blocked, true);
        let timer = match &mut self.timer {
            Some(timer) if was_blocked => timer,
            Some(timer) => {
                timer.as_mut().reset(Instant::now() + limit);
                timer
            }
            none => none.insert(Box::pin(sleep(limit))),
        };
        timer.as_mut().poll(context)
    }
}
