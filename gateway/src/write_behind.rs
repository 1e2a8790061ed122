//! Writes to the store behind requests: a failed write is repeated while the store fails, and is given up only at
//! a shutdown.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use store::StoreError;

/// The pause between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// One failure in this many is logged: one every ten seconds.
const FAILURES_PER_LOG: u32 = 40;
/// The number of attempts after a shutdown has begun: five seconds.
const MAX_FINAL_ATTEMPTS: u32 = 20;

/// A writer of one kind of rows.
pub(crate) struct WriteBehind {
    what: &'static str,
    stop: CancellationToken,
}

impl WriteBehind {
    /// Creates a writer of `what`, a plural noun for the log. Once `stop` is cancelled, it does not wait for a
    /// failing store any more.
    pub(crate) fn new(what: &'static str, stop: CancellationToken) -> Self {
        Self { what, stop }
    }

    /// Calls `attempt` until it succeeds, and `on_failure` after each failure. Returns `None` if the store still
    /// fails some time after the shutdown has begun: the rows are not written.
    pub(crate) async fn write<T, F>(
        &self,
        rows: usize,
        mut attempt: impl FnMut() -> F,
        mut on_failure: impl FnMut(&StoreError),
    ) -> Option<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let what = self.what;
        let (mut failures, mut final_attempts) = (0_u32, 0);
        loop {
            let error = match attempt().await {
                Ok(written) => {
                    if failures > 0 {
                        tracing::info!(rows, failures, "{what} are written again");
                    }
                    return Some(written);
                }
                Err(error) => error,
            };
            on_failure(&error);
            final_attempts += u32::from(self.stop.is_cancelled());
            let gives_up = final_attempts >= MAX_FINAL_ATTEMPTS;
            self.log(&error, rows, failures, gives_up);
            if gives_up {
                return None;
            }
            failures += 1;
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    fn log(
        &self,
        error: &(dyn std::error::Error + 'static),
        rows: usize,
        failures: u32,
        gives_up: bool,
    ) {
        let what = self.what;
        if gives_up {
            tracing::error!(error, rows, "cannot write {what}; stopping without them");
        } else if failures.is_multiple_of(FAILURES_PER_LOG) {
            tracing::error!(error, rows, "cannot write {what}; retrying");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failing_store_is_retried_until_it_works() {
        let (attempts, failures) = (Cell::new(0), Cell::new(0));
        let writer = WriteBehind::new("records", CancellationToken::new());
        let attempt = || {
            attempts.set(attempts.get() + 1);
            let outcome = if attempts.get() > 100 { Ok(7) } else { Err(StoreError::NotFound) };
            async { outcome }
        };
        let written = writer.write(1, attempt, |_| failures.set(failures.get() + 1)).await;
        assert_eq!((written, attempts.get(), failures.get()), (Some(7), 101, 100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_does_not_wait_for_a_store_that_goes_on_failing() {
        let stop = CancellationToken::new();
        stop.cancel();
        let attempts = Cell::new(0);
        let attempt = || {
            attempts.set(attempts.get() + 1);
            async { Err::<(), _>(StoreError::NotFound) }
        };
        let written = WriteBehind::new("records", stop).write(1, attempt, |_| {}).await;
        assert_eq!((written, attempts.get()), (None, MAX_FINAL_ATTEMPTS));
    }
}
