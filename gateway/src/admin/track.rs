//! Bounds calls in time, and reports them to their connection, which closes itself when it has none for long.
//!
//! A call counts as under way while the gateway works on it: its request has a deadline, and an answer counts
//! only while the client takes it. Calls that go on for as long as a client without a token likes do not count
//! at all. So every connection that a client merely holds is idle, and is closed.

use std::net::SocketAddr;
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
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::accounts::Accounts;
use super::auth;
use crate::connections::{Activity, ActivityGuard, ClientIo};
use crate::control::Control;

/// How long a client may take to send a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How the paths of our own services begin.
const OUR_SERVICES: &str = "/tollgate.admin.v1.";
const REFLECTION: &str = "/grpc.reflection.";
const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Who is at the other end of a connection of the admin plane.
#[derive(Clone)]
pub struct Peer {
    /// `None` on a Unix socket.
    address: Option<SocketAddr>,
    activity: Arc<Activity>,
}

impl<S> Connected for ClientIo<S> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { address: self.address(), activity: self.activity().clone() }
    }
}

/// Bounds and reports the calls of a service.
#[derive(Clone)]
pub(super) struct TrackCalls {
    control: Arc<Control>,
}

/// A service whose calls are bounded and reported.
#[derive(Clone)]
pub(super) struct Tracked<S> {
    service: S,
    control: Arc<Control>,
}

/// What a method needs of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MethodKind {
    /// A method that only signed-in callers may call.
    SignedIn,
    /// A method that needs no token, and answers at once.
    Open,
    /// A method that needs no token, and whose answer ends when the client likes.
    OpenStream,
    /// The same, whose request ends when the client likes, too.
    OpenDuplex,
}

/// A request, which fails when its client takes too long to send it.
struct RequestBody {
    body: Body,
    deadline: Pin<Box<Sleep>>,
}

/// The answer to a call, which is under way while the gateway works on it, and not while the client is to take
/// what there is of it.
pub(super) struct TrackedBody {
    body: Body,
    /// `None` if the call is not reported.
    activity: Option<Arc<Activity>>,
    under_way: Option<ActivityGuard>,
}

// === impl TrackCalls ===

impl TrackCalls {
    /// Calls of members and operators are authenticated by `control`.
    pub(super) const fn new(control: Arc<Control>) -> Self {
        Self { control }
    }
}

impl<S> Layer<S> for TrackCalls {
    type Service = Tracked<S>;

    fn layer(&self, service: S) -> Tracked<S> {
        Tracked { service, control: self.control.clone() }
    }
}

// === impl Tracked ===

impl<S> Service<http::Request<Body>> for Tracked<S>
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
        let known = request.extensions();
        let within_tls = || known.get::<TlsConnectInfo<Peer>>().map(TlsConnectInfo::get_ref);
        let peer = known.get::<Peer>().or_else(within_tls).cloned();
        let address = peer.as_ref().and_then(|peer| peer.address);
        if peer.is_some() {
            // where `tonic::Request::remote_addr` looks for it
            let info = TcpConnectInfo { local_addr: None, remote_addr: address };
            request.extensions_mut().insert(info);
        }
        let kind = MethodKind::of(request.uri().path());
        let mut under_way = peer.as_ref().map(|peer| peer.activity.begin());
        let activity = peer.map(|peer| peer.activity).filter(|_| kind.is_reported());
        if !kind.is_reported() {
            under_way = None;
        }
        if kind != MethodKind::OpenDuplex {
            request = request.map(RequestBody::within_deadline);
        }
        // the service that was polled is the one to be called
        let mut service = self.service.clone();
        std::mem::swap(&mut service, &mut self.service);
        let control = self.control.clone();
        Box::pin(async move {
            if kind == MethodKind::SignedIn {
                // before the body is read: what a stranger sends takes no memory
                let address = address.map(|address| address.ip());
                match auth::caller_of_headers(&control, request.headers(), address).await {
                    Ok(caller) => _ = request.extensions_mut().insert(caller),
                    Err(status) => {
                        let body = TrackedBody { body: Body::empty(), activity, under_way };
                        return Ok(status.into_http::<Body>().map(|_| body));
                    }
                }
            }
            let response = service.call(request).await?;
            Ok(response.map(|body| TrackedBody { body, activity, under_way }))
        })
    }
}

// === impl MethodKind ===

impl MethodKind {
    fn of(path: &str) -> Self {
        let service = path.strip_prefix('/').and_then(|rest| rest.split('/').next());
        match path {
            _ if path.starts_with(REFLECTION) => Self::OpenDuplex,
            HEALTH_WATCH => Self::OpenStream,
            _ if service == Some(AccountServiceServer::<Accounts>::NAME) => Self::Open,
            _ if path.starts_with(OUR_SERVICES) => Self::SignedIn,
            _ => Self::Open,
        }
    }

    /// Whether its calls keep a connection open.
    const fn is_reported(self) -> bool {
        matches!(self, Self::SignedIn | Self::Open)
    }
}

// === impl RequestBody ===

impl RequestBody {
    fn within_deadline(body: Body) -> Body {
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
        // checked first, so that a client which always sends a little has the same deadline
        if self.deadline.as_mut().poll(context).is_ready() {
            let message = "the request did not come in time";
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
        if this.under_way.is_none() {
            this.under_way = this.activity.as_ref().map(Activity::begin);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        // hyper asks for the next frame when the client has taken this one
        this.under_way = None;
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
