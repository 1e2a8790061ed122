//! Accepts connections for the workers, and lets requests finish when the gateway stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::handler::EdgeState;
use super::shutdown::ShutdownPhase;
use super::worker::WorkerQueue;
use crate::connections::{Accepted, Acceptor};

/// How long clients may take to receive the errors that end their requests in a shutdown.
const ENDING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the first request of a connection is awaited that was accepted before the drain.
const GRACE_TIMEOUT: Duration = Duration::from_secs(1);

/// When and how to stop.
pub struct Stop {
    /// Stops accepting; requests in progress continue.
    pub shutdown: CancellationToken,
    /// Cancelled before `shutdown` if another process accepts the next connections.
    pub sockets_taken: CancellationToken,
    /// Cancelled when connections without a request end, and the rest ends with its requests.
    pub draining: CancellationToken,
    /// How long connections are still accepted while `/readyz` returns 503.
    pub drain_delay: Duration,
    /// How long requests may continue after that.
    pub drain: Duration,
    /// Cancelled after that, which ends requests.
    pub cut_off: CancellationToken,
    /// Cancelled at last, which drops connections.
    pub abort: CancellationToken,
}

/// The API's port. One task accepts all connections and gives each to the worker that has the fewest.
///
/// A listener per worker (`SO_REUSEPORT`) would spread them by a hash of their addresses, which leaves workers
/// idle if there are few long connections, loses connections in the backlog of a closed listener, and lets a
/// second gateway bind the same port unnoticed.
pub struct Port {
    /// Accepts connections.
    pub acceptor: Acceptor<TcpListener>,
    /// The queues of the workers; there is at least one.
    pub workers: Vec<WorkerQueue>,
    /// The workers that have not ended.
    pub running: TaskTracker,
    /// The state that the workers share.
    pub edge: Arc<EdgeState>,
}

impl Port {
    /// Accepts connections until `stop` is signalled, then waits for requests in progress.
    pub async fn serve(mut self, stop: Stop) {
        stop.shutdown.run_until_cancelled(self.accept()).await;
        if !stop.sockets_taken.is_cancelled() {
            self.accept_unready(&stop).await;
        }
        let Self { acceptor, workers, running, edge } = self;
        let shutdown = edge.shutdown();
        drop(acceptor);
        // A worker ends after its last connection, once its queue is closed.
        drop(workers);
        running.close();
        shutdown.enter(ShutdownPhase::Grace);
        let grace = GRACE_TIMEOUT.min(stop.drain);
        let mut is_late = timeout(grace, running.wait()).await.is_err();
        stop.draining.cancel();
        if is_late {
            shutdown.enter(ShutdownPhase::Draining);
            is_late = timeout(stop.drain.saturating_sub(grace), running.wait()).await.is_err();
        }
        stop.cut_off.cancel();
        if is_late {
            tracing::warn!(
                waited_ms = stop.drain.as_millis(),
                "ending requests that are still under way"
            );
            shutdown.enter(ShutdownPhase::Ending);
            _ = timeout(ENDING_TIMEOUT, running.wait()).await;
        }
        stop.abort.cancel();
        running.wait().await;
    }

    /// Accepts for a while after `/readyz` has changed, so that load balancers notice.
    async fn accept_unready(&mut self, stop: &Stop) {
        self.edge.shutdown().set_unready();
        if !stop.drain_delay.is_zero() {
            tracing::info!(
                delay_ms = stop.drain_delay.as_millis(),
                "shutting down: no longer ready, accepting for a while"
            );
            _ = timeout(stop.drain_delay, stop.cut_off.run_until_cancelled(self.accept())).await;
        }
    }

    async fn accept(&mut self) -> Infallible {
        loop {
            let accepted = self.acceptor.accept().await;
            if let Err(error) = self.assign(accepted) {
                tracing::debug!(%error, "a connection was gone at once");
            }
        }
    }

    fn assign(&self, accepted: Accepted<tokio::net::TcpStream>) -> std::io::Result<()> {
        let Accepted { stream, address, slot, has_proxy_header } = accepted;
        stream.set_nodelay(true)?;
        // A worker registers the connection with its own runtime.
        let stream = stream.into_std()?;
        let accepted = Accepted { stream, address, slot, has_proxy_header };
        WorkerQueue::assign(&self.workers, accepted);
        Ok(())
    }
}
