//! A pool of idle HTTP/1.1 connections to one upstream.
//!
//! It serves upstreams without TLS, for which no protocol has to be negotiated: a list of connections
//! suffices.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::client::conn::http1;
use hyper::rt::{Executor, Read, Write};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioExecutor;
use tokio::runtime::Handle;
use tokio::task::coop;
use tokio::time::{Instant, timeout};
use tower_service::Service;

use super::answer_body::AnswerBody;
use super::driven::DrivenConnection;
use super::error::BoxError;
use super::outbound::Outbound;
use crate::coalescing_writer::CoalescingWriter;
use crate::journal_barrier::JournalBarrier;

/// A connection that was idle for longer is closed, because middleboxes may have dropped it.
const MAX_IDLE: Duration = Duration::from_secs(90);
/// The largest number of idle connections of one worker. Each takes a descriptor and some KiB.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// The interval at which connections that the upstream has closed are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// How long a connection may take to become ready after its answer was read.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// The connections to one upstream, made by `connector`.
pub(super) struct Pool<C> {
    connector: C,
    address: Uri,
    journal_barrier: JournalBarrier,
    idle: Arc<Idle>,
}

/// The idle connections.
#[derive(Default)]
struct Idle(Mutex<IdleConnections>);

#[derive(Default)]
struct IdleConnections {
    /// The connections and the time since which they are idle, the most recently used last.
    connections: Vec<(Box<DrivenConnection>, Instant)>,
    /// Whether a task closes stale connections.
    has_sweeper: bool,
}

/// A connection in use. Dropping it closes the connection.
pub(super) struct PooledConnection {
    connection: Box<DrivenConnection>,
    idle: Arc<Idle>,
}

impl<C> Pool<C>
where
    C: Service<Uri, Response: Read + Write + Send + Unpin + 'static, Error: Into<BoxError>> + Clone,
{
    /// Creates a pool for the upstream at `address`; its connections write through `journal_barrier`.
    pub(super) fn new(connector: C, address: Uri, journal_barrier: JournalBarrier) -> Self {
        Self { connector, address, journal_barrier, idle: Arc::default() }
    }

    /// Sends the request that `request` builds, in origin form with a `Host` header, and waits for the head
    /// of the answer.
    ///
    /// # Errors
    /// There is no connection, or it broke before the head. If a pooled connection turns out to be closed
    /// before it accepted the request, the request is built and sent again.
    pub(super) async fn send(
        &self,
        request: &impl Fn() -> Request<Outbound>,
    ) -> Result<Response<AnswerBody>, BoxError> {
        loop {
            let kept = self.idle.take();
            let was_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                // Boxed because it is rare: the future of every request would have to hold it.
                None => Box::pin(self.connect()).await?,
            };
            match connection.send(request()).await {
                Ok(response) => {
                    let connection = PooledConnection { connection, idle: self.idle.clone() };
                    return Ok(response.map(|body| AnswerBody::with_connection(connection, body)));
                }
                Err(failed) if was_kept && failed.message().is_some() => {}
                Err(failed) => return Err(failed.into_error().into()),
            }
        }
    }

    async fn connect(&self) -> Result<Box<DrivenConnection>, BoxError> {
        // Both connectors are always ready.
        let connecting = self.connector.clone().call(self.address.clone());
        let stream = connecting.await.map_err(Into::into)?;
        let stream = self.journal_barrier.connection(CoalescingWriter::new(stream));
        let (sender, connection) = http1::handshake(stream).await?;
        Ok(Box::new(DrivenConnection::new(sender, connection)))
    }
}

impl PooledConnection {
    /// Drives the connection while `read` waits for something that the connection does.
    pub(super) fn poll_read<T>(
        &mut self,
        context: &mut Context<'_>,
        read: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.connection.poll_read(context, read)
    }

    /// Returns the connection, whose answer was read to the end, to the pool. If it still sends the request,
    /// this happens once that has been sent.
    pub(super) fn put_back(mut self) {
        if Handle::try_current().is_err() {
            // The runtime has ended, and with it the connection.
            return;
        }
        if self.connection.is_ready() {
            self.idle.put(self.connection);
        } else if !self.connection.is_closed() {
            spawn_detached(async move {
                if let Ok(true) = timeout(READY_TIMEOUT, self.connection.ready()).await
                    && self.connection.is_ready()
                {
                    self.idle.put(self.connection);
                }
            });
        }
    }
}

impl Idle {
    /// Takes the most recently used connection that is open, if there is one.
    fn take(&self) -> Option<Box<DrivenConnection>> {
        let mut kept = self.lock();
        kept.drop_stale();
        loop {
            let (mut connection, _) = kept.connections.pop()?;
            if !connection.was_woken() || connection.is_ready() {
                return Some(connection);
            }
        }
    }

    fn put(self: Arc<Self>, connection: Box<DrivenConnection>) {
        let mut kept = self.lock();
        if kept.connections.len() >= MAX_IDLE_CONNECTIONS {
            return;
        }
        kept.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut kept.has_sweeper, true) {
            // Without a cooperative budget, which would end after some closed connections.
            spawn_detached(coop::unconstrained(sweep(Arc::downgrade(&self))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnections {
    fn drop_stale(&mut self) {
        let is_stale = |since: &Instant| since.elapsed() >= MAX_IDLE;
        // The connections are ordered by their last use; there is hardly ever a stale one.
        let stale = self.connections.iter().take_while(|(_, since)| is_stale(since)).count();
        self.connections.drain(..stale);
    }

    /// Drops the connections that the upstream has closed.
    fn drop_closed(&mut self) {
        let is_open =
            |connection: &mut DrivenConnection| !connection.was_woken() || connection.is_ready();
        self.connections.retain_mut(|(connection, _)| is_open(connection));
    }
}

/// Closes stale connections, and those that the upstream has closed, until none is left.
async fn sweep(idle: Weak<Idle>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut kept = idle.lock();
        kept.drop_stale();
        kept.drop_closed();
        kept.has_sweeper = !kept.connections.is_empty();
        if !kept.has_sweeper {
            return;
        }
    }
}

/// Spawns a task that shutdown does not wait for: shutdown waits for requests, not for idle connections.
fn spawn_detached(work: impl Future<Output = ()> + Send + 'static) {
    TokioExecutor::new().execute(work);
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Waker;

    use bytes::Bytes;
    use http_body::Body;
    use http_body_util::BodyExt;
    use hyper_util::client::legacy::connect::HttpConnector;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
    use tokio::net::TcpListener;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::journal_barrier::FlushJournal;
    use crate::upstream::SendStatus;
    use domain::wire::splice::splice;

    /// A server that counts its connections.
    struct Server {
        address: Uri,
        connections: Arc<AtomicUsize>,
    }

    impl Server {
        async fn start() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let connections = Arc::<AtomicUsize>::default();
            let count = connections.clone();
            spawn_detached(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    spawn_detached(async move { answer(&mut stream, usize::MAX).await });
                }
            });
            Self { address, connections }
        }

        fn pool(&self) -> Pool<HttpConnector> {
            Pool::new(HttpConnector::new(), self.address.clone(), journal_barrier())
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::Relaxed)
        }
    }

    fn journal_barrier() -> JournalBarrier {
        JournalBarrier::new(Arc::new(|| Ok(())), TaskTracker::new())
    }

    async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answers: usize) {
        let mut read = Vec::new();
        for _ in 0..answers {
            while !read.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            read.clear();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi";
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    fn request() -> Request<Outbound> {
        asking("", Arc::new(|| Ok(())), &SendStatus::default())
    }

    fn asking(
        body: &'static str,
        flush_journal: FlushJournal,
        send_status: &SendStatus,
    ) -> Request<Outbound> {
        let payload = splice(&Bytes::from_static(body.as_bytes()), &[]);
        let mut request = Request::new(Outbound::new(payload, flush_journal, send_status.clone()));
        request.headers_mut().insert("host", "a".parse().unwrap());
        request
    }

    async fn ask<C>(pool: &Pool<C>)
    where
        C: Service<Uri, Response: Read + Write + Send + Unpin + 'static, Error: Into<BoxError>>
            + Clone,
    {
        let response = pool.send(&request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
    }

    /// Waits until a connection is back in the pool.
    async fn until_kept<C>(pool: &Pool<C>) {
        while pool.idle.lock().connections.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_connection_serves_one_request_after_another() {
        let server = Server::start().await;
        let pool = server.pool();
        for _ in 0..10 {
            ask(&pool).await;
            until_kept(&pool).await;
        }
        assert_eq!(server.connections(), 1);
    }

    #[tokio::test]
    async fn requests_at_once_have_a_connection_each() {
        let server = Server::start().await;
        let pool = server.pool();
        tokio::join!(ask(&pool), ask(&pool), ask(&pool));
        assert_eq!(server.connections(), 3);
    }

    /// In-memory connections whose far ends the test holds; a closed one is detected at once.
    #[derive(Clone, Default)]
    struct Dialer(Arc<Mutex<Vec<DuplexStream>>>);

    impl Dialer {
        /// Waits for a connection, and returns its far end.
        async fn accept(&self) -> DuplexStream {
            loop {
                let dialled = self.0.lock().unwrap().pop();
                match dialled {
                    Some(far) => return far,
                    None => tokio::task::yield_now().await,
                }
            }
        }
    }

    impl Service<Uri> for Dialer {
        type Response = TokioIo<DuplexStream>;
        type Error = Infallible;
        type Future = Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            let (near, far) = tokio::io::duplex(4096);
            self.0.lock().unwrap().push(far);
            ready(Ok(TokioIo::new(near)))
        }
    }

    #[tokio::test]
    async fn a_request_that_a_closed_connection_did_not_take_is_sent_on_another() {
        let dialer = Dialer::default();
        let pool = Pool::new(dialer.clone(), Uri::from_static("http://a"), journal_barrier());
        let answered = async || {
            let mut far = dialer.accept().await;
            answer(&mut far, 1).await;
            far
        };
        let ((), far) = tokio::join!(ask(&pool), answered());
        // The server closes the connection once it was taken from the pool.
        let (far, built) = (Mutex::new(Some(far)), AtomicUsize::new(0));
        let closing = || {
            drop(far.lock().unwrap().take());
            built.fetch_add(1, Ordering::Relaxed);
            request()
        };
        let (response, _far) = tokio::join!(pool.send(&closing), answered());
        assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "hi");
        assert_eq!(built.into_inner(), 2);
    }

    #[tokio::test]
    async fn a_closed_connection_is_not_kept() {
        let dialer = Dialer::default();
        let pool = Pool::new(dialer.clone(), Uri::from_static("http://a"), journal_barrier());
        let answered = async {
            let mut far = dialer.accept().await;
            answer(&mut far, 1).await;
            far
        };
        let ((), far) = tokio::join!(ask(&pool), answered);
        assert_eq!(pool.idle.lock().connections.len(), 1);
        pool.idle.lock().drop_closed();
        assert_eq!(pool.idle.lock().connections.len(), 1, "it is open");
        drop(far);
        pool.idle.lock().drop_closed();
        assert!(pool.idle.lock().connections.is_empty());
    }

    /// The frames that have arrived are read without a wake-up.
    #[tokio::test]
    async fn all_frames_that_have_arrived_are_read_at_once() {
        let dialer = Dialer::default();
        let pool = Pool::new(dialer.clone(), Uri::from_static("http://a"), journal_barrier());
        let serve = async {
            let mut far = dialer.accept().await;
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            let body = "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n";
            far.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            far
        };
        let (response, _far) = tokio::join!(pool.send(&request), serve);
        let mut body = response.unwrap().into_body();
        let mut context = Context::from_waker(Waker::noop());
        for expected in ["a", "b", "c"] {
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) else {
                panic!("it has arrived");
            };
            assert_eq!(frame.into_data().unwrap(), expected);
        }
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut context), Poll::Ready(None)));
        drop(body);
        assert_eq!(pool.idle.lock().connections.len(), 1, "it can take the next request");
    }

    #[tokio::test]
    async fn a_request_that_is_kept_back_does_not_leave() {
        let dialer = Dialer::default();
        let pool = Pool::new(dialer.clone(), Uri::from_static("http://a"), journal_barrier());
        let send_status = SendStatus::default();
        let kept_back = || asking("words", Arc::new(|| Err("not yet".into())), &send_status);
        let error = pool.send(&kept_back).await.unwrap_err();
        assert!(send_status.is_kept_back() && !send_status.stop(), "{error:?}");
        let mut far = dialer.0.lock().unwrap().pop().unwrap();
        let mut seen = Vec::new();
        far.read_to_end(&mut seen).await.unwrap();
        assert!(seen.is_empty(), "{seen:?}");

        let send_status = SendStatus::default();
        let sent = || asking("words", Arc::new(|| Ok(())), &send_status);
        let ((), error) = tokio::join!(
            async {
                drop(dialer.accept().await);
            },
            async { pool.send(&sent).await.unwrap_err() }
        );
        assert!(!send_status.is_kept_back() && send_status.stop(), "{error:?}");
    }

    #[tokio::test]
    async fn a_connection_whose_answer_was_given_up_is_not_used_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let pool = Pool::new(HttpConnector::new(), server, journal_barrier());
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi").await.unwrap();
            // The client closes the connection.
            assert_eq!(stream.read_buf(&mut read).await.unwrap(), 0);
        };
        let give_up = async { drop(pool.send(&request).await.unwrap()) };
        tokio::join!(serve, give_up);
        assert!(pool.idle.take().is_none());
    }

    #[tokio::test]
    async fn a_connection_that_was_idle_for_long_is_not_used() {
        let server = Server::start().await;
        let pool = server.pool();
        ask(&pool).await;
        until_kept(&pool).await;
        tokio::time::pause();
        tokio::time::advance(MAX_IDLE).await;
        ask(&pool).await;
        assert_eq!(server.connections(), 2);
        until_kept(&pool).await;
        // A connection is closed as well if no request arrives.
        tokio::time::sleep(MAX_IDLE * 2).await;
        assert!(pool.idle.lock().connections.is_empty());
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        drop(listener);
        let pool = Pool::new(HttpConnector::new(), server, journal_barrier());
        assert!(pool.send(&request).await.is_err());
    }
}
