//! Tests of the pool against servers and in-memory connections.

mod http2;

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::Uri;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use trust::Trust;

use super::idle::MAX_IDLE;
use super::*;
use crate::journal_barrier::FlushJournal;
use crate::upstream::SendStatus;
use crate::upstream::connect::{Protocol, TcpConnector};
use crate::upstream::error::BoxError;
use crate::upstream::slots::SlotsTable;
use crate::upstream::tests::entry;
use domain::upstream::{ConnectionBound, Upstream};
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

    fn pool(&self) -> Pool {
        pool_of(TcpConnector::plain(&self.address, None).unwrap())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn pool_of(connector: impl Connect + 'static) -> Pool {
    bounded_pool_of(connector, None)
}

fn bounded_pool_of(connector: impl Connect + 'static, slots: Option<Arc<Slots>>) -> Pool {
    let journal_barrier = JournalBarrier::new(Arc::new(|| Ok(())), TaskTracker::new());
    Pool::new(Box::new(connector), Duration::from_secs(10), journal_barrier, slots, Arc::default())
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

fn request(_: Protocol) -> Request<Outbound> {
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

async fn send(
    pool: &Pool,
    request: &impl Fn(Protocol) -> Request<Outbound>,
) -> Result<Response<AnswerBody>, UpstreamError> {
    pool.send(request, &SendStatus::default(), deadline()).await
}

/// Returns a deadline that no test reaches.
fn deadline() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

async fn ask(pool: &Pool) {
    let response = send(pool, &request).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
}

/// Waits until a connection is back in the pool.
async fn until_kept(pool: &Pool) {
    while pool.idle.lock().is_empty() {
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
async fn connections_are_counted_while_they_are_in_use_and_idle() {
    let server = Server::start().await;
    let pool = server.pool();
    let status = || {
        let status = pool.stats.status();
        (status.idle, status.in_use, status.connects.count())
    };
    assert_eq!(status(), (0, 0, 0));
    let response = send(&pool, &request).await.unwrap();
    assert_eq!(status(), (0, 1, 1));
    response.into_body().collect().await.unwrap();
    until_kept(&pool).await;
    assert_eq!(status(), (1, 0, 1));
    // One that is not read to its end is closed.
    drop(send(&pool, &request).await.unwrap());
    assert_eq!(status(), (0, 0, 1));
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

impl Connect for Dialer {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let (near, far) = tokio::io::duplex(4096);
        self.0.lock().unwrap().push(far);
        let stream = Box::new(TokioIo::new(near));
        Box::pin(ready(Ok(Connected { stream, protocol: Protocol::Http1 })))
    }
}

#[tokio::test]
async fn a_request_that_a_closed_connection_did_not_take_is_sent_on_another() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let answered = async || {
        let mut far = dialer.accept().await;
        answer(&mut far, 1).await;
        far
    };
    let ((), far) = tokio::join!(ask(&pool), answered());
    // The server closes the connection once it was taken from the pool.
    let (far, built) = (Mutex::new(Some(far)), AtomicUsize::new(0));
    let closing = |protocol| {
        drop(far.lock().unwrap().take());
        built.fetch_add(1, Ordering::Relaxed);
        request(protocol)
    };
    let (response, _far) = tokio::join!(send(&pool, &closing), answered());
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "hi");
    assert_eq!(built.into_inner(), 2);
}

#[tokio::test]
async fn a_closed_connection_is_not_kept() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let answered = async {
        let mut far = dialer.accept().await;
        answer(&mut far, 1).await;
        far
    };
    let ((), far) = tokio::join!(ask(&pool), answered);
    assert_eq!(pool.idle.lock().http1.len(), 1);
    pool.idle.lock().drop_unusable();
    assert_eq!(pool.idle.lock().http1.len(), 1, "it is open");
    drop(far);
    pool.idle.lock().drop_unusable();
    assert!(pool.idle.lock().is_empty());
}

/// The frames that have arrived are read without a wake-up.
#[tokio::test]
async fn all_frames_that_have_arrived_are_read_at_once() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let serve = async {
        let mut far = dialer.accept().await;
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let body = "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n";
        far.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        far
    };
    let (response, _far) = tokio::join!(send(&pool, &request), serve);
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
    assert_eq!(pool.idle.lock().http1.len(), 1, "it can take the next request");
}

#[tokio::test]
async fn a_request_that_is_kept_back_does_not_leave() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let send_status = SendStatus::default();
    let kept_back = |_| asking("words", Arc::new(|| Err("not yet".into())), &send_status);
    let error = send(&pool, &kept_back).await.unwrap_err();
    assert!(send_status.is_kept_back() && !send_status.stop(), "{error:?}");
    let mut far = dialer.0.lock().unwrap().pop().unwrap();
    let mut seen = Vec::new();
    far.read_to_end(&mut seen).await.unwrap();
    assert!(seen.is_empty(), "{seen:?}");

    let send_status = SendStatus::default();
    let sent = |_| asking("words", Arc::new(|| Ok(())), &send_status);
    let ((), error) = tokio::join!(
        async {
            drop(dialer.accept().await);
        },
        async { send(&pool, &sent).await.unwrap_err() }
    );
    assert!(!send_status.is_kept_back() && send_status.stop(), "{error:?}");
}

#[tokio::test]
async fn a_connection_whose_answer_was_given_up_is_not_used_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let pool = pool_of(TcpConnector::plain(&server, None).unwrap());
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
    let give_up = async { drop(send(&pool, &request).await.unwrap()) };
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
    assert!(pool.idle.lock().is_empty());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server: Uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    drop(listener);
    let pool = pool_of(TcpConnector::plain(&server, None).unwrap());
    assert!(send(&pool, &request).await.is_err());
}

/// Regression test: a request that met a connection at the moment of its idle timeout failed.
#[tokio::test]
async fn a_request_that_an_idle_connection_took_before_it_closed_is_sent_again_once() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let first = async {
        let mut far = dialer.accept().await;
        answer(&mut far, 1).await;
        far
    };
    let ((), mut far) = tokio::join!(ask(&pool), first);
    let closes_unanswered = async |far: &mut DuplexStream| {
        let mut read = Vec::new();
        while !read.ends_with(b"\r\n\r\n") {
            assert_ne!(far.read_buf(&mut read).await.unwrap(), 0);
        }
        far.shutdown().await.unwrap();
    };
    let second = async {
        closes_unanswered(&mut far).await;
        answer(&mut dialer.accept().await, 1).await;
    };
    let send_status = SendStatus::default();
    let (response, ()) = tokio::join!(pool.send(&request, &send_status, deadline()), second);
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "hi");
    assert!(send_status.take_lost().is_some() && send_status.take_lost().is_none());
    // A new connection was not closed for being idle.
    let failing = async { closes_unanswered(&mut dialer.accept().await).await };
    pool.idle.lock().http1.clear();
    let (response, ()) = tokio::join!(pool.send(&request, &send_status, deadline()), failing);
    assert!(matches!(response, Err(UpstreamError::Unreachable(_))), "{response:?}");
    assert_eq!(send_status.take_lost(), None, "it was sent once");
    assert!(dialer.0.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_but_does_not_greet_is_given_up_at_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Uri = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    let pool = pool_of(
        TcpConnector::tls(&address, None, &Trust::of_host(), None, &[Protocol::Http1]).unwrap(),
    );
    let error = send(&pool, &request).await.unwrap_err();
    assert!(matches!(error, UpstreamError::TimedOut(TimeoutKind::Connect)), "{error:?}");
    assert!(error.is_retryable() && error.is_upstream_fault());
}

/// A connection whose server has refused the request and closed the connection when the first bytes are written.
#[derive(Clone, Default)]
struct Refusing {
    answer: &'static [u8],
    was_written: bool,
    reader: Option<Waker>,
}

impl Connect for Refusing {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let stream = Box::new(TokioIo::new(self.clone()));
        Box::pin(ready(Ok(Connected { stream, protocol: Protocol::Http1 })))
    }
}

impl AsyncRead for Refusing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.was_written {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        buffer.put_slice(std::mem::take(&mut self.answer));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Refusing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.was_written = true;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Regression test: the refusal of a large upload became 502.
#[tokio::test]
async fn an_answer_that_comes_before_the_whole_request_is_read_although_writing_fails() {
    let large = "x".repeat(64 * 1024).leak();
    let send_status = SendStatus::default();
    let upload = |_| asking(large, Arc::new(|| Ok(())), &send_status);
    let answer = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno";
    let pool = pool_of(Refusing { answer, ..Refusing::default() });
    assert_eq!(send(&pool, &upload).await.unwrap().status(), 400);
    let pool = pool_of(Refusing::default());
    let error = send(&pool, &upload).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable(_)), "{error:?}");
}

/// An in-memory HTTP/2 server, which counts its connections and can drop them all.
#[derive(Clone, Default)]
struct Http2Server {
    connections: Arc<Mutex<Vec<JoinSet<()>>>>,
    requests: Arc<AtomicUsize>,
    /// Whether requests are left without an answer.
    is_silent: Arc<AtomicBool>,
}

impl Connect for Http2Server {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let (near, far) = tokio::io::duplex(4096);
        let (requests, is_silent) = (self.requests.clone(), self.is_silent.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            requests.fetch_add(1, Ordering::Relaxed);
            assert_eq!(request.headers().get("host"), None);
            let is_silent = is_silent.load(Ordering::Relaxed);
            async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"hi"))))
            }
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(far), service);
        let mut connection = JoinSet::new();
        connection.spawn(async move { _ = serving.await });
        self.connections.lock().unwrap().push(connection);
        let stream = Box::new(TokioIo::new(near));
        Box::pin(ready(Ok(Connected { stream, protocol: Protocol::Http2 })))
    }
}

/// An idle connection of one worker is closed before another worker opens one.
#[tokio::test]
async fn a_bound_counts_the_idle_connections_of_all_workers() {
    let server = Server::start().await;
    let mut upstream = Upstream::clone(&entry());
    upstream.connection_bound = Some(ConnectionBound { max_connections: 1, max_waiting: 0 });
    let table = SlotsTable::default();
    let pool = || {
        bounded_pool_of(TcpConnector::plain(&server.address, None).unwrap(), table.find(&upstream))
    };
    let (one, other) = (pool(), pool());
    for pool in [&one, &other] {
        let slot = pool.slot(None, &SendStatus::default()).await.unwrap();
        assert!(matches!(
            other.slot(None, &SendStatus::default()).await,
            Err(UpstreamError::Overloaded)
        ));
        let response = send(pool, &request).await.unwrap();
        let mut body = response.into_body().with_slot(slot);
        while body.frame().await.is_some() {}
        drop(body);
        until_kept(pool).await;
    }
    assert_eq!((one.idle.count(), other.idle.count()), (0, 1));
}
