//! An HTTP/1.1 connection without a task: the request that uses it drives its IO.
//!
//! A connection in a task would exchange two messages and two wake-ups with the request for each event. Here,
//! one poll of the request reads what has arrived and takes all events of it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::poll_fn;
use futures_util::task::AtomicWaker;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use tokio::task::coop;
use tokio::time::Instant;

use super::head_limit::HeadLimit;
use super::outbound::Outbound;
use super::pool_stats::OpenConnection;
use crate::timers::LazyTimer;

/// How often one poll of the request polls a connection that wakes itself meanwhile. Beyond this, the task yields.
const MAX_POLLS: usize = 4;

/// An HTTP/1.1 connection. Dropping it closes the connection.
pub(super) struct DrivenConnection {
    sender: SendRequest<Outbound>,
    driver: Driver,
    head_limit: HeadLimit,
    /// The deadline of the head of an answer.
    deadline: LazyTimer,
    _open: OpenConnection,
}

/// Polls the connection's IO.
struct Driver {
    /// `None` once it has ended.
    connection: Option<Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>>,
    wake_state: Arc<WakeState>,
    /// `wake_state` as a waker.
    waker: Waker,
}

/// The wake-ups of a connection.
///
/// A wake-up wakes the request's task only while that waits for the connection. At other times it is noted: the
/// task is running, or waits for its client, and polls the connection before it waits for it; or the connection
/// is idle.
struct WakeState {
    /// [`NOT_WAITING`] and [`WOKEN`]. Each change is a read-modify-write operation, so that none is missed.
    flags: AtomicU8,
    task: AtomicWaker,
}

/// The task does not wait for the connection: a wake-up only sets [`WOKEN`].
const NOT_WAITING: u8 = 1;
/// There was a wake-up since the last poll of the connection.
const WOKEN: u8 = 2;

// === impl DrivenConnection ===

impl DrivenConnection {
    /// Combines the two halves of a connection whose stream has `head_limit`.
    pub(super) fn new(
        sender: SendRequest<Outbound>,
        connection: impl Future<Output = hyper::Result<()>> + Send + 'static,
        head_limit: HeadLimit,
        open: OpenConnection,
    ) -> Self {
        let deadline = LazyTimer::default();
        Self { sender, driver: Driver::new(connection), head_limit, deadline, _open: open }
    }

    /// Sends a request and waits for the head of its answer; `None` if there is none at the `deadline`.
    ///
    /// # Errors
    /// The connection broke; the error has the request if the connection did not begin to send it.
    pub(super) async fn send(
        &mut self,
        request: Request<Outbound>,
        deadline: Instant,
    ) -> Option<Result<Response<Incoming>, TrySendError<Request<Outbound>>>> {
        // With a cooperative budget, the channel of the head could be pending although the head is in it.
        let mut response = pin!(coop::unconstrained(self.sender.try_send_request(request)));
        let Self { driver, deadline: timer, .. } = self;
        self.head_limit.set();
        let sent = poll_fn(|context| {
            match driver.poll(context, |context| response.as_mut().poll(context)) {
                Poll::Ready(response) => Poll::Ready(Some(response)),
                Poll::Pending => timer.poll_until(deadline, context).map(|()| None),
            }
        });
        let response = sent.await;
        self.head_limit.clear();
        response
    }

    /// Drives the connection while `read` waits for something that the connection does.
    pub(super) fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.driver.poll(context, read)
    }

    /// Polls the connection once, without a task to wake, and returns whether it is open and can take a request.
    pub(super) fn is_ready(&mut self) -> bool {
        self.driver.wake_state.task.register(Waker::noop());
        self.driver.poll_connection();
        self.driver.connection.is_some() && self.sender.is_ready()
    }

    /// Returns whether the last poll found the connection closed.
    pub(super) fn is_closed(&self) -> bool {
        self.driver.connection.is_none()
    }

    /// Waits until the connection can take a request. Returns whether it can.
    pub(super) async fn ready(&mut self) -> bool {
        let Self { sender, driver, .. } = self;
        poll_fn(|context| driver.poll(context, |context| sender.poll_ready(context))).await.is_ok()
    }

    /// Returns whether something has happened on the idle connection, such as its end.
    pub(super) fn was_woken(&self) -> bool {
        self.driver.wake_state.flags.load(Ordering::Acquire) & WOKEN != 0
    }
}

// === impl Driver ===

impl Driver {
    fn new(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let wake_state = Arc::<WakeState>::default();
        let waker = Waker::from(wake_state.clone());
        Self { connection: Some(Box::pin(connection)), wake_state, waker }
    }

    /// Polls `read` and, while that is pending, the connection if it was woken. `read` needs no waker, because only the
    /// connection can make it ready; it must not depend on a cooperative budget.
    ///
    /// A server's connection polls the body of its answer three times for each event that it sends, of which only the
    /// first two can find something.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut read: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let mut without_waker = Context::from_waker(Waker::noop());
        self.wake_state.flags.fetch_or(NOT_WAITING, Ordering::AcqRel);
        for _ in 0..MAX_POLLS {
            if let Poll::Ready(read) = read(&mut without_waker) {
                return Poll::Ready(read);
            }
            if self.wake_state.wait(context.waker()) {
                return Poll::Pending;
            }
            self.poll_connection();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Polls the connection; its wake-ups are noted from now on.
    fn poll_connection(&mut self) {
        self.wake_state.flags.swap(NOT_WAITING, Ordering::AcqRel);
        let Some(connection) = &mut self.connection else { return };
        let Poll::Ready(ended) = connection.as_mut().poll(&mut Context::from_waker(&self.waker))
        else {
            return;
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to an upstream ended badly");
        }
        self.connection = None;
    }
}

// === impl WakeState ===

impl WakeState {
    /// Lets wake-ups wake `task`, unless there was one already. Returns whether there was none.
    fn wait(&self, task: &Waker) -> bool {
        if self.flags.load(Ordering::Acquire) & WOKEN != 0 {
            return false;
        }
        self.task.register(task);
        self.flags.compare_exchange(NOT_WAITING, 0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl Default for WakeState {
    fn default() -> Self {
        // The connection is to be polled at first.
        Self { flags: AtomicU8::new(NOT_WAITING | WOKEN), task: AtomicWaker::new() }
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.flags.fetch_or(WOKEN, Ordering::AcqRel) == 0 {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the wake-ups of a task.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_connection_is_polled_only_if_it_was_woken() {
        let polls = Arc::new(AtomicUsize::new(0));
        let socket = Arc::new(AtomicWaker::new());
        let (counted, readable) = (polls.clone(), socket.clone());
        let mut driver = Driver::new(poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            readable.register(context.waker());
            Poll::Pending
        }));
        let task = Arc::<Woken>::default();
        let waker = Waker::from(task.clone());
        let mut poll = || driver.poll(&mut Context::from_waker(&waker), |_| Poll::<()>::Pending);
        let counts = || (polls.load(Ordering::Relaxed), task.0.load(Ordering::Relaxed));
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(counts(), (1, 0));
        socket.wake();
        assert_eq!(counts(), (1, 1));
        assert!(poll().is_pending() && poll().is_pending());
        assert_eq!(counts(), (2, 1));
    }
}
