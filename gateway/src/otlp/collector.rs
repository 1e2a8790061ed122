//! Calls a collector over gRPC or HTTP.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::{Buf, BufMut, Bytes};
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prost::Message;
use tonic::Code;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use trust::Trust;

use super::Signal;
use otlp_proto::collector::logs::v1::ExportLogsServiceResponse;
use otlp_proto::collector::metrics::v1::ExportMetricsServiceResponse;
use otlp_proto::collector::trace::v1::ExportTraceServiceResponse;

/// The longest time for an export, as the specification of the exporters has it.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which an HTTP/2 connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// The maximum size of an answer, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// The part of a collector's message that is kept, in characters.
const MAX_MESSAGE_CHARS: usize = 200;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");

/// How a collector is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC.
    Grpc,
    /// Protobuf over HTTP.
    HttpProtobuf,
}

/// A collector. Its connections are kept.
#[derive(Clone, Debug)]
pub struct Collector {
    /// Without a slash at its end.
    address: Uri,
    protocol: Protocol,
    /// Their values are sensitive, and not shown.
    headers: HeaderMap,
    client: Client<HttpsConnector<HttpConnector>, Body>,
}

/// Why an export failed. `Display` is for operators; it has no header of the export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no connection, or it broke.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// The collector did not answer in time.
    #[error("it did not answer within {} s", EXPORT_TIMEOUT.as_secs())]
    TimedOut,
    /// The collector answered with an error over HTTP.
    #[error("it answered HTTP {status}")]
    Http {
        /// The status.
        status: u16,
        /// The wait that the collector asks for.
        retry_after: Option<Duration>,
    },
    /// The collector answered with an error over gRPC.
    #[error("it answered {code:?}: {message}")]
    Grpc {
        /// The code.
        code: Code,
        /// The beginning of the collector's message.
        message: String,
    },
    /// The answer is none of the protocol.
    #[error("its answer is not OTLP; check `otlp.endpoint` and `otlp.protocol`")]
    Unreadable,
}

/// The part of an export that the collector refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// The number of items; zero if it accepted everything.
    pub(super) count: usize,
    /// The beginning of the collector's reason.
    pub(super) message: String,
}

/// Passes encoded messages through.
struct EncodedCodec;

// === impl Collector ===

impl Collector {
    /// Creates a collector at `address`, which gets `headers` with each export. Its certificate must be from the
    /// authorities in the PEM file, or from those of the host.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn new(
        address: Uri,
        protocol: Protocol,
        mut headers: HeaderMap,
        authorities: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let shown = || authorities.map_or_else(String::new, |file| file.display().to_string());
        let reading = || format!("reading `{}` (`otlp.ca_file`)", shown());
        let pem = authorities.map(std::fs::read).transpose().with_context(reading)?;
        let trust = Trust::of(pem.as_deref()).with_context(reading)?;
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(trust.client_config()).https_or_http();
        let is_grpc = protocol == Protocol::Grpc;
        let connector = if is_grpc {
            connector.enable_http2().wrap_connector(tcp)
        } else {
            connector.enable_http1().wrap_connector(tcp)
        };
        let mut client = Client::builder(TokioExecutor::new());
        client.http2_only(is_grpc).pool_timer(TokioTimer::new());
        // Otherwise an HTTP/2 connection whose peer has vanished would be kept until TCP gives it up.
        client.timer(TokioTimer::new()).http2_keep_alive_interval(KEEP_ALIVE);
        let client = client.build(connector);
        Ok(Self { address, protocol, headers, client })
    }

    /// Returns the address.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Exports nothing, and returns whether the collector accepts that.
    ///
    /// # Errors
    /// It does not.
    pub async fn check(&self, signal: Signal) -> Result<(), ExportError> {
        self.export(signal, Bytes::new()).await.map(|_| ())
    }

    /// Sends an encoded export once. Returns what the collector refused.
    ///
    /// # Errors
    /// The collector cannot be reached, or refused everything.
    pub(super) async fn export(
        &self,
        signal: Signal,
        request: Bytes,
    ) -> Result<Refused, ExportError> {
        let exporting = async {
            match self.protocol {
                Protocol::Grpc => self.call(signal, request).await,
                Protocol::HttpProtobuf => self.post(signal, request).await,
            }
        };
        let answer = tokio::time::timeout(EXPORT_TIMEOUT, exporting).await;
        let answer = answer.map_err(|_| ExportError::TimedOut)??;
        let (count, message) = refused(signal, answer)?.unwrap_or_default();
        let count = usize::try_from(count).unwrap_or_default();
        Ok(Refused { count, message: beginning(&message) })
    }

    async fn call(&self, signal: Signal, request: Bytes) -> Result<Bytes, ExportError> {
        let (client, headers) = (self.client.clone(), self.headers.clone());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            request.headers_mut().extend(headers.clone());
            client.request(request)
        });
        let mut grpc = tonic::client::Grpc::with_origin(service, self.address.clone());
        let unreachable = |error: &dyn std::error::Error| ExportError::Unreachable(cause(error));
        grpc.ready().await.map_err(|error| unreachable(&error))?;
        let method = PathAndQuery::from_static(method(signal));
        let answer = grpc.unary(tonic::Request::new(request), method, EncodedCodec).await;
        answer.map(tonic::Response::into_inner).map_err(|status| {
            match std::error::Error::source(&status) {
                Some(source) => unreachable(source),
                None => {
                    ExportError::Grpc { code: status.code(), message: beginning(status.message()) }
                }
            }
        })
    }

    async fn post(&self, signal: Signal, request: Bytes) -> Result<Bytes, ExportError> {
        let address = self.address.to_string();
        let uri = format!("{}/v1/{}", address.trim_end_matches('/'), signal.as_str());
        let mut post = Request::post(uri)
            .body(Body::new(Full::from(request)))
            .map_err(|error| ExportError::Unreachable(error.to_string()))?;
        post.headers_mut().extend(self.headers.clone());
        post.headers_mut().insert(CONTENT_TYPE, PROTOBUF);
        let answer = self.client.request(post).await;
        let answer = answer.map_err(|error| ExportError::Unreachable(cause(&error)))?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        if !head.status.is_success() {
            let seconds =
                head.headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.parse().ok());
            let retry_after = seconds.map(Duration::from_secs);
            return Err(ExportError::Http { status: head.status.as_u16(), retry_after });
        }
        Ok(body.map_err(|_| ExportError::Unreadable)?.to_bytes())
    }
}

/// Returns the path of a method over gRPC.
const fn method(signal: Signal) -> &'static str {
    match signal {
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    }
}

/// Returns how much the collector has refused by its answer, and why.
fn refused(signal: Signal, answer: Bytes) -> Result<Option<(i64, String)>, ExportError> {
    let refused = match signal {
        Signal::Traces => ExportTraceServiceResponse::decode(answer)
            .map(|it| it.partial_success.map(|part| (part.rejected_spans, part.error_message))),
        Signal::Metrics => ExportMetricsServiceResponse::decode(answer).map(|it| {
            it.partial_success.map(|part| (part.rejected_data_points, part.error_message))
        }),
        Signal::Logs => ExportLogsServiceResponse::decode(answer).map(|it| {
            it.partial_success.map(|part| (part.rejected_log_records, part.error_message))
        }),
    };
    refused.map_err(|_| ExportError::Unreadable)
}

// === impl EncodedCodec ===

impl Codec for EncodedCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for EncodedCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Self::Error> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for EncodedCodec {
    type Item = Bytes;
    type Error = tonic::Status;

    fn decode(&mut self, answer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Self::Error> {
        Ok(Some(answer.copy_to_bytes(answer.remaining())))
    }
}

// === impl ExportError ===

impl ExportError {
    /// Returns whether the same export may succeed later.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut => true,
            Self::Http { status, .. } => matches!(status, 429 | 502 | 503 | 504),
            Self::Grpc { code, .. } => matches!(
                code,
                Code::Cancelled
                    | Code::DeadlineExceeded
                    | Code::ResourceExhausted
                    | Code::Aborted
                    | Code::OutOfRange
                    | Code::Unavailable
                    | Code::DataLoss
            ),
            Self::Unreadable => false,
        }
    }

    /// Returns the wait that the collector asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Http { retry_after, .. } => *retry_after,
            Self::Unreachable(_) | Self::TimedOut | Self::Grpc { .. } | Self::Unreadable => None,
        }
    }
}

/// Returns the text of the innermost cause.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    beginning(&cause.to_string())
}

/// Returns the beginning of a text on one line.
fn beginning(text: &str) -> String {
    let characters = text.chars().map(|it| if it.is_control() { ' ' } else { it });
    characters.take(MAX_MESSAGE_CHARS).collect()
}
