//! Connections over HTTP/2.

use super::*;

/// Builds a request in the form of HTTP/2.
fn http2_request(_: Protocol) -> Request<Outbound> {
    let payload = splice(&Bytes::from_static(b"{}"), &[]);
    let body = Outbound::new(payload, Arc::new(|| Ok(())), SendStatus::default());
    Request::post("https://a/v1").body(body).unwrap()
}

#[tokio::test]
async fn requests_share_an_http2_connection_and_a_lost_one_is_replaced() {
    let server = Http2Server::default();
    let pool = pool_of(server.clone());
    let ask = async || {
        let response = send(&pool, &http2_request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
    };
    ask().await;
    futures_util::future::join_all((0..10).map(|_| ask())).await;
    assert_eq!(server.connections.lock().unwrap().len(), 1);
    // Requests that the connection had taken are sent again, on one other connection.
    server.is_silent.store(true, Ordering::Relaxed);
    let lose = async {
        while server.requests.load(Ordering::Relaxed) < 11 + 5 {
            tokio::task::yield_now().await;
        }
        server.is_silent.store(false, Ordering::Relaxed);
        server.connections.lock().unwrap()[0].abort_all();
    };
    tokio::join!(futures_util::future::join_all((0..5).map(|_| ask())), lose);
    assert_eq!(server.connections.lock().unwrap().len(), 2);
    assert_eq!(server.requests.load(Ordering::Relaxed), 11 + 5 + 5);
}

/// Regression test: a request that was not answered in time took new requests away from the connection that had
/// replaced its own.
#[tokio::test(start_paused = true)]
async fn only_the_http2_connection_of_a_late_request_is_retired() {
    let server = Http2Server::default();
    let pool = pool_of(server.clone());
    let connections = async || {
        let response = send(&pool, &http2_request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hi");
        server.connections.lock().unwrap().len()
    };
    assert_eq!((connections().await, connections().await), (1, 1));
    server.is_silent.store(true, Ordering::Relaxed);
    let (start, send_status) = (Instant::now(), SendStatus::default());
    let late = |seconds| {
        let deadline = start + Duration::from_secs(seconds);
        Box::pin(pool.send(&http2_request, &send_status, deadline))
    };
    let (mut first, mut second) = (late(1), late(2));
    assert!(futures_util::poll!(&mut first).is_pending());
    assert!(futures_util::poll!(&mut second).is_pending());
    let timed_out = |sent| matches!(sent, Err(UpstreamError::TimedOut(TimeoutKind::FirstByte)));
    assert!(timed_out(first.await));
    server.is_silent.store(false, Ordering::Relaxed);
    assert_eq!(connections().await, 2);
    assert!(timed_out(second.await));
    assert_eq!(connections().await, 2);
}

/// Regression test for the timer that requests on one connection share.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_answered_in_time_ends_at_its_own_deadline() {
    let dialer = Dialer::default();
    let pool = pool_of(dialer.clone());
    let serve = async {
        let mut far = dialer.accept().await;
        answer(&mut far, 1).await;
        far
    };
    let ((), far) = tokio::join!(ask(&pool), serve);
    let start = Instant::now();
    let sent = pool.send(&request, &SendStatus::default(), start + Duration::from_secs(3)).await;
    assert!(matches!(sent, Err(UpstreamError::TimedOut(TimeoutKind::FirstByte))), "{sent:?}");
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert!(pool.idle.lock().is_empty(), "its connection is closed");
    drop(far);
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_that_answers_no_ping_is_lost() {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connector = OnceConnector(Mutex::new(Some(near)));
    let pool = pool_of(connector);
    let error = send(&pool, &http2_request).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Unreachable(_)), "{error:?}");
    drop(far);
}

/// Returns its one connection, on which nothing ever arrives.
struct OnceConnector(Mutex<Option<DuplexStream>>);

impl Connect for OnceConnector {
    fn connect(&self) -> BoxFuture<'static, Result<Connected, BoxError>> {
        let stream = Box::new(TokioIo::new(self.0.lock().unwrap().take().unwrap()));
        Box::pin(ready(Ok(Connected { stream, protocol: Protocol::Http2 })))
    }
}
