//! Serves the admin services, gRPC health and gRPC reflection on one listener.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt, future, stream};
use proto::v1::account_service_server::AccountServiceServer;
use proto::v1::audit_service_server::AuditServiceServer;
use proto::v1::catalogue_service_server::CatalogueServiceServer;
use proto::v1::diagnostics_service_server::DiagnosticsServiceServer;
use proto::v1::key_service_server::KeyServiceServer;
use proto::v1::ledger_service_server::LedgerServiceServer;
use proto::v1::maintenance_service_server::MaintenanceServiceServer;
use proto::v1::model_service_server::ModelServiceServer;
use proto::v1::node_service_server::NodeServiceServer;
use proto::v1::people_service_server::PeopleServiceServer;
use proto::v1::plan_service_server::PlanServiceServer;
use proto::v1::traffic_service_server::TrafficServiceServer;
use proto::v1::upstream_service_server::UpstreamServiceServer;
use proto::v1::usage_service_server::UsageServiceServer;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::accounts::Accounts;
use super::audit::Audit;
use super::catalogue::Catalogue;
use super::diagnostics::Diagnostics;
use super::keys::Keys;
use super::ledger::Ledger;
use super::maintenance::Maintenance;
use super::models::Models;
use super::nodes::Nodes;
use super::people::People;
use super::plans::Plans;
use super::track::TrackCalls;
use super::traffic::Traffic;
use super::upstreams::Upstreams;
use super::usage::Usage;
use crate::connections::descriptors::MAX_ADMIN_CONNECTIONS;
use crate::connections::{
    Acceptor, ClientIo, ConnectionLimits, ConnectionSlots, IdlePolicy, Listen, RequestTimeouts,
    Timeouts, TrustedProxies,
};
use crate::control::Control;
use crate::listeners::AdminListener;
use crate::tls::ServerTls;

/// The maximum size of a request message. A model with all its texts takes some kilobytes.
const MAX_REQUEST_BYTES: usize = 256 * 1024;
/// The maximum size of a request message to services with methods that need no token.
const MAX_UNAUTHENTICATED_REQUEST_BYTES: usize = 64 * 1024;
/// The maximum size of a request message with changes of the catalogue.
const MAX_CATALOGUE_BYTES: usize = 4 * 1024 * 1024;
const MAX_STREAMS: u32 = 32;
/// The maximum number of connections from one non-local address.
const MAX_CONNECTIONS_PER_ADDRESS: usize = 64;
/// The interval of HTTP/2 keep-alive pings on idle connections.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that open calls have after the shutdown signal. Calls of the admin services end on that signal, but
/// only the client ends a reflection stream.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

const SERVICES: [&str; 15] = [
    "",
    AccountServiceServer::<Accounts>::NAME,
    KeyServiceServer::<Keys>::NAME,
    NodeServiceServer::<Nodes>::NAME,
    PeopleServiceServer::<People>::NAME,
    PlanServiceServer::<Plans>::NAME,
    ModelServiceServer::<Models>::NAME,
    UpstreamServiceServer::<Upstreams>::NAME,
    UsageServiceServer::<Usage>::NAME,
    AuditServiceServer::<Audit>::NAME,
    LedgerServiceServer::<Ledger>::NAME,
    MaintenanceServiceServer::<Maintenance>::NAME,
    TrafficServiceServer::<Traffic>::NAME,
    DiagnosticsServiceServer::<Diagnostics>::NAME,
    CatalogueServiceServer::<Catalogue>::NAME,
];

/// Why the admin plane stopped or did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The descriptor set is invalid.
    #[error("building the reflection service of the admin plane")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The listener failed.
    #[error("the admin listener failed")]
    Transport(#[from] tonic::transport::Error),
}

/// The settings of the admin server.
pub struct Settings {
    /// The TLS of a TCP port; `None` for plaintext.
    pub tls: Option<Arc<ServerTls>>,
    /// The time without progress after which a write to a client fails; `None` for no limit.
    pub client_idle: Option<Duration>,
    /// How long requests may be awaited.
    pub timeouts: RequestTimeouts,
    /// The proxies in front of the listener.
    pub proxies: Arc<TrustedProxies>,
}

/// Serves the admin plane until `shutdown`, then waits at most five seconds for open calls. Uses TLS on a TCP port
/// if a certificate is set.
///
/// # Errors
/// The listener fails.
pub async fn serve(
    control: Arc<Control>,
    listener: AdminListener,
    settings: Settings,
    shutdown: CancellationToken,
) -> Result<(), ServeError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in SERVICES {
        health.set_service_status(service, ServingStatus::Serving).await;
    }
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::DESCRIPTOR)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    macro_rules! limited {
        ($server:ident, $service:expr) => {
            $server::new($service).max_decoding_message_size(MAX_REQUEST_BYTES)
        };
    }
    let router = Server::builder()
        .layer(TrackCalls::new(control.clone(), settings.proxies.clone()))
        .max_concurrent_streams(MAX_STREAMS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(
            AccountServiceServer::new(Accounts { control: control.clone() })
                .max_decoding_message_size(MAX_UNAUTHENTICATED_REQUEST_BYTES),
        )
        .add_service(limited!(KeyServiceServer, Keys { control: control.clone() }))
        .add_service(limited!(NodeServiceServer, Nodes { control: control.clone() }))
        .add_service(limited!(PeopleServiceServer, People { control: control.clone() }))
        .add_service(limited!(PlanServiceServer, Plans { control: control.clone() }))
        .add_service(limited!(ModelServiceServer, Models { control: control.clone() }))
        .add_service(limited!(UpstreamServiceServer, Upstreams { control: control.clone() }))
        .add_service(
            CatalogueServiceServer::new(Catalogue { control: control.clone() })
                .max_decoding_message_size(MAX_CATALOGUE_BYTES),
        )
        .add_service(limited!(AuditServiceServer, Audit { control: control.clone() }))
        .add_service(limited!(LedgerServiceServer, Ledger { control: control.clone() }))
        .add_service(limited!(MaintenanceServiceServer, Maintenance { control: control.clone() }))
        .add_service(limited!(
            DiagnosticsServiceServer,
            Diagnostics { control: control.clone(), shutdown: shutdown.clone() }
        ))
        .add_service(limited!(
            TrafficServiceServer,
            Traffic { control: control.clone(), shutdown: shutdown.clone() }
        ))
        .add_service(limited!(UsageServiceServer, Usage { control, shutdown: shutdown.clone() }))
        .add_service(health_service.max_decoding_message_size(MAX_UNAUTHENTICATED_REQUEST_BYTES))
        .add_service(
            reflection().build_v1()?.max_decoding_message_size(MAX_UNAUTHENTICATED_REQUEST_BYTES),
        )
        .add_service(
            reflection()
                .build_v1alpha()?
                .max_decoding_message_size(MAX_UNAUTHENTICATED_REQUEST_BYTES),
        );

    let closing = async {
        shutdown.cancelled().await;
        end_health_watches(health).await;
    };
    let timeouts = Timeouts {
        write: settings.client_idle,
        request: settings.timeouts,
        idle: IdlePolicy::Close,
    };
    let proxies = settings.proxies;
    let serving = async {
        match listener {
            AdminListener::Tcp(listener) => {
                let incoming =
                    incoming(listener, proxies, timeouts, |stream| stream.set_nodelay(true));
                match settings.tls {
                    None => router.serve_with_incoming_shutdown(incoming, closing).await,
                    Some(tls) => {
                        let incoming = secured(incoming, tls);
                        Box::pin(router.serve_with_incoming_shutdown(incoming, closing)).await
                    }
                }
            }
            AdminListener::Unix(socket) => {
                let incoming = incoming(socket, proxies, timeouts, |_| Ok(()));
                router.serve_with_incoming_shutdown(incoming, closing).await
            }
        }
    };
    let drain_timeout = async {
        shutdown.cancelled().await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::select! {
        served = serving => Ok(served?),
        () = drain_timeout => {
            tracing::info!("closing admin calls that are still open after the drain timeout");
            Ok(())
        }
    }
}

/// Returns a stream of the accepted connections of `listener`, each configured by `set_up`.
fn incoming<L>(
    listener: L,
    proxies: Arc<TrustedProxies>,
    timeouts: Timeouts,
    set_up: impl Fn(&L::Stream) -> io::Result<()> + Send,
) -> impl Stream<Item = io::Result<ClientIo<L::Stream>>> + Send
where
    L: Listen,
    L::Stream: AsyncRead + AsyncWrite + Unpin,
{
    let slots = ConnectionSlots::new(ConnectionLimits {
        total: Some(MAX_ADMIN_CONNECTIONS),
        per_address: Some(MAX_CONNECTIONS_PER_ADDRESS),
    });
    // Operators must be able to connect even if API clients use up all file descriptors.
    let acceptor =
        Acceptor::new(listener, "admin", slots).with_proxies(proxies).with_spare_descriptors();
    stream::unfold((acceptor, set_up), move |(mut acceptor, set_up)| async move {
        let accepted = acceptor.accept().await;
        let connection = set_up(&accepted.stream).map(|()| ClientIo::new(accepted, timeouts));
        Some((connection, (acceptor, set_up)))
    })
}

/// Returns a stream of the connections of `incoming` after their TLS handshakes, which run at the same time. Connections
/// whose handshake fails are dropped.
fn secured<S>(
    incoming: impl Stream<Item = io::Result<ClientIo<S>>> + Send,
    tls: Arc<ServerTls>,
) -> impl Stream<Item = io::Result<TlsStream<ClientIo<S>>>> + Send
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let handshakes = incoming.map(move |connection| {
        let acceptor = tls.admin();
        async move {
            match acceptor.accept(connection?).await {
                Ok(stream) => Ok(Some(stream)),
                Err(error) => {
                    tracing::debug!(%error, "a TLS handshake failed");
                    Ok(None)
                }
            }
        }
    });
    let finished = handshakes.buffer_unordered(MAX_ADMIN_CONNECTIONS);
    finished.filter_map(|outcome| future::ready(outcome.transpose()))
}

/// Reports all services as not serving to health watchers, and ends their streams.
async fn end_health_watches(mut health: HealthReporter) {
    for service in SERVICES {
        health.set_service_status(service, ServingStatus::NotServing).await;
        health.clear_service_status(service).await;
    }
}
