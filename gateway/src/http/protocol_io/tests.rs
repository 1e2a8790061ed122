//! Protocol errors, deadlines and bounds of a connection, on a stream in memory.

use std::task::Waker;

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::super::flood::MAX_UNREQUESTED;
use super::super::shutdown::ShutdownPhase;
use super::*;

const HEAD_TIMEOUT: Duration = Duration::from_secs(7);
const MAX_HEAD: usize = 64 * 1024;
const ERROR: &[u8] =
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Returns a connection that buffers `buffer` bytes until its client reads.
fn connection(
    buffer: usize,
) -> (DuplexStream, ProtocolIo<DuplexStream, impl Fn(StatusCode) -> Bytes>) {
    let (client, server) = duplex(buffer);
    let render = |status: StatusCode| format!("[error {}]", status.as_u16()).into();
    let shutdown = Arc::new(Shutdown::new(Arc::default()));
    (client, ProtocolIo::new(server, Arc::default(), shutdown, HEAD_TIMEOUT, MAX_HEAD, render))
}

/// Writes all of `writes`, closes the connection, and returns what the client read, a byte at a time.
async fn written(writes: &[&[u8]], with_request: bool) -> String {
    let (mut client, mut server) = connection(1);
    let _request = with_request.then(|| server.activity.begin());
    let write = async {
        for bytes in writes {
            server.write_all(bytes).await.unwrap();
        }
        server.shutdown().await.unwrap();
    };
    let mut read = String::new();
    let (read_all, ()) = tokio::join!(client.read_to_string(&mut read), write);
    read_all.unwrap();
    read
}

#[tokio::test]
async fn an_error_head_of_hyper_is_replaced() {
    assert_eq!(written(&[ERROR], false).await, "[error 431]");
    let after_http_1_0 = std::str::from_utf8(ERROR).unwrap().replace("1.1", "1.0");
    assert_eq!(written(&[after_http_1_0.as_bytes()], false).await, "[error 431]");
}

/// Time is paused, because the client of the last case does not close its connection.
#[tokio::test(start_paused = true)]
async fn anything_else_is_written_as_it_is() {
    let text = std::str::from_utf8(ERROR).unwrap();
    let with_id = text.replace("connection", "x-request-id: 1\r\nconnection");
    let with_body = text.replace("length: 0", "length: 10");
    for other in [&with_id, &with_body, &text.replace("431", "200"), &text[1..], &text[..60]] {
        assert_eq!(&written(&[other.as_bytes()], false).await, other);
    }
    assert_eq!(written(&[ERROR], true).await, text, "a request is in progress");
    // HTTP/2 begins with a frame of settings.
    assert_eq!(written(&[b"\0\0", ERROR], false).await, format!("\0\0{text}"));
}

#[tokio::test]
async fn the_rest_of_a_partial_write_is_not_replaced() {
    let (mut client, mut server) = connection(4);
    let answer = [b"body", ERROR].concat();
    let mut context = Context::from_waker(Waker::noop());
    let taken = Pin::new(&mut server).poll_write(&mut context, &answer);
    assert!(matches!(taken, Poll::Ready(Ok(4))));
    let mut read = vec![0; answer.len()];
    let (rest, all) = tokio::join!(server.write_all(&answer[4..]), client.read_exact(&mut read));
    rest.unwrap();
    all.unwrap();
    assert_eq!(read, answer);
}

#[tokio::test]
async fn several_buffers_are_never_replaced() {
    let (mut client, mut server) = connection(1_024);
    let buffers = [IoSlice::new(ERROR), IoSlice::new(b"body")];
    assert_eq!(server.write_vectored(&buffers).await.unwrap(), ERROR.len() + 4);
    let mut read = vec![0; ERROR.len() + 4];
    client.read_exact(&mut read).await.unwrap();
    assert_eq!(read, [ERROR, b"body"].concat());
}

#[tokio::test(start_paused = true)]
async fn a_late_head_is_answered_only_if_a_part_has_arrived() {
    for (part, expected) in [("", ""), ("GET / HT", "[error 408]")] {
        let (mut client, mut server) = connection(1_024);
        drop(server.activity.begin());
        server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        client.write_all(part.as_bytes()).await.unwrap();
        let began = Instant::now();
        let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(
            (error.kind(), began.elapsed() >= HEAD_TIMEOUT),
            (io::ErrorKind::TimedOut, true)
        );
        drop(server);
        let mut read = String::new();
        client.read_to_string(&mut read).await.unwrap();
        assert_eq!(read.strip_prefix("HTTP/1.1 200 OK\r\n\r\n"), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn no_head_is_late_while_a_request_is_in_progress() {
    let (mut client, mut server) = connection(1_024);
    server.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    client.write_all(b"body").await.unwrap();
    let request = server.activity.begin();
    let mut read = Vec::new();
    let long = tokio::time::timeout(HEAD_TIMEOUT * 10, server.read_to_end(&mut read)).await;
    assert!(long.is_err());
    drop(request);
    assert!(server.read_to_end(&mut read).await.is_err());
}

/// Regression test: an answer that a slow client reads for longer than a head may take was cut.
#[tokio::test(start_paused = true)]
async fn no_head_is_late_while_an_answer_is_written() {
    let (mut client, server) = connection(4);
    drop(server.activity.begin());
    let (mut reading, mut writing) = tokio::io::split(server);
    let answer = b"HTTP/1.1 200 OK\r\n\r\n";
    let began = Instant::now();
    let read = async {
        for byte in answer {
            sleep(HEAD_TIMEOUT / 8).await;
            assert_eq!(client.read_u8().await.unwrap(), *byte);
        }
    };
    let (mut rest, answered) =
        (Vec::new(), async { tokio::join!(writing.write_all(answer), read) });
    tokio::select! {
        biased;
        (written, ()) = answered => written.unwrap(),
        late = reading.read_to_end(&mut rest) => panic!("{late:?} after {:?}", began.elapsed()),
    }
    assert!(began.elapsed() > HEAD_TIMEOUT * 2);
}

#[tokio::test]
async fn a_shutdown_closes_a_connection_without_a_request() {
    let (mut client, mut server) = connection(4);
    client.write_all(b"GET").await.unwrap();
    let request = server.activity.begin();
    server.shutdown.enter(ShutdownPhase::Draining);
    let mut read = [0; 3];
    server.read_exact(&mut read).await.unwrap();
    assert!(server.read_u8().now_or_never().is_none(), "a request is in progress");
    drop(request);
    assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
    assert_eq!(client.read(&mut read).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_poll_of_the_connection_reads_a_bounded_number_of_bytes() {
    const SENT: usize = 2 * MAX_READ_IN_POLL + 2 * MAX_BODY_READ_IN_POLL;
    let (mut client, mut server) = connection(SENT);
    let activity = server.activity.clone();
    let _request = activity.begin();
    client.write_all(&vec![0; SENT]).await.unwrap();
    let mut read_all = || {
        let mut bytes = vec![0; 4 * 1024];
        let mut total = 0;
        while let Some(read) = server.read(&mut bytes).now_or_never() {
            total += read.unwrap();
        }
        total
    };
    assert_eq!((read_all(), read_all()), (MAX_READ_IN_POLL, 0));
    activity.begin_poll();
    assert_eq!(read_all(), MAX_READ_IN_POLL);
    activity.begin_poll();
    activity.set_large_body(true);
    assert_eq!((read_all(), read_all()), (MAX_BODY_READ_IN_POLL, 0));
}

#[tokio::test(start_paused = true)]
async fn a_head_in_small_pieces_is_parsed_a_bounded_number_of_times() {
    for (size, is_refused) in [(8, true), (1_024, false)] {
        let (client, mut server) = connection(size);
        let (mut answers, mut client) = tokio::io::split(client);
        let pieces = MAX_HEAD / size;
        let write = async {
            for _ in 0..pieces {
                if client.write_all(&vec![b'a'; size]).await.is_err() {
                    break;
                }
            }
        };
        let read = async move {
            let mut bytes = vec![0; size];
            for _ in 0..pieces {
                server.activity.begin_poll();
                if server.read(&mut bytes).await.is_err() {
                    return true;
                }
            }
            false
        };
        let mut answer = Vec::new();
        let receive = answers.read_to_end(&mut answer);
        assert_eq!(tokio::join!(write, read, receive).1, is_refused, "{size}");
        assert_eq!(answer == b"[error 408]", is_refused);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_without_a_request_is_not_read_for_long() {
    let (mut client, mut server) = connection(1_024);
    server.protocol = Protocol::Http2;
    let flood = async {
        while client.write_all(&[0; 1_024]).await.is_ok() {}
        std::future::pending::<()>().await;
    };
    let activity = server.activity.clone();
    let read = async {
        let (mut total, mut bytes) = (0, [0; 1_024]);
        loop {
            activity.begin_poll();
            match server.read(&mut bytes).await {
                Ok(read) => total += read,
                Err(error) => return (total, error.kind()),
            }
            // A request begins a new count.
            if total == MAX_UNREQUESTED {
                drop(activity.begin());
            }
        }
    };
    tokio::select! {
        // The read that follows a request may be a part of it, and does not count.
        read = read => assert_eq!(read, (2 * MAX_UNREQUESTED + 1_024, io::ErrorKind::TimedOut)),
        () = flood => unreachable!("it waits"),
    }
}
