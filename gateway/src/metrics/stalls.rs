//! How late the timers of workers fire: the time in which a worker did not serve its other connections.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use domain::histogram::Histogram;

/// The time between two timers. Shorter stalls may fall between them.
const INTERVAL: Duration = Duration::from_millis(250);
/// The bounds for delays, in seconds. A timer has a resolution of a millisecond.
const DELAYS: &[f64] = &[0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The delays of all workers.
pub struct WorkerStalls(Mutex<Histogram>);

impl Default for WorkerStalls {
    fn default() -> Self {
        Self(Mutex::new(Histogram::new(DELAYS)))
    }
}

impl WorkerStalls {
    /// Measures the runtime that runs this future, until `work` has ended.
    pub async fn measure_while(&self, work: impl Future<Output = ()>) {
        let measuring = async {
            loop {
                let due = Instant::now() + INTERVAL;
                sleep_until(due).await;
                self.record(due.elapsed());
            }
        };
        tokio::select! {
            () = work => {}
            () = measuring => {}
        }
    }

    /// Returns the delays, in seconds.
    pub(super) fn delays(&self) -> Histogram {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, delay: Duration) {
        let mut delays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        delays.observe(delay.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_yield_delays_a_timer() {
        let stalls = WorkerStalls::default();
        stalls
            .measure_while(async {
                sleep(INTERVAL * 3).await;
                // As if this task had run for a second.
                advance(Duration::from_secs(1)).await;
                sleep(INTERVAL * 2).await;
            })
            .await;
        let delays = stalls.delays();
        let above = |bound: f64| {
            let up_to =
                delays.cumulative().find(|(upper, _)| (upper - bound).abs() < 1e-9).unwrap().1;
            delays.count() - up_to
        };
        assert!(delays.count() >= 4, "{delays:?}");
        assert_eq!((above(0.25), above(2.5)), (1, 0), "{delays:?}");
    }
}
