//! An OpenTelemetry collector in this process, over gRPC and over HTTP.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use gateway::config::{OtlpConfig, OtlpSettings, Settings};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use otlp_proto::collector::logs::v1::logs_service_server::{LogsService, LogsServiceServer};
use otlp_proto::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use otlp_proto::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use otlp_proto::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use otlp_proto::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use otlp_proto::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use otlp_proto::common::v1::any_value::Value;
use otlp_proto::common::v1::{AnyValue, KeyValue};
use otlp_proto::logs::v1::LogRecord;
use otlp_proto::metrics::v1::Metric;
use otlp_proto::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Status;
use tonic::transport::Server;

use crate::with_timeout;

/// What a collector does with exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// It accepts them.
    Accept,
    /// It accepts them, and keeps only their number.
    Discard,
    /// It refuses them, and says that a later attempt may succeed.
    Refuse,
    /// It never answers.
    Hang,
}

/// What a collector has accepted, or only got if it does not accept.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The number of exports, accepted or not.
    pub exports: usize,
    /// All spans.
    pub spans: Vec<Span>,
    /// The metrics of the last export.
    pub metrics: Vec<Metric>,
    /// All log records.
    pub log_records: Vec<LogRecord>,
    /// The headers of the last export.
    pub headers: HeaderMap,
    /// The attributes of the resource of the last export.
    pub resource: Vec<KeyValue>,
}

/// A listening collector.
pub struct Collector {
    /// The address over gRPC.
    pub grpc: String,
    /// The address over HTTP.
    pub http: String,
    inbox: Inbox,
    _servers: JoinSet<()>,
}

#[derive(Clone)]
struct Inbox {
    behaviour: Arc<Mutex<Behaviour>>,
    received: watch::Sender<Received>,
}

// === impl Collector ===

impl Collector {
    /// Listens on free ports.
    ///
    /// # Panics
    /// If there are none.
    pub async fn start(behaviour: Behaviour) -> Self {
        let behaviour = Arc::new(Mutex::new(behaviour));
        let inbox = Inbox { behaviour, received: watch::Sender::default() };
        let mut servers = JoinSet::new();
        let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (grpc, http) = (bind().await, bind().await);
        let [grpc_url, http_url] =
            [&grpc, &http].map(|it| format!("http://{}", it.local_addr().unwrap()));
        let server = Server::builder()
            .add_service(TraceServiceServer::new(inbox.clone()))
            .add_service(MetricsServiceServer::new(inbox.clone()))
            .add_service(LogsServiceServer::new(inbox.clone()));
        servers.spawn(async move {
            server.serve_with_incoming(TcpListenerStream::new(grpc)).await.unwrap();
        });
        let accepted = inbox.clone();
        servers.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = http.accept().await {
                let inbox = accepted.clone();
                let service = service_fn(move |request| {
                    let inbox = inbox.clone();
                    async move { Ok::<_, Infallible>(inbox.post(request).await) }
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                // A gateway that stops closes its connections in the middle of a request.
                connections.spawn(async move { _ = serving.await });
            }
        });
        Self { grpc: grpc_url, http: http_url, inbox, _servers: servers }
    }

    /// Changes what it does with exports from now on.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        *self.inbox.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour;
    }

    /// Returns the configuration of a gateway that exports to it over HTTP.
    ///
    /// # Panics
    /// If the settings are invalid.
    pub fn config(&self, settings: OtlpSettings) -> Option<OtlpConfig> {
        let endpoint = settings.endpoint.clone().or_else(|| Some(self.http.clone()));
        let otlp = OtlpSettings { endpoint, ..settings };
        Settings { data_dir: Some("data".into()), otlp, ..Settings::default() }
            .resolve()
            .unwrap()
            .otlp
    }

    /// Waits until it has received enough, and returns everything.
    ///
    /// # Panics
    /// If that does not happen in time.
    pub async fn wait_for(&self, what: &str, is_enough: impl Fn(&Received) -> bool) -> Received {
        let mut received = self.inbox.received.subscribe();
        let waiting = with_timeout(what, received.wait_for(is_enough));
        waiting.await.unwrap().clone()
    }

    /// Waits for this number of spans of requests, and returns all spans.
    ///
    /// # Panics
    /// If there are more, or not enough in time.
    pub async fn requests(&self, count: usize) -> Vec<Span> {
        let of_requests =
            |received: &Received| received.spans.iter().filter(|span| span.kind == 2).count();
        let received = self.wait_for("the spans", |it| of_requests(it) >= count).await;
        assert_eq!(of_requests(&received), count, "{:#?}", received.spans);
        received.spans
    }
}

// === impl Inbox ===

impl Inbox {
    async fn take(
        &self,
        headers: HeaderMap,
        add: impl FnOnce(&mut Received),
    ) -> Result<(), Status> {
        let behaviour = *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner);
        self.received.send_modify(|received| {
            received.exports += 1;
            received.headers = headers;
            if behaviour == Behaviour::Accept {
                add(received);
            }
        });
        match behaviour {
            Behaviour::Accept | Behaviour::Discard => Ok(()),
            Behaviour::Refuse => Err(Status::unavailable("not now")),
            Behaviour::Hang => std::future::pending().await,
        }
    }

    async fn post(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let mut response = Response::new(Full::default());
        // The gateway may stop in the middle of its request.
        let Ok(body) = body.collect().await else { return response };
        let (body, headers) = (body.to_bytes(), head.headers);
        assert_eq!(headers["content-type"], "application/x-protobuf");
        let taken = match head.uri.path() {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(body).unwrap();
                self.take(headers, |received| received.add_spans(request)).await
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(body).unwrap();
                self.take(headers, |received| received.set_metrics(request)).await
            }
            "/v1/logs" => {
                let request = ExportLogsServiceRequest::decode(body).unwrap();
                self.take(headers, |received| received.add_log_records(request)).await
            }
            _ => {
                *response.status_mut() = StatusCode::NOT_FOUND;
                return response;
            }
        };
        if taken.is_err() {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        response
    }
}

#[tonic::async_trait]
impl TraceService for Inbox {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.take(metadata.into_headers(), |received| received.add_spans(request)).await?;
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Inbox {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.take(metadata.into_headers(), |received| received.set_metrics(request)).await?;
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl LogsService for Inbox {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.take(metadata.into_headers(), |received| received.add_log_records(request)).await?;
        Ok(tonic::Response::new(ExportLogsServiceResponse::default()))
    }
}

// === impl Received ===

impl Received {
    fn add_spans(&mut self, request: ExportTraceServiceRequest) {
        for of_resource in request.resource_spans {
            self.resource = of_resource.resource.unwrap_or_default().attributes;
            self.spans.extend(of_resource.scope_spans.into_iter().flat_map(|it| it.spans));
        }
    }

    fn set_metrics(&mut self, request: ExportMetricsServiceRequest) {
        let all = request.resource_metrics.into_iter().flat_map(|it| it.scope_metrics);
        self.metrics = all.flat_map(|it| it.metrics).collect();
    }

    fn add_log_records(&mut self, request: ExportLogsServiceRequest) {
        let all = request.resource_logs.into_iter().flat_map(|it| it.scope_logs);
        self.log_records.extend(all.flat_map(|it| it.log_records));
    }
}

/// Returns the value of an attribute as text; empty if there is none.
pub fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()) {
        Some(AnyValue { value: Some(Value::StringValue(value)) }) => value.clone(),
        Some(AnyValue { value: Some(Value::IntValue(value)) }) => value.to_string(),
        Some(AnyValue { value: Some(Value::DoubleValue(value)) }) => value.to_string(),
        Some(AnyValue { value: Some(Value::BoolValue(value)) }) => value.to_string(),
        _ => String::new(),
    }
}
