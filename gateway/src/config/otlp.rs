//! The settings of the export over OTLP: the `[otlp]` table, flags and environment variables, and the variables that
//! OpenTelemetry defines for all programs.

use std::env::VarError;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::MAX_WAIT_SECONDS;
use super::settings::merge;
use crate::otlp::{Collector, Protocol, Signal};
use crate::pipeline::propagation::TraceSampler;

const DEFAULT_METRICS_SECONDS: u64 = 60;

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpSettings {
    /// Address of an OpenTelemetry collector that gets spans, metrics and log records, such as
    /// `http://127.0.0.1:4318` [default: none, or `OTEL_EXPORTER_OTLP_ENDPOINT`]
    #[arg(
        id = "otlp_endpoint",
        long = "otlp-endpoint",
        value_name = "URL",
        env = "TOLLGATE_OTLP_ENDPOINT"
    )]
    pub endpoint: Option<String>,
    /// Protocol of the collector [default: http/protobuf, or `OTEL_EXPORTER_OTLP_PROTOCOL`]
    #[arg(
        id = "otlp_protocol",
        long = "otlp-protocol",
        value_name = "PROTOCOL",
        env = "TOLLGATE_OTLP_PROTOCOL"
    )]
    pub protocol: Option<ProtocolSetting>,
    /// Headers for the collector, such as its token: `NAME=VALUE,…`, with percent-encoded values [default: none, or
    /// `OTEL_EXPORTER_OTLP_HEADERS`]
    #[arg(
        id = "otlp_headers",
        long = "otlp-headers",
        value_name = "HEADERS",
        env = "TOLLGATE_OTLP_HEADERS",
        hide_env_values = true,
        value_parser = super::store::secret_parser()
    )]
    #[serde(deserialize_with = "super::store::deserialize_secret", skip_serializing)]
    pub headers: Option<SecretString>,
    /// File with headers for the collector, a line `NAME=VALUE` for each
    #[arg(
        id = "otlp_headers_file",
        long = "otlp-headers-file",
        value_name = "FILE",
        env = "TOLLGATE_OTLP_HEADERS_FILE"
    )]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub headers_file: Option<PathBuf>,
    /// Authority that the collector's certificate is from, as a PEM file [default: those of the host and the public
    /// ones, or `OTEL_EXPORTER_OTLP_CERTIFICATE`]
    #[arg(
        id = "otlp_ca_file",
        long = "otlp-ca-file",
        value_name = "FILE",
        env = "TOLLGATE_OTLP_CA_FILE"
    )]
    #[serde(serialize_with = "super::source::serialize_path")]
    pub ca_file: Option<PathBuf>,
    /// What the collector gets; repeatable [default: traces, metrics and logs, without those whose variable, such as
    /// `OTEL_LOGS_EXPORTER`, is `none`]
    #[arg(
        id = "otlp_signals",
        long = "otlp-signals",
        value_name = "SIGNAL",
        env = "TOLLGATE_OTLP_SIGNALS",
        value_delimiter = ','
    )]
    pub signals: Option<Vec<SignalSetting>>,
    /// Part of the requests without a `traceparent` that are traced, from 0 to 1; for the others, their client decides
    /// [default: 1, or `OTEL_TRACES_SAMPLER_ARG`]
    #[arg(
        id = "otlp_trace_ratio",
        long = "otlp-trace-ratio",
        value_name = "RATIO",
        env = "TOLLGATE_OTLP_TRACE_RATIO"
    )]
    pub trace_ratio: Option<f64>,
    /// Time between two exports of the metrics, in seconds [default: 60, or `OTEL_METRIC_EXPORT_INTERVAL`]
    #[arg(
        id = "otlp_metrics_seconds",
        long = "otlp-metrics-seconds",
        value_name = "SECONDS",
        env = "TOLLGATE_OTLP_METRICS_SECONDS"
    )]
    pub metrics_seconds: Option<u64>,
}

/// The protocol, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
pub enum ProtocolSetting {
    /// gRPC, usually at port 4317
    #[serde(rename = "grpc")]
    #[value(name = "grpc")]
    Grpc,
    /// Protobuf over HTTP, usually at port 4318
    #[serde(rename = "http/protobuf")]
    #[value(name = "http/protobuf")]
    HttpProtobuf,
}

/// A signal, as written in a setting.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SignalSetting {
    /// A span for each request that is sampled, with its attempts
    Traces,
    /// What `/metrics` has
    Metrics,
    /// The events of the log, and its access lines
    Logs,
}

/// The validated configuration of the export.
#[derive(Clone, Debug)]
pub struct OtlpConfig {
    /// The collector.
    pub collector: Collector,
    /// What is exported; not empty.
    pub signals: Vec<Signal>,
    /// Decides which requests are traced; `None` if spans are not exported.
    pub trace_sampler: Option<TraceSampler>,
    /// The time between two exports of the metrics.
    pub metrics_interval: Duration,
    /// The attributes of the resource from `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`.
    pub resource: Vec<(String, String)>,
}

impl OtlpSettings {
    /// Returns these settings, with missing ones taken from `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        merge! { self or lower:
            endpoint, protocol, headers, headers_file, ca_file, signals, trace_ratio,
            metrics_seconds,
        }
    }

    /// Validates the settings; `None` if nothing is exported.
    ///
    /// # Errors
    /// A setting or a variable of OpenTelemetry is invalid or out of range, or a file cannot be read. Headers are not
    /// shown.
    pub(super) fn resolve(self) -> Result<Option<OtlpConfig>> {
        self.resolve_with(variable)
    }

    fn resolve_with(
        self,
        variable: impl Fn(&str) -> Result<Option<String>>,
    ) -> Result<Option<OtlpConfig>> {
        if let Some(ratio) = self.trace_ratio {
            ensure!((0.0..=1.0).contains(&ratio), "`otlp.trace_ratio` is not between 0 and 1");
        }
        if let Some(seconds) = self.metrics_seconds {
            ensure!(
                (1..=MAX_WAIT_SECONDS).contains(&seconds),
                "`otlp.metrics_seconds` is not between 1 and {MAX_WAIT_SECONDS}"
            );
        }
        if variable("OTEL_SDK_DISABLED")?.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let endpoint = match self.endpoint.clone() {
            Some(endpoint) => Some(endpoint),
            None => variable("OTEL_EXPORTER_OTLP_ENDPOINT")?,
        };
        let Some(endpoint) = endpoint.filter(|endpoint| !endpoint.is_empty()) else {
            return Ok(None);
        };
        let signals = self.signals(&variable)?;
        if signals.is_empty() {
            return Ok(None);
        }
        let ratio = match self.trace_ratio {
            Some(ratio) => ratio,
            None => ratio_of_variables(&variable)?,
        };
        let traces = signals.contains(&Signal::Traces);
        let mut resource = match variable("OTEL_RESOURCE_ATTRIBUTES")? {
            Some(pairs) => pairs_of(&pairs).context("`OTEL_RESOURCE_ATTRIBUTES` is not usable")?,
            None => Vec::new(),
        };
        resource.extend(variable("OTEL_SERVICE_NAME")?.map(|it| ("service.name".to_owned(), it)));
        let metrics_interval = match self.metrics_seconds {
            Some(seconds) => Duration::from_secs(seconds),
            None => interval_of_variable(&variable)?,
        };
        let collector = self.collector(&endpoint, &variable)?;
        let trace_sampler = traces.then(|| TraceSampler::new(ratio));
        Ok(Some(OtlpConfig { collector, signals, trace_sampler, metrics_interval, resource }))
    }

    fn signals(&self, variable: &impl Fn(&str) -> Result<Option<String>>) -> Result<Vec<Signal>> {
        let mut signals = Vec::new();
        for (signal, setting, name) in [
            (Signal::Traces, SignalSetting::Traces, "OTEL_TRACES_EXPORTER"),
            (Signal::Metrics, SignalSetting::Metrics, "OTEL_METRICS_EXPORTER"),
            (Signal::Logs, SignalSetting::Logs, "OTEL_LOGS_EXPORTER"),
        ] {
            let is_wanted = match &self.signals {
                Some(signals) => signals.contains(&setting),
                None => variable(name)?.is_none_or(|exporter| exporter != "none"),
            };
            signals.extend(is_wanted.then_some(signal));
        }
        Ok(signals)
    }

    fn collector(
        self,
        endpoint: &str,
        variable: &impl Fn(&str) -> Result<Option<String>>,
    ) -> Result<Collector> {
        let address = endpoint.trim_end_matches('/').parse::<Uri>().ok();
        let address = address.filter(|address| {
            matches!(address.scheme_str(), Some("http" | "https"))
                && address.host().is_some()
                && address.query().is_none()
                && address.authority().is_some_and(|it| !it.as_str().contains('@'))
        });
        let Some(address) = address else {
            bail!(
                "`otlp.endpoint` must be a URL like `http://127.0.0.1:4318`, without a user and a query; tokens are \
                 headers (`otlp.headers_file`)"
            );
        };
        let protocol = match self.protocol {
            Some(ProtocolSetting::Grpc) => Protocol::Grpc,
            Some(ProtocolSetting::HttpProtobuf) => Protocol::HttpProtobuf,
            None => match variable("OTEL_EXPORTER_OTLP_PROTOCOL")?.as_deref() {
                Some("grpc") => Protocol::Grpc,
                Some("http/protobuf" | "") | None => Protocol::HttpProtobuf,
                Some(_) => bail!(
                    "`OTEL_EXPORTER_OTLP_PROTOCOL` is neither `grpc` nor `http/protobuf`; set `otlp.protocol`"
                ),
            },
        };
        let is_set = |file: &Option<PathBuf>| file.clone().filter(|it| !it.as_os_str().is_empty());
        let secret = self.headers.filter(|text| !text.expose_secret().is_empty());
        let headers = match (secret, is_set(&self.headers_file)) {
            (Some(_), Some(_)) => bail!("set `otlp.headers` or `otlp.headers_file`, not both"),
            (Some(text), None) => {
                let pairs = pairs_of(text.expose_secret());
                pairs.and_then(headers_of).context("`otlp.headers` is not usable")?
            }
            (None, Some(file)) => headers_in(&file)
                .with_context(|| format!("`{}` (`otlp.headers_file`)", file.display()))?,
            (None, None) => match variable("OTEL_EXPORTER_OTLP_HEADERS")? {
                Some(text) => pairs_of(&text)
                    .and_then(headers_of)
                    .context("`OTEL_EXPORTER_OTLP_HEADERS` is not usable")?,
                None => HeaderMap::new(),
            },
        };
        let authorities = match is_set(&self.ca_file) {
            Some(file) => Some(file),
            None => variable("OTEL_EXPORTER_OTLP_CERTIFICATE")?
                .filter(|file| !file.is_empty())
                .map(PathBuf::from),
        };
        Collector::new(address, protocol, headers, authorities.as_deref())
    }
}

/// Returns the ratio that the variables of the sampler stand for.
fn ratio_of_variables(variable: &impl Fn(&str) -> Result<Option<String>>) -> Result<f64> {
    match variable("OTEL_TRACES_SAMPLER")?.as_deref() {
        Some("always_off" | "parentbased_always_off") => Ok(0.0),
        Some("traceidratio" | "parentbased_traceidratio") => {
            let ratio = variable("OTEL_TRACES_SAMPLER_ARG")?.map_or(Ok(1.0), |text| text.parse());
            let ratio = ratio.ok().filter(|ratio| (0.0..=1.0).contains(ratio));
            ratio.context("`OTEL_TRACES_SAMPLER_ARG` is not a number between 0 and 1")
        }
        _ => Ok(1.0),
    }
}

fn interval_of_variable(variable: &impl Fn(&str) -> Result<Option<String>>) -> Result<Duration> {
    let Some(text) = variable("OTEL_METRIC_EXPORT_INTERVAL")?.filter(|text| !text.is_empty())
    else {
        return Ok(Duration::from_secs(DEFAULT_METRICS_SECONDS));
    };
    let millis = text.parse().ok().filter(|millis| (1..=MAX_WAIT_SECONDS * 1_000).contains(millis));
    let millis = millis.context("`OTEL_METRIC_EXPORT_INTERVAL` is no number of milliseconds")?;
    Ok(Duration::from_millis(millis))
}

/// Reads `NAME=VALUE,…` with percent-encoded values.
fn pairs_of(text: &str) -> Result<Vec<(String, String)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').context("a part of it is not `NAME=VALUE`")?;
            let value = percent_decode_str(value.trim()).decode_utf8();
            Ok((name.trim().to_owned(), value.context("a value is not UTF-8")?.into_owned()))
        })
        .collect()
}

/// Reads a file with a line `NAME=VALUE` for each header. The value is everything after the first `=`.
fn headers_in(file: &Path) -> Result<HeaderMap> {
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(file).context("reading it")?);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let pairs = lines.map(|line| {
        let (name, value) = line.split_once('=').context("a line of it is not `NAME=VALUE`")?;
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    });
    headers_of(pairs.collect::<Result<_>>()?)
}

fn headers_of(pairs: Vec<(String, String)>) -> Result<HeaderMap> {
    let header = |(name, value): (String, String)| {
        // Names of gRPC metadata are in lower case.
        let name = HeaderName::try_from(name.to_ascii_lowercase()).context("a name is invalid")?;
        let mut value = HeaderValue::try_from(value)
            .ok()
            .with_context(|| format!("the value of `{name}` has characters that no header has"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    pairs.into_iter().map(header).collect()
}

#[expect(clippy::disallowed_methods, reason = "this module is part of the configuration")]
fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => bail!("`{name}` is not valid UTF-8"),
    }
}

#[cfg(test)]
mod tests;
