//! A worker: serves the connections that it is given, all on one thread.

use std::convert::Infallible;
use std::io;
use std::net::TcpStream as StdTcpStream;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{Request, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ClientBody, ServedConnection, StreamExecutor, StreamProgress};
use super::handler::Handler;
use super::limits::HttpLimits;
use super::protocol_io::{MAX_READ_IN_POLL, ProtocolIo};
use crate::coalescing_writer::CoalescingWriter;
use crate::connections::{Accepted, Activity, ClientIo, IdlePolicy, RequestTimeouts, Timeouts};
use crate::journal_barrier::JournalBarrier;
use crate::tls::ServerTls;

/// The flow-control windows of one HTTP/2 stream and of one connection, in bytes. An unread frame takes about
/// a hundred bytes of memory, however short it is.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 512 * 1024;

/// The connections that wait for a worker, and the number that it has. The limits on connections bound the
/// queue.
pub struct WorkerQueue {
    sender: UnboundedSender<Assigned>,
    /// Each connection of the worker has a clone.
    load: Arc<()>,
}

/// A connection that was given to a worker.
struct Assigned {
    accepted: Accepted<StdTcpStream>,
    load: Arc<()>,
}

/// Serves the connections of one queue.
pub struct Worker {
    queue: UnboundedReceiver<Assigned>,
    context: WorkerContext,
}

/// What a worker needs to serve connections.
pub struct WorkerContext {
    /// Terminates TLS, if configured.
    pub tls: Option<Arc<ServerTls>>,
    /// Answers requests.
    pub handler: Arc<Handler>,
    /// Flushes the journal before each write.
    pub journal_barrier: JournalBarrier,
    /// The tasks that a shutdown waits for.
    pub tasks: TaskTracker,
    /// How long a client may take no byte of an answer; `None` for no limit.
    pub client_idle: Option<Duration>,
    /// How long requests may be awaited.
    pub timeouts: RequestTimeouts,
    /// The limits of the protocols.
    pub limits: HttpLimits,
}

// === impl WorkerQueue ===

impl WorkerQueue {
    fn new() -> (Self, UnboundedReceiver<Assigned>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self { sender, load: Arc::default() }, receiver)
    }

    /// Gives a connection to the worker that has the fewest.
    pub(super) fn assign(workers: &[Self], accepted: Accepted<StdTcpStream>) {
        let running = workers.iter().filter(|worker| !worker.sender.is_closed());
        let assigned = running.min_by_key(|worker| Arc::strong_count(&worker.load)).map(|worker| {
            let assigned = Assigned { accepted, load: worker.load.clone() };
            worker.sender.send(assigned)
        });
        if !matches!(assigned, Some(Ok(()))) {
            tracing::error!("a worker has failed; a connection is closed");
        }
    }
}

// === impl Worker ===

impl Worker {
    /// Creates a worker and its queue.
    pub fn new(context: WorkerContext) -> (WorkerQueue, Self) {
        let (sender, queue) = WorkerQueue::new();
        (sender, Self { queue, context })
    }

    /// Serves HTTP/1.1 and HTTP/2 on the current runtime until the queue is closed and all connections have
    /// ended, or until `abort`.
    pub async fn run(mut self, abort: CancellationToken) {
        let builder = self.context.builder();
        // Connections are aborted at the end. A cancellation token would be polled, under its lock, on each
        // poll of each connection.
        let mut connections = JoinSet::new();
        while let Some(assigned) = self.queue.recv().await {
            while connections.try_join_next().is_some() {}
            self.context.spawn(assigned, &builder, &mut connections);
        }
        let all = async { while connections.join_next().await.is_some() {} };
        abort.run_until_cancelled(all).await;
        connections.shutdown().await;
    }
}

// === impl WorkerContext ===

impl WorkerContext {
    fn builder(&self) -> auto::Builder<StreamExecutor> {
        let mut builder = auto::Builder::new(StreamExecutor {
            tasks: self.tasks.clone(),
            shutdown: self.handler.shutdown(),
            client_idle: self.client_idle,
        });
        builder
            .http1()
            // `ProtocolIo` has the deadline of a head.
            .header_read_timeout(None)
            .max_buf_size(self.limits.max_head_bytes as usize);
        if self.limits.max_headers != HttpLimits::DEFAULT_MAX_HEADERS {
            builder.http1().max_headers(self.limits.max_headers as usize);
        }
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(self.limits.max_head_bytes)
            .max_concurrent_streams(self.limits.max_streams)
            .max_pending_accept_reset_streams(self.limits.max_resets as usize);
        builder
    }

    /// Spawns the task of a connection.
    fn spawn(
        &self,
        assigned: Assigned,
        builder: &auto::Builder<StreamExecutor>,
        connections: &mut JoinSet<()>,
    ) {
        let Assigned { accepted: Accepted { stream, address, slot, has_proxy_header }, load } =
            assigned;
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "a connection cannot be served"),
        };
        let request = self.timeouts;
        let timeouts = Timeouts { write: self.client_idle, request, idle: IdlePolicy::Keep };
        let accepted = Accepted { stream, address, slot, has_proxy_header };
        let stream = ClientIo::new(accepted, timeouts).checking_hang_ups();
        let server = Server {
            builder: builder.clone(),
            handler: self.handler.clone(),
            journal_barrier: self.journal_barrier.clone(),
            activity: stream.activity().clone(),
            timeouts: self.timeouts,
            max_head_bytes: self.limits.max_head_bytes as usize,
            load,
        };
        match &self.tls {
            None => {
                let stream = CoalescingWriter::new(TokioIo::new(stream));
                connections.spawn(self.tasks.track_future(server.serve(stream)));
            }
            Some(tls) => {
                // The deadline of the first request applies to the handshake.
                let handshake = tls.api().accept(stream);
                let shutdown = server.handler.shutdown();
                let connection = async move {
                    match shutdown.unless_draining(handshake).await {
                        Some(Ok(stream)) => server.serve(TokioIo::new(stream)).await,
                        Some(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                        None => {}
                    }
                };
                connections.spawn(self.tasks.track_future(connection));
            }
        }
    }
}

/// Serves one connection.
struct Server {
    builder: auto::Builder<StreamExecutor>,
    handler: Arc<Handler>,
    journal_barrier: JournalBarrier,
    activity: Arc<Activity>,
    timeouts: RequestTimeouts,
    max_head_bytes: usize,
    load: Arc<()>,
}

// === impl Server ===

impl Server {
    /// Serves `stream`. Values that only the start needs are dropped before the first await.
    fn serve<S>(self, stream: S) -> impl Future<Output = ()> + Send + 'static
    where
        S: Read + Write + Unpin + Send + 'static,
    {
        let shutdown = self.handler.shutdown();
        let stream = TokioIo::new(self.journal_barrier.connection(stream));
        let (handler, requests, load) = (self.handler, self.activity.clone(), self.load);
        let answering = handler.clone();
        let render = move |status| answering.protocol_error(status);
        let stream = ProtocolIo::new(
            stream,
            self.activity.clone(),
            shutdown.clone(),
            self.timeouts.next,
            self.max_head_bytes,
            render,
        );
        let service =
            service_fn(move |request: Request<Incoming>| {
                let guard = requests.begin();
                if request.version() == Version::HTTP_2 {
                    requests.set_multiplexed();
                } else {
                    let length = request.body().size_hint().exact();
                    let is_large = length.is_some_and(|length| length > MAX_READ_IN_POLL as u64);
                    requests.set_large_body(is_large);
                }
                let (handler, shutdown) = (handler.clone(), handler.shutdown());
                let cancellations = handler.cancellations();
                let (head, body) = request.into_parts();
                // Boxed, so that a stream does not hold the memory of everything before its first event.
                Box::pin(async move {
                    let response = handler.serve(&head, body).await;
                    let progress = StreamProgress::current();
                    Ok::<_, Infallible>(response.map(|reply| {
                        ClientBody::new(reply, shutdown, cancellations, progress, guard)
                    }))
                })
            });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        let connection = ServedConnection::new(connection, self.activity, &shutdown, self.timeouts);
        async move {
            let ended = connection.await;
            drop(load);
            match ended {
                Some(Err(error)) => {
                    tracing::debug!(error = describe(&*error), "a connection ended badly");
                }
                Some(Ok(())) => {}
                None => tracing::debug!("an idle connection did not end when it was asked to"),
            }
        }
    }
}

fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<io::Error>() {
        Some(io) => io.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::connections::{ConnectionLimits, ConnectionSlots};

    #[test]
    fn a_connection_goes_to_the_worker_that_has_the_fewest() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let slots = ConnectionSlots::new(ConnectionLimits::default());
        let accepted = || Accepted {
            stream: StdTcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            address: None,
            slot: slots.take(None).unwrap(),
            has_proxy_header: false,
        };
        let (workers, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| WorkerQueue::new()).unzip();
        for _ in 0..6 {
            WorkerQueue::assign(&workers, accepted());
        }
        let served: Vec<_> = receivers
            .iter_mut()
            .map(|receiver| [receiver.try_recv().unwrap(), receiver.try_recv().unwrap()])
            .collect();
        assert!(receivers.iter_mut().all(|receiver| receiver.try_recv().is_err()), "two each");
        // One connection of the second worker ends.
        let [_first, [ended, _served], _third] = <[_; 3]>::try_from(served).ok().unwrap();
        drop(ended);
        WorkerQueue::assign(&workers, accepted());
        assert!(receivers[1].try_recv().is_ok());
    }

    #[test]
    fn a_worker_that_has_failed_gets_no_connections() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let slots = ConnectionSlots::new(ConnectionLimits::default());
        let (failed, receiver) = WorkerQueue::new();
        let (other, mut connections) = WorkerQueue::new();
        drop(receiver);
        let workers = [failed, other];
        for _ in 0..2 {
            let stream = StdTcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let slot = slots.take(None).unwrap();
            let accepted = Accepted { stream, address: None, slot, has_proxy_header: false };
            WorkerQueue::assign(&workers, accepted);
            assert!(connections.try_recv().is_ok());
        }
    }
}
