//! Hostile upstreams: [`KINDS`] lists them, [`Peer`] runs one.
//!
//! [`http1`] and [`http2`] contain what they do with requests.

pub(super) mod http1;
mod http2;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proto::v1;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::choices::Choices;
use crate::Certificate;
use Step::{Accept, End, Event, Head, Request};

/// A plain answer.
const PLAIN: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
/// The first event of a stream.
const FIRST: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n";
/// The event after [`FIRST`].
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n";
const DONE: &str = "data: [DONE]\n\n";
/// `{}` in gzip.
const GZIPPED: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
/// The text of whole answers.
pub(super) const TEXT: &str = "hi";

/// A kind of hostile upstream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    server: Server,
    pub(super) expected: Expected,
}

/// What clients may receive from a kind of upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// Complete answers.
    Whole,
    /// Errors.
    Error,
    /// Complete answers or errors.
    Either,
    /// Errors, or answers that say that they were ended at the client's cap of output.
    NotWhole,
}

/// What listens.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// Nothing: connections are refused.
    Nothing,
    /// A server without TLS.
    Plain(http1::Behavior),
    /// A server with TLS and HTTP/1.1.
    Tls(http1::Behavior),
    /// A server with TLS and HTTP/2.
    Http2(http2::Behavior),
    /// A server with a certificate that must not be trusted.
    Untrusted(CertificateFault),
    /// A server that resets connections in the TLS handshake.
    ResetHandshake,
}

/// What is wrong with a certificate.
#[derive(Clone, Copy, Debug)]
enum CertificateFault {
    Expired,
    /// It is for another host.
    Misplaced,
}

/// A step of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Before anything was read.
    Accept,
    /// After the request was read, before anything is sent.
    Request,
    /// Within the head, or with HTTP/2 after it.
    Head,
    /// After the first event, or within a plain answer.
    Event,
    /// Before the end marker, or the last byte of a plain answer.
    End,
}

const fn kind(name: &'static str, server: Server, expected: Expected) -> Kind {
    Kind { name, server, expected }
}

const fn plain(name: &'static str, behavior: http1::Behavior) -> Kind {
    kind(name, Server::Plain(behavior), Expected::Error)
}

const fn tls(name: &'static str, behavior: http1::Behavior) -> Kind {
    kind(name, Server::Tls(behavior), Expected::Error)
}

const fn h2(name: &'static str, behavior: http2::Behavior) -> Kind {
    kind(name, Server::Http2(behavior), Expected::Error)
}

/// All kinds.
pub(super) const KINDS: [Kind; 59] = {
    use http1::Behavior as Http1;
    use http2::Behavior as Http2;
    [
        kind("refused", Server::Nothing, Expected::Error),
        plain("stall-accept", Http1::Stall(Accept)),
        plain("stall-request", Http1::Stall(Request)),
        plain("stall-head", Http1::Stall(Head)),
        plain("stall-event", Http1::Stall(Event)),
        plain("stall-end", Http1::Stall(End)),
        plain("reset-accept", Http1::Reset(Accept)),
        plain("reset-request", Http1::Reset(Request)),
        plain("reset-head", Http1::Reset(Head)),
        plain("reset-event", Http1::Reset(Event)),
        plain("reset-end", Http1::Reset(End)),
        plain("cut", Http1::Cut),
        plain("garbage", Http1::Garbage),
        plain("html", Http1::Html),
        plain("redirect", Http1::Redirect),
        plain("endless-head", Http1::EndlessHead),
        kind("endless-body", Server::Plain(Http1::EndlessBody), Expected::NotWhole),
        plain("endless-event", Http1::EndlessEvent),
        plain("interim-flood", Http1::InterimFlood),
        plain("declared-gzip", Http1::Declares("gzip")),
        plain("declared-unknown", Http1::Declares("x-unheard-of")),
        plain("undeclared-gzip", Http1::Gzipped),
        kind("crumbs", Server::Plain(Http1::Crumbs), Expected::Whole),
        kind("trailing-garbage", Server::Plain(Http1::TrailingGarbage), Expected::Whole),
        kind("tls-expired", Server::Untrusted(CertificateFault::Expired), Expected::Error),
        kind("tls-other-host", Server::Untrusted(CertificateFault::Misplaced), Expected::Error),
        kind("tls-reset-handshake", Server::ResetHandshake, Expected::Error),
        // Without TLS, so that the handshake stalls.
        tls("tls-stall-accept", Http1::Stall(Accept)),
        tls("tls-stall-head", Http1::Stall(Head)),
        tls("tls-stall-event", Http1::Stall(Event)),
        tls("tls-reset-request", Http1::Reset(Request)),
        tls("tls-reset-event", Http1::Reset(Event)),
        tls("tls-cut", Http1::Cut),
        tls("tls-unterminated", Http1::Unterminated),
        kind("tls-crumbs", Server::Tls(Http1::Crumbs), Expected::Whole),
        kind("h2-whole", Server::Http2(Http2::Whole), Expected::Whole),
        kind("h2-no-settings-ack", Server::Http2(Http2::IgnoreSettings), Expected::Whole),
        kind("h2-retire", Server::Http2(Http2::Retire), Expected::Either),
        h2("h2-stall-accept", Http2::Stall(Accept)),
        h2("h2-stall-request", Http2::Stall(Request)),
        h2("h2-stall-head", Http2::Stall(Head)),
        h2("h2-stall-event", Http2::Stall(Event)),
        h2("h2-stall-end", Http2::Stall(End)),
        h2("h2-reset-request", Http2::ResetStream(Request)),
        h2("h2-reset-head", Http2::ResetStream(Head)),
        h2("h2-reset-event", Http2::ResetStream(Event)),
        h2("h2-reset-end", Http2::ResetStream(End)),
        h2("h2-goaway-request", Http2::GoAway(Request)),
        h2("h2-goaway-head", Http2::GoAway(Head)),
        h2("h2-goaway-event", Http2::GoAway(Event)),
        h2("h2-goaway-end", Http2::GoAway(End)),
        h2("h2-closed-window", Http2::CloseWindow),
        h2("h2-overrun-window", Http2::OverrunWindow),
        h2("h2-continuations", Http2::Continuations),
        h2("h2-interim-flood", Http2::InterimFlood),
        h2("h2-ping-flood", Http2::PingFlood),
        h2("h2-settings-flood", Http2::SettingsFlood),
        h2("h2-empty-data", Http2::EmptyData),
        h2("h2-garbage", Http2::Garbage),
    ]
};

/// The certificates of hostile upstreams.
pub(super) struct Certificates {
    good: Certificate,
    expired: Certificate,
    misplaced: Certificate,
}

/// A running hostile upstream. Dropping it closes its connections.
pub(super) struct Peer {
    /// The base URL for the catalogue.
    pub(super) url: String,
    /// The certificates that the gateway trusts for it, in PEM.
    pub(super) trusted: String,
    /// The number of requests that it has read whole.
    received: Arc<AtomicUsize>,
    /// Keeps the port of a server that refuses connections.
    _port: Option<TcpSocket>,
    _tasks: JoinSet<()>,
}

/// Returns the parts of the answer to a request: the first event, the rest, and the end marker; or the beginning, the rest
/// and the last byte of a plain answer.
fn parts(request: &[u8]) -> [&'static str; 3] {
    if is_stream(request) {
        return [FIRST, FINISH, DONE];
    }
    let (begin, rest) = PLAIN.split_at(PLAIN.len() / 2);
    let (rest, last) = rest.split_at(rest.len() - 1);
    [begin, rest, last]
}

/// Returns the body of a whole answer to a request.
pub(super) fn whole_body(request: &[u8]) -> String {
    parts(request).concat()
}

/// Returns whether a request, or its body, asks for a stream.
pub(super) fn is_stream(request: &[u8]) -> bool {
    String::from_utf8_lossy(request).contains("\"stream\":true")
}

// === impl Certificates ===

impl Certificates {
    /// Creates them.
    ///
    /// # Panics
    /// Never.
    pub(super) fn create() -> Self {
        Self {
            good: Certificate::create(),
            expired: Certificate::expired(),
            misplaced: Certificate::for_hosts(["elsewhere.test"]),
        }
    }
}

// === impl Peer ===

impl Peer {
    /// Starts an upstream of this kind on a free port.
    ///
    /// # Panics
    /// If there is no port.
    pub(super) fn start(kind: Kind, certificates: &Certificates, choices: Choices) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let certificate = match kind.server {
            Server::Nothing | Server::Plain(_) => None,
            Server::Untrusted(CertificateFault::Expired) => Some(&certificates.expired),
            Server::Untrusted(CertificateFault::Misplaced) => Some(&certificates.misplaced),
            Server::Tls(_) | Server::Http2(_) | Server::ResetHandshake => Some(&certificates.good),
        };
        let scheme = if certificate.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://localhost:{port}/v1");
        let trusted = certificate.map(|certificate| certificate.pem.clone()).unwrap_or_default();
        let (received, mut tasks) = (Arc::default(), JoinSet::new());
        if let Server::Nothing = kind.server {
            // It is bound and does not listen.
            return Self { url, trusted, received, _port: Some(socket), _tasks: tasks };
        }
        let protocol = if let Server::Http2(_) = kind.server { "h2" } else { "http/1.1" };
        let acceptor = certificate.map(|it| it.acceptor(protocol));
        let server = (kind.server, acceptor, choices);
        tasks.spawn(accept(socket.listen(1_024).unwrap(), server, Arc::clone(&received)));
        Self { url, trusted, received, _port: None, _tasks: tasks }
    }

    /// Returns the number of requests that it has read whole.
    pub(super) fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the entry of the catalogue with these deadlines.
    pub(super) fn entry(&self, kind: Kind, deadlines: v1::Deadlines) -> v1::Upstream {
        v1::Upstream {
            name: kind.name.to_owned(),
            url: self.url.clone(),
            ca_certificates: self.trusted.clone(),
            deadlines: Some(deadlines),
            ..Default::default()
        }
    }
}

async fn accept(
    listener: TcpListener,
    (server, acceptor, choices): (Server, Option<TlsAcceptor>, Choices),
    received: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, received) = (acceptor.clone(), received.clone());
        connections.spawn(async move {
            // An error ends the connection, as intended.
            _ = serve(stream, server, acceptor, choices, &received).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(
    stream: TcpStream,
    server: Server,
    acceptor: Option<TlsAcceptor>,
    choices: Choices,
    received: &AtomicUsize,
) -> std::io::Result<()> {
    let stalls = matches!(server, Server::Tls(http1::Behavior::Stall(Accept)));
    let Some(acceptor) = acceptor.filter(|_| !stalls) else {
        if let Server::Plain(behavior) | Server::Tls(behavior) = server {
            http1::serve(stream, behavior, choices, received).await;
        }
        return Ok(());
    };
    if let Server::ResetHandshake = server {
        // Closing a socket with unread bytes resets the connection.
        return stream.readable().await;
    }
    let stream = acceptor.accept(stream).await?;
    match server {
        Server::Http2(behavior) => http2::serve(stream, behavior, choices, received).await,
        Server::Tls(behavior) => {
            http1::serve(stream, behavior, choices, received).await;
            Ok(())
        }
        // The client has accepted the certificate, although it must not.
        Server::Untrusted(_) => {
            http1::serve(stream, http1::Behavior::Crumbs, choices, received).await;
            Ok(())
        }
        Server::Nothing | Server::Plain(_) | Server::ResetHandshake => Ok(()),
    }
}
