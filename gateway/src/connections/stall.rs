//! How long something has made no progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Finds out that something is blocked for too long. Touches no timer while there is progress.
#[derive(Debug)]
pub struct StallTimer {
    /// `None` if it may be blocked for good.
    limit: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    is_blocked: bool,
}

impl StallTimer {
    /// A timer that elapses when something is blocked for `limit`.
    pub const fn new(limit: Option<Duration>) -> Self {
        Self { limit, timer: None, is_blocked: false }
    }

    /// Notes progress: the next call of [`Self::poll_stalled`] begins another wait.
    pub const fn progressed(&mut self) {
        self.is_blocked = false;
    }

    /// Notes that there is no progress. Ready once that was so for the whole limit.
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
