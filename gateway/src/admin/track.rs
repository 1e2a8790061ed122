//! Reports calls to the connection that they come on, which closes itself when it has none for long.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::server::{Connected, TcpConnectInfo, TlsConnectInfo};
use tower::{Layer, Service};

use crate::connections::{Activity, ActivityGuard, ClientIo};

/// Who is at the other end of a connection of the admin plane.
#[derive(Clone)]
pub struct Peer {
    /// `None` on a Unix socket.
    address: Option<SocketAddr>,
    activity: Arc<Activity>,
}

impl Connected for ClientIo<TcpStream> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { address: self.get_ref().peer_addr().ok(), activity: self.activity().clone() }
    }
}

impl Connected for ClientIo<UnixStream> {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { address: None, activity: self.activity().clone() }
    }
}

/// Reports the calls of a service.
#[derive(Clone, Copy)]
pub(super) struct TrackCalls;

/// A service whose calls are reported.
#[derive(Clone)]
pub(super) struct Tracked<S>(S);

/// The answer to a call, which is under way until this is dropped.
pub(super) struct TrackedBody<B> {
    body: B,
    _call: Option<ActivityGuard>,
}

impl<S> Layer<S> for TrackCalls {
    type Service = Tracked<S>;

    fn layer(&self, service: S) -> Tracked<S> {
        Tracked(service)
    }
}

impl<S, A, B> Service<http::Request<A>> for Tracked<S>
where
    S: Service<http::Request<A>, Response = http::Response<B>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<TrackedBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<A>) -> Self::Future {
        let known = request.extensions();
        let within_tls = || known.get::<TlsConnectInfo<Peer>>().map(TlsConnectInfo::get_ref);
        let peer = known.get::<Peer>().or_else(within_tls).cloned();
        let call = peer.map(|peer| {
            // where `tonic::Request::remote_addr` looks for it
            let info = TcpConnectInfo { local_addr: None, remote_addr: peer.address };
            request.extensions_mut().insert(info);
            peer.activity.begin()
        });
        let answering = self.0.call(request);
        Box::pin(async move {
            let response = answering.await?;
            Ok(response.map(|body| TrackedBody { body, _call: call }))
        })
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
