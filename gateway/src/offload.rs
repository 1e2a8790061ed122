//! Runs what takes long in the requests with large bodies on other threads, so that the worker serves its other requests
//! meanwhile.
//!
//! A request is polled there until it is forwarded. It remains part of the task that serves its connection, and its IO
//! and timers remain those of its worker, which polls it from then on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::{BoxFuture, poll_fn};
use futures_util::task::AtomicWaker;
use tokio::task::JoinError;
use tokio_util::task::TaskTracker;

use crate::fair_semaphore::FairSemaphore;
use domain::id::AccountId;
use domain::wire::depth::has_more_containers_than;

/// Bodies up to this length are parsed and translated on their worker, in bytes, whatever they consist of. It is a
/// compromise: to hand over a request takes about 20 µs, and to translate the worst body of this length some
/// milliseconds.
const ALWAYS_INLINE_BYTES: usize = 64 * 1024;
/// So are bodies up to this length with few arrays and objects, such as those of coding agents: long texts take little.
const MAX_INLINE_BYTES: usize = 256 * 1024;
/// The number of arrays and objects that count as few.
const MAX_INLINE_CONTAINERS: usize = 4_096;

/// Returns whether a JSON text is parsed and translated on the worker, because that takes little.
pub fn is_quick(json: &[u8]) -> bool {
    json.len() <= ALWAYS_INLINE_BYTES
        || (json.len() <= MAX_INLINE_BYTES
            && !has_more_containers_than(json, MAX_INLINE_CONTAINERS))
}

/// Bounds how many requests are polled on blocking threads at once. A request has a permit only while it is polled;
/// requests that wait for one take turns between accounts.
pub struct Offload {
    threads: Arc<FairSemaphore>,
    tasks: TaskTracker,
}

/// The end of the part of a request that is offloaded; shared by the request and what polls it.
#[derive(Clone, Debug, Default)]
pub struct OffloadEnd(Arc<AtomicBool>);

/// Work between two polls. Dropping it drops the work on another thread, because that takes long, too.
struct Parked<T: 'static> {
    work: Option<BoxFuture<'static, T>>,
    tasks: TaskTracker,
}

/// The wake-ups of offloaded work. They are noted, so that none is lost while it is polled.
#[derive(Default)]
struct WakeUps {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

/// Resumes the panic of a task in the one that waits for it. Returns if the task was cancelled, as when the runtime
/// ends.
///
/// # Panics
/// If the task did.
pub(crate) fn resume_panic(error: JoinError) {
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

// === impl Offload ===

impl Offload {
    /// Creates a bound of one less than the workers, so that a core is left, but at least one.
    pub fn new(workers: usize, tasks: TaskTracker) -> Self {
        // The memory budget of bodies bounds the number of requests that wait.
        Self { threads: FairSemaphore::new(workers.saturating_sub(1).max(1), usize::MAX), tasks }
    }

    /// Runs `work` of a request of `account` on other threads.
    ///
    /// # Panics
    /// If the work does.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work, once its current poll has ended.
    pub async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        work: BoxFuture<'static, T>,
    ) -> T {
        self.run_until(&OffloadEnd::default(), account, work).await
    }

    /// Runs `work` of a request of `account`, on other threads until `end`, and on this one from then on.
    ///
    /// # Panics
    /// If the work does.
    ///
    /// # Cancel safety
    /// As of [`run`](Self::run).
    pub async fn run_until<T: Send + 'static>(
        &self,
        end: &OffloadEnd,
        account: AccountId,
        work: BoxFuture<'static, T>,
    ) -> T {
        let mut parked = Parked { work: Some(work), tasks: self.tasks.clone() };
        let wake_ups = Arc::<WakeUps>::default();
        while !end.is_set() {
            let thread = self.threads.acquire(Some(account)).await.expect("the queue has no bound");
            let waker = Waker::from(wake_ups.clone());
            // If this future is dropped meanwhile, so is the result of the poll, with `parked`.
            let polling = self.tasks.spawn_blocking(move || {
                let polled = parked.poll(&mut Context::from_waker(&waker));
                drop(thread);
                (parked, polled)
            });
            let (polled_work, polled) = match polling.await {
                Ok(polled) => polled,
                Err(error) => {
                    resume_panic(error);
                    // The runtime ends, and this task with it.
                    std::future::pending().await
                }
            };
            parked = polled_work;
            if let Poll::Ready(output) = polled {
                drop(parked.take());
                return output;
            }
            if !end.is_set() {
                wake_ups.next().await;
            }
        }
        parked.take().await
    }
}

// === impl OffloadEnd ===

impl OffloadEnd {
    /// Ends the part that is offloaded with the current poll.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

// === impl Parked ===

impl<T> Parked<T> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<T> {
        self.work.as_mut().expect("it is taken at last").as_mut().poll(context)
    }

    fn take(&mut self) -> BoxFuture<'static, T> {
        self.work.take().expect("it is taken once")
    }
}

impl<T: 'static> Drop for Parked<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.tasks.spawn_blocking(move || drop(work));
        }
    }
}

// === impl WakeUps ===

impl WakeUps {
    /// Waits for a wake-up since the last call.
    async fn next(&self) {
        poll_fn(|context| {
            self.task.register(context.waker());
            let is_woken = self.is_woken.swap(false, Ordering::AcqRel);
            if is_woken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Wake for WakeUps {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::sync::oneshot;
    use uuid::Uuid;

    use super::*;

    const ALICE: AccountId = AccountId(Uuid::from_u128(1));
    const BOB: AccountId = AccountId(Uuid::from_u128(2));
    /// Only a failing test waits as long.
    const TIMEOUT: Duration = Duration::from_mins(1);

    fn offload() -> Arc<Offload> {
        Arc::new(Offload::new(1, TaskTracker::new()))
    }

    #[test]
    fn long_texts_are_quick_and_many_items_are_not() {
        let items = |count: usize| format!("[{}1]", "{\"a\":1},".repeat(count));
        let text = |length: usize| format!("[\"{}\"]", "a".repeat(length));
        for (json, quick) in [
            (items(4_000), true),
            (items(8_192), false),
            (text(200_000), true),
            (text(300_000), false),
            (items(4_000) + &text(200_000), true),
            (text(10_000).replace('a', "{[ "), true),
        ] {
            assert_eq!(is_quick(json.as_bytes()), quick, "{} bytes", json.len());
        }
    }

    fn on_this_thread() -> ThreadId {
        thread::current().id()
    }

    #[tokio::test]
    async fn the_worker_goes_on_while_a_poll_takes_long() {
        let (sender, receiver) = mpsc::channel();
        let work = async move { receiver.recv_timeout(TIMEOUT) };
        let offload = offload();
        let running = offload.run(ALICE, Box::pin(work));
        let other = async { sender.send("sent by the worker").unwrap() };
        let (outcome, ()) = tokio::join!(running, other);
        assert_eq!(outcome, Ok("sent by the worker"));
    }

    #[tokio::test]
    async fn work_waits_without_a_thread_and_ends_on_its_worker() {
        let (begun, begins) = oneshot::channel();
        let (wake, woken) = oneshot::channel::<()>();
        let end = OffloadEnd::default();
        let ending = end.clone();
        let work = async move {
            begun.send(()).unwrap();
            woken.await.unwrap();
            let offloaded = on_this_thread();
            ending.set();
            let same_poll = on_this_thread();
            tokio::task::yield_now().await;
            (offloaded, same_poll, on_this_thread())
        };
        let offload = offload();
        let running = offload.run_until(&end, ALICE, Box::pin(work));
        let other = async {
            begins.await.unwrap();
            // The only thread is free.
            let other = offload.run(BOB, Box::pin(async { 7 })).await;
            wake.send(()).unwrap();
            other
        };
        let ((offloaded, same_poll, after), other) = tokio::join!(running, other);
        assert_eq!(other, 7);
        assert_ne!(offloaded, on_this_thread());
        assert_eq!((same_poll, after), (offloaded, on_this_thread()));
    }

    #[tokio::test]
    async fn accounts_take_turns() {
        let offload = offload();
        let thread = offload.threads.try_acquire().unwrap();
        let (order, orders) = mpsc::channel();
        let run = |account, name| {
            let order = order.clone();
            let work = async move { order.send(name).unwrap() };
            let offload = offload.clone();
            async move { offload.run(account, Box::pin(work)).await }
        };
        let free = async { drop(thread) };
        tokio::join!(run(ALICE, "a1"), run(ALICE, "a2"), run(ALICE, "a3"), run(BOB, "b1"), free);
        assert_eq!(orders.try_iter().collect::<Vec<_>>(), ["a1", "b1", "a2", "a3"]);
    }

    #[tokio::test]
    async fn dropped_work_is_dropped_on_another_thread() {
        struct Dropped(mpsc::Sender<ThreadId>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(on_this_thread()).unwrap();
            }
        }
        let (sender, receiver) = mpsc::channel();
        let value = Dropped(sender);
        let (begun, begins) = oneshot::channel();
        let work = async move {
            let _value = value;
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        let offload = offload();
        tokio::select! {
            () = offload.run(ALICE, Box::pin(work)) => unreachable!("it never ends"),
            _ = begins => {}
        }
        assert_ne!(receiver.recv_timeout(TIMEOUT).unwrap(), on_this_thread());
    }

    #[tokio::test]
    async fn a_panic_reaches_the_request_and_frees_the_thread() {
        let offload = offload();
        let work = Box::pin(async { panic!("in the work") });
        let running = offload.run::<()>(ALICE, work);
        let panic = std::panic::AssertUnwindSafe(running).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"in the work"));
        assert!(offload.threads.try_acquire().is_some());
    }
}
