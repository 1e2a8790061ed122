//! Tests of the client of one upstream.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::task::TaskTracker;

use super::*;
use crate::journal_barrier::FlushJournal;
use crate::upstream::TimeoutKind;
use crate::upstream::tests::entry;
use domain::wire::splice::splice;

/// Returns a client, and the connections that it opens.
fn client(flush_journal: FlushJournal) -> (UpstreamClient, UnboundedReceiver<UnixStream>) {
    let (dialled, ends) = mpsc::unbounded_channel();
    let simulator = SimulatorDialer::new(move || {
        let (ours, theirs) = UnixStream::pair()?;
        dialled.send(theirs).map_err(std::io::Error::other)?;
        Ok(ours)
    });
    let credentials = vec![Ok(SecretString::from("sk-upstream"))];
    let secrets = UpstreamSecrets { credentials, ..UpstreamSecrets::default() };
    let journal_barrier = JournalBarrier::new(flush_journal, TaskTracker::new());
    let upstream_client = UpstreamClient::new(
        entry(),
        &secrets,
        &simulator,
        None,
        &journal_barrier,
        Arc::default(),
        None,
    )
    .unwrap();
    (upstream_client, ends)
}

/// Returns the head and the body that are sent for a request with `body`.
async fn sent(method: Method, body: &'static str) -> (String, String) {
    let (upstream_client, mut ends) = client(Arc::new(|| Ok(())));
    let answer = async {
        let mut end = ends.recv().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(format!("\r\n\r\n{body}").as_bytes()) {
            assert_ne!(end.read_buf(&mut read).await.unwrap(), 0, "{read:?}");
        }
        end.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        String::from_utf8(read).unwrap()
    };
    let body_and_id = |_: &mut HeaderMap| {
        let body = splice(&Bytes::from_static(body.as_bytes()), &[]);
        (body, HeaderValue::from_static("an-id"))
    };
    let send_status = SendStatus::default();
    let mut target = upstream_client.models.clone();
    target.method = method;
    let request = upstream_client.request(
        &target,
        None,
        CredentialIndex::default(),
        body_and_id,
        &send_status,
        Duration::from_mins(1),
    );
    let (read, answered) = tokio::join!(answer, request);
    answered.unwrap();
    let (head, body) = read.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_request_carries_its_length_and_what_every_request_carries() {
    let (head, body) = sent(Method::POST, "{}").await;
    assert_eq!(body, "{}");
    let mut lines: Vec<_> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /v1/models HTTP/1.1");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "accept-encoding: identity",
            "accept: application/json, text/event-stream",
            "authorization: Bearer sk-upstream",
            "content-length: 2",
            "content-type: application/json",
            "host: simulator.invalid",
            concat!("user-agent: tollgate/", env!("CARGO_PKG_VERSION")),
            "x-request-id: an-id",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_upstream_that_is_silent_when_asked_for_its_models_is_named_in_time() {
    let (upstream_client, _ends) = client(Arc::new(|| Ok(())));
    let began = tokio::time::Instant::now();
    let listed = upstream_client.models(CredentialIndex::default()).await;
    assert!(matches!(listed, Err(UpstreamError::TimedOut(TimeoutKind::FirstByte))), "{listed:?}");
    // Shorter than what the dashboard waits for.
    assert_eq!(began.elapsed().as_secs(), 10);
}

/// Sends a request to an upstream that reads it and closes the connection. The journal fails once the
/// request was read if `fails_later`, and from the beginning otherwise.
async fn failed(fails_later: bool) -> (UpstreamError, bool) {
    let has_failed = Arc::new(AtomicBool::new(!fails_later));
    let journal = has_failed.clone();
    let (upstream_client, mut ends) = client(Arc::new(move || {
        if journal.load(Ordering::Relaxed) { Err("the disk is full".into()) } else { Ok(()) }
    }));
    let close = async {
        let mut end = ends.recv().await.unwrap();
        let mut read = Vec::new();
        while !read.ends_with(b"{}") && end.read_buf(&mut read).await.unwrap() > 0 {}
        has_failed.store(true, Ordering::Relaxed);
    };
    let body_and_id =
        |_: &mut HeaderMap| (splice(&Bytes::from_static(b"{}"), &[]), HeaderValue::from_static(""));
    let send_status = SendStatus::default();
    let ((), answered) = tokio::join!(
        close,
        upstream_client.send(None, CredentialIndex::default(), body_and_id, &send_status)
    );
    (answered.unwrap_err(), send_status.stop())
}

/// Regression test: a request that had left was reported as kept back if the journal failed later.
#[tokio::test]
async fn a_request_is_kept_back_by_the_journal_only_if_it_has_not_left() {
    let (error, has_left) = failed(true).await;
    assert!(matches!(error, UpstreamError::Unreachable(_)) && has_left, "{error:?}");
    let (error, has_left) = failed(false).await;
    assert!(matches!(error, UpstreamError::JournalUnavailable(_)) && !has_left, "{error:?}");
}

#[tokio::test]
async fn a_request_without_a_body_has_no_length() {
    let (head, body) = sent(Method::GET, "").await;
    assert!(body.is_empty());
    assert!(head.starts_with("GET /v1/models HTTP/1.1"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("transfer-encoding"), "{head}");
}
