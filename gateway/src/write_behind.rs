//! Writes to the store behind requests: a failed write is repeated while the store fails, and is given up only at
//! a shutdown.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use store::StoreError;

/// The pause between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// One failure in this many is logged: one every ten seconds.
const FAILURES_PER_LOG: u32 = 40;
/// How long rows are still tried to be written after a shutdown has begun, including an attempt in progress: a
/// locked database keeps each attempt waiting for seconds.
const FINAL_TIMEOUT: Duration = Duration::from_secs(5);

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
        let mut failures = 0_u32;
        let writing = async {
            loop {
                let error = match attempt().await {
                    Ok(written) => return (written, failures),
                    Err(error) => error,
                };
                on_failure(&error);
                if failures.is_multiple_of(FAILURES_PER_LOG) {
                    let disk = disk_fault(&error);
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(
                        event = "database_unwritable",
                        error,
                        disk,
                        rows,
                        "cannot write {what}; retrying"
                    );
                }
                failures += 1;
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        };
        let late = async {
            self.stop.cancelled().await;
            tokio::time::sleep(FINAL_TIMEOUT).await;
        };
        tokio::select! {
            biased;
            (written, failures) = writing => {
                if failures > 0 {
                    tracing::info!(event = "database_writable", rows, failures, "{what} are written again");
                }
                Some(written)
            }
            () = late => {
                tracing::error!(event = "rows_not_written", rows, "cannot write {what}; stopping without them");
                None
            }
        }
    }
}

/// Returns the fault of the disk, such as that it is full, if there is one.
fn disk_fault(error: &StoreError) -> Option<String> {
    if let StoreError::Disk { fault, .. } = error { Some(fault.to_string()) } else { None }
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
        assert_eq!(written, None);
        assert!(attempts.get() >= 20, "{}", attempts.get());
    }

    /// Regression test: each attempt at a locked database took five seconds, and there were twenty.
    #[tokio::test(start_paused = true)]
    async fn a_shutdown_does_not_wait_for_an_attempt_that_does_not_end() {
        let stop = CancellationToken::new();
        stop.cancel();
        let attempt = std::future::pending::<Result<(), StoreError>>;
        assert_eq!(WriteBehind::new("records", stop).write(1, attempt, |_| {}).await, None);
    }
}
