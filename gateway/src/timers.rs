//! Timeouts that do not set a timer of the runtime anew for each wait.
//!
//! Setting a timer of tokio takes a lock and changes a list, as does dropping it. Nearly all timeouts end unused, so these
//! timers stay set, and the time is compared when they fire.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer for one deadline after another, each of which usually is later than the one before.
#[derive(Debug, Default)]
pub(crate) struct LazyTimer(Option<Pin<Box<Sleep>>>);

/// Detects that an event has not occurred for too long, without touching a timer on each event.
#[derive(Debug)]
pub(crate) struct IdleTimeout {
    limit: Duration,
    waiting_since: Option<Instant>,
    timer: LazyTimer,
}

// === impl LazyTimer ===

impl LazyTimer {
    /// Ready once the time is `deadline`.
    pub(crate) fn poll_until(&mut self, deadline: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(context));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            // The timer was set for an earlier deadline.
            timer.as_mut().reset(deadline);
        }
    }
}

// === impl IdleTimeout ===

impl IdleTimeout {
    /// Creates a timeout of `limit`; [`Duration::MAX`] for none.
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, waiting_since: None, timer: LazyTimer::default() }
    }

    /// Ends the wait; the next call of `poll_elapsed` begins another.
    pub(crate) fn reset(&mut self) {
        self.waiting_since = None;
    }

    /// Ready once the wait has lasted for the whole limit.
    pub(crate) fn poll_elapsed(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        match since.checked_add(self.limit) {
            Some(deadline) => self.timer.poll_until(deadline, context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_serves_later_and_earlier_deadlines() {
        let (mut timer, start) = (LazyTimer::default(), Instant::now());
        for seconds in [5, 7, 30, 31] {
            let deadline = start + Duration::from_secs(seconds);
            poll_fn(|context| timer.poll_until(deadline, context)).await;
            assert_eq!(Instant::now(), deadline);
            // An answer comes long before the next deadline.
            let unused = Instant::now() + Duration::from_hours(1);
            assert!(futures_util::poll!(poll_fn(|it| timer.poll_until(unused, it))).is_pending());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_measured_from_the_last_event() {
        let (mut timeout, start) = (IdleTimeout::new(Duration::from_secs(10)), Instant::now());
        for _ in 0..5 {
            assert!(futures_util::poll!(poll_fn(|it| timeout.poll_elapsed(it))).is_pending());
            tokio::time::advance(Duration::from_secs(9)).await;
            timeout.reset();
        }
        poll_fn(|context| timeout.poll_elapsed(context)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(55));
    }
}
