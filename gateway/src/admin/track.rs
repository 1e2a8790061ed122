//! A Tower layer that authenticates calls, limits the time to receive a request, and tracks active calls.
//!
//! Connections without an active call are closed when idle. A call is active while the gateway works on it: the
//! request must arrive within [`REQUEST_TIMEOUT`], and a response is not active while the gateway waits for the
//! client to read it. Unauthenticated streams of unlimited duration never count as active. Invariant: a client
//! cannot keep a connection open without causing work.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use proto::v1::account_service_server::AccountServiceServer;
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::server::{Connected, TlsConnectInfo};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::accounts::Accounts;
use super::auth;
use crate::connections::{Activity, ActivityGuard, ClientAddress, ClientIo, TrustedProxies};
use crate::control::Control;

/// The time in which a client must send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The header in which proxies report where a request came from.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// The path prefix of the admin services.
const ADMIN_SERVICES: &str = "/tollgate.admin.v1.";
const REFLECTION: &str = "/grpc.reflection.";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";

/// The peer of an admin connection.
#[derive(Clone)]
pub struct Peer {
    address: ClientAddress,
    activity: Arc<Activity>,
}

impl<S> Connected for ClientIo<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { address: self.address().clone(), activity: self.activity().clone() }
    }
}

/// The layer for [`TrackedService`].
#[derive(Clone)]
pub(super) struct TrackCalls {
    control: Arc<Control>,
    proxies: Arc<TrustedProxies>,
}

/// A service whose calls are authenticated, limited in time and tracked.
#[derive(Clone)]
pub(super) struct TrackedService<S> {
    service: S,
    control: Arc<Control>,
    proxies: Arc<TrustedProxies>,
}

/// The address of a call's client; `None` on a Unix socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallAddress(pub(super) Option<IpAddr>);

/// How the layer handles a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MethodKind {
    /// A method that needs a token.
    Authenticated,
    /// A method that needs no token, with a response of limited duration.
    Public,
    /// A server-streaming method that needs no token. Only the client ends the response.
    PublicServerStream,
    /// A bidirectional streaming method that needs no token. Only the client ends the request and the response.
    PublicBidiStream,
}

/// A request body that fails after [`REQUEST_TIMEOUT`].
struct RequestBody {
    body: Body,
    deadline: Pin<Box<Sleep>>,
}

/// A response body. Active while the gateway produces a frame, but not while the client reads it.
pub(super) struct TrackedBody {
    body: Body,
    /// `None` if the call does not count as activity.
    activity: Option<Arc<Activity>>,
    active: Option<ActivityGuard>,
}

// === impl TrackCalls ===

impl TrackCalls {
    /// Creates a layer that authenticates calls with `control`.
    pub(super) const fn new(control: Arc<Control>, proxies: Arc<TrustedProxies>) -> Self {
        Self { control, proxies }
    }
}

impl<S> Layer<S> for TrackCalls {
    type Service = TrackedService<S>;

    fn layer(&self, service: S) -> TrackedService<S> {
        let (control, proxies) = (self.control.clone(), self.proxies.clone());
        TrackedService { service, control, proxies }
    }
}

// === impl TrackedService ===

impl<S> Service<http::Request<Body>> for TrackedService<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = http::Response<TrackedBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let extensions = request.extensions();
        let tls_peer = || extensions.get::<TlsConnectInfo<Peer>>().map(TlsConnectInfo::get_ref);
        let peer = extensions.get::<Peer>().or_else(tls_peer).cloned();
        let address = peer.as_ref().and_then(|peer| peer.address.get());
        let address =
            address.map(|peer| client_address(&self.proxies, peer.ip(), request.headers()));
        request.extensions_mut().insert(CallAddress(address));
        let kind = MethodKind::of(request.uri().path());
        let mut active = peer.as_ref().map(|peer| peer.activity.begin());
        let activity = peer.map(|peer| peer.activity).filter(|_| kind.is_tracked());
        if !kind.is_tracked() {
            active = None;
        }
        if kind != MethodKind::PublicBidiStream {
            request = request.map(RequestBody::with_deadline);
        }
        // Only the service that was polled is ready; the clone serves the next call.
        let mut service = self.service.clone();
        std::mem::swap(&mut service, &mut self.service);
        let control = self.control.clone();
        Box::pin(async move {
            if kind == MethodKind::Authenticated {
                // Before the body is read, so that unauthenticated clients cannot use memory.
                match auth::caller_of_headers(&control, request.headers(), address).await {
                    Ok(caller) => _ = request.extensions_mut().insert(caller),
                    Err(status) => {
                        let body = TrackedBody { body: Body::empty(), activity, active };
                        return Ok(status.into_http::<Body>().map(|_| body));
                    }
                }
            }
            let response = service.call(request).await?;
            Ok(response.map(|body| TrackedBody { body, activity, active }))
        })
    }
}

/// Returns the address of a call's client, which a proxy may report in `X-Forwarded-For`.
fn client_address(proxies: &TrustedProxies, peer: IpAddr, headers: &http::HeaderMap) -> IpAddr {
    let values = headers.get_all(FORWARDED_FOR).iter().map(|value| value.to_str().unwrap_or(""));
    let addresses: Vec<_> = values.flat_map(|value| value.split(',')).collect();
    proxies.client(peer, addresses.into_iter())
}

// === impl MethodKind ===

impl MethodKind {
    fn of(path: &str) -> Self {
        let service = path.strip_prefix('/').and_then(|rest| rest.split('/').next());
        match path {
            _ if path.starts_with(REFLECTION) => Self::PublicBidiStream,
            HEALTH_WATCH => Self::PublicServerStream,
            _ if service == Some(AccountServiceServer::<Accounts>::NAME) => Self::Public,
            _ if path.starts_with(ADMIN_SERVICES) => Self::Authenticated,
            _ => Self::Public,
        }
    }

    /// Returns whether calls of the method count as activity, which keeps a connection open.
    const fn is_tracked(self) -> bool {
        matches!(self, Self::Authenticated | Self::Public)
    }
}

// === impl RequestBody ===

impl RequestBody {
    fn with_deadline(body: Body) -> Body {
        Body::new(Self { body, deadline: Box::pin(sleep(REQUEST_TIMEOUT)) })
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // Checked before the body, so that a client cannot avoid the deadline by sending small frames.
        if self.deadline.as_mut().poll(context).is_ready() {
            let message = "the request was not received in time";
            return Poll::Ready(Some(Err(Status::new(Code::DeadlineExceeded, message))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl TrackedBody ===

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.active.is_none() {
            this.active = this.activity.as_ref().map(Activity::begin);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        // hyper polls for the next frame when the client has read this one.
        this.active = None;
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
