//! A bounded queue between what produces telemetry and its exporter.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The time for which a batch accumulates.
const BATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A bounded queue with one reader.
pub(super) struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
    batch: usize,
    pushed: Notify,
    /// Ends the pause of the reader early because a full batch waits.
    filled: Notify,
}

impl<T> Queue<T> {
    /// Creates a queue for `capacity` items, which are taken in batches of up to `batch`.
    pub(super) fn new(capacity: usize, batch: usize) -> Self {
        let (pushed, filled) = (Notify::new(), Notify::new());
        Self { items: Mutex::default(), capacity, batch, pushed, filled }
    }

    /// Appends items. Returns the number of those for which there was no room.
    pub(super) fn push(&self, new: impl IntoIterator<Item = T>) -> usize {
        let mut new = new.into_iter();
        let mut items = self.lock();
        let room = self.capacity.saturating_sub(items.len());
        items.extend(new.by_ref().take(room));
        let is_full = items.len() >= self.batch;
        drop(items);
        self.pushed.notify_one();
        if is_full {
            self.filled.notify_one();
        }
        new.count()
    }

    /// Waits for the next batch; `None` once `stop` is cancelled and nothing is left.
    pub(super) async fn next(&self, stop: &CancellationToken) -> Option<Vec<T>> {
        loop {
            let waiting = self.waiting();
            if !stop.is_cancelled() && waiting < self.batch {
                let accumulated = async {
                    if waiting == 0 {
                        self.pushed.notified().await;
                    }
                    _ = tokio::time::timeout(BATCH_INTERVAL, self.filled.notified()).await;
                };
                _ = stop.run_until_cancelled(accumulated).await;
            }
            let batch: Vec<_> = {
                let mut items = self.lock();
                let count = items.len().min(self.batch);
                items.drain(..count).collect()
            };
            if !batch.is_empty() {
                return Some(batch);
            }
            if stop.is_cancelled() {
                return None;
            }
        }
    }

    /// Returns the number of items that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn items_are_taken_in_batches_and_what_exceeds_the_queue_is_refused() {
        let queue = Queue::new(5, 2);
        let stop = CancellationToken::new();
        assert_eq!(queue.push([1, 2, 3]), 0);
        assert_eq!(queue.push([4, 5, 6, 7]), 2);
        assert_eq!((queue.next(&stop).await, queue.waiting()), (Some(vec![1, 2]), 3));
        assert_eq!(queue.next(&stop).await, Some(vec![3, 4]));
        // After a pause, because the batch is not full.
        assert_eq!(queue.next(&stop).await, Some(vec![5]));
        let pushing = async { queue.push([8]) };
        assert_eq!(tokio::join!(queue.next(&stop), pushing), (Some(vec![8]), 0));
        // What a batch leaves is taken as well, although nothing is pushed after it.
        let pushing = async { queue.push([8, 9, 10]) };
        assert_eq!(tokio::join!(queue.next(&stop), pushing), (Some(vec![8, 9]), 0));
        assert_eq!(queue.next(&stop).await, Some(vec![10]));
        queue.push([9]);
        stop.cancel();
        assert_eq!((queue.next(&stop).await, queue.next(&stop).await), (Some(vec![9]), None));
    }
}
