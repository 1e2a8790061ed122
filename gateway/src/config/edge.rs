//! The configuration of the public edge: the `[edge]` table, flags and environment variables.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::MAX_WAIT_SECONDS;
use super::settings::merge;
use crate::connections::{RequestTimeouts, TrustedProxies};
use crate::http::{BodyLimits, BodyPace, HttpLimits};

/// The smallest accepted `max_head_bytes`: hyper needs a read buffer of this size.
const MIN_HEAD_BYTES: u32 = 8 * 1024;
/// The largest accepted `max_head_bytes`. Each connection may take this much memory.
const MAX_HEAD_BYTES: u32 = 256 * 1024;
/// The largest accepted `max_headers`: what an HTTP header map can hold.
const MAX_HEADERS: u32 = 16 * 1024;

/// The settings of one source. `None` means that the source does not contain the setting.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct EdgeSettings {
    /// Time from a connection to the head of its first request, TLS handshake included, in seconds [default: 20]
    #[arg(
        id = "edge_first_request_seconds",
        long = "edge-first-request-seconds",
        value_name = "SECONDS",
        env = "TOLLGATE_EDGE_FIRST_REQUEST_SECONDS"
    )]
    pub first_request_seconds: Option<NonZeroU64>,
    /// Time from the end of a request of HTTP/1 to the head of the next one, in seconds [default: 30]
    #[arg(
        id = "edge_next_request_seconds",
        long = "edge-next-request-seconds",
        value_name = "SECONDS",
        env = "TOLLGATE_EDGE_NEXT_REQUEST_SECONDS"
    )]
    pub next_request_seconds: Option<NonZeroU64>,
    /// Time after which a connection of HTTP/2 without requests is closed, in seconds; it may take twice as long
    /// [default: 300]
    #[arg(
        id = "edge_idle_seconds",
        long = "edge-idle-seconds",
        value_name = "SECONDS",
        env = "TOLLGATE_EDGE_IDLE_SECONDS"
    )]
    pub idle_seconds: Option<NonZeroU64>,
    /// Time in which a request body must arrive, in seconds [default: 120]
    #[arg(
        id = "edge_body_seconds",
        long = "edge-body-seconds",
        value_name = "SECONDS",
        env = "TOLLGATE_EDGE_BODY_SECONDS"
    )]
    pub body_seconds: Option<NonZeroU64>,
    /// Minimum rate of a request body, in bytes per second, averaged from ten seconds after its head [default: 1024]
    #[arg(
        id = "edge_body_bytes_per_second",
        long = "edge-body-bytes-per-second",
        value_name = "BYTES",
        env = "TOLLGATE_EDGE_BODY_BYTES_PER_SECOND"
    )]
    pub body_bytes_per_second: Option<NonZeroU64>,
    /// Maximum size of the head of a request, in bytes [default: 65536]
    #[arg(
        id = "edge_max_head_bytes",
        long = "edge-max-head-bytes",
        value_name = "BYTES",
        env = "TOLLGATE_EDGE_MAX_HEAD_BYTES"
    )]
    pub max_head_bytes: Option<u32>,
    /// Maximum number of header fields in a request of HTTP/1 [default: 100]
    #[arg(
        id = "edge_max_headers",
        long = "edge-max-headers",
        value_name = "N",
        env = "TOLLGATE_EDGE_MAX_HEADERS"
    )]
    pub max_headers: Option<NonZeroU32>,
    /// Maximum number of concurrent requests on a connection of HTTP/2 [default: 1000]
    #[arg(
        id = "edge_max_streams",
        long = "edge-max-streams",
        value_name = "N",
        env = "TOLLGATE_EDGE_MAX_STREAMS"
    )]
    pub max_streams: Option<NonZeroU32>,
    /// Maximum number of requests on a connection of HTTP/2 that its client resets before they are served; one more
    /// closes the connection [default: 20]
    #[arg(
        id = "edge_max_resets",
        long = "edge-max-resets",
        value_name = "N",
        env = "TOLLGATE_EDGE_MAX_RESETS"
    )]
    pub max_resets: Option<NonZeroU32>,
    /// Maximum nesting depth of the arrays and objects of a request body [default: 1024]
    #[arg(
        id = "edge_max_json_depth",
        long = "edge-max-json-depth",
        value_name = "N",
        env = "TOLLGATE_EDGE_MAX_JSON_DEPTH"
    )]
    pub max_json_depth: Option<NonZeroU32>,
    /// Addresses of proxies in front of the gateway, such as `10.1.2.3` or `10.0.0.0/8`; repeatable. Their clients'
    /// addresses are taken from the PROXY protocol, or on the admin plane from `X-Forwarded-For` [default: none]
    #[arg(
        id = "edge_trusted_proxies",
        long = "edge-trusted-proxies",
        value_name = "NETWORK",
        env = "TOLLGATE_EDGE_TRUSTED_PROXIES",
        value_delimiter = ','
    )]
    pub trusted_proxies: Option<Vec<String>>,
    /// Whether each connection from a trusted proxy begins with a header of the PROXY protocol, version 1 or 2
    /// [default: false]
    #[arg(
        id = "edge_proxy_protocol",
        long = "edge-proxy-protocol",
        env = "TOLLGATE_EDGE_PROXY_PROTOCOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub proxy_protocol: Option<bool>,
}

/// The validated configuration of the public edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeConfig {
    /// How long clients may take between requests.
    pub timeouts: RequestTimeouts,
    /// How slow request bodies may be.
    pub body_pace: BodyPace,
    /// The deepest nesting of the JSON of a request body.
    pub max_json_depth: usize,
    /// The limits of the protocols.
    pub limits: HttpLimits,
    /// The proxies in front of the gateway.
    pub proxies: TrustedProxies,
}

impl EdgeSettings {
    /// Returns these settings, with missing ones taken from `lower`.
    #[must_use]
    pub fn or(self, lower: Self) -> Self {
        merge! { self or lower:
            first_request_seconds, next_request_seconds, idle_seconds, body_seconds,
            body_bytes_per_second, max_head_bytes, max_headers, max_streams, max_resets,
            max_json_depth, trusted_proxies, proxy_protocol,
        }
    }

    /// Validates the settings and adds the defaults.
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn resolve(self) -> Result<EdgeConfig> {
        let (timeouts, pace) = (RequestTimeouts::default(), BodyPace::default());
        let limits = HttpLimits::default();
        let duration = |name: &str, seconds: Option<NonZeroU64>, default: Duration| {
            let Some(seconds) = seconds else { return Ok(default) };
            ensure!(
                seconds.get() <= MAX_WAIT_SECONDS,
                "`edge.{name}` is {seconds}; the maximum is {MAX_WAIT_SECONDS}, which is a day"
            );
            Ok(Duration::from_secs(seconds.get()))
        };
        let max_head_bytes = self.max_head_bytes.unwrap_or(limits.max_head_bytes);
        ensure!(
            (MIN_HEAD_BYTES..=MAX_HEAD_BYTES).contains(&max_head_bytes),
            "`edge.max_head_bytes` is {max_head_bytes}; set {MIN_HEAD_BYTES} to {MAX_HEAD_BYTES}"
        );
        let max_headers = self.max_headers.map_or(limits.max_headers, NonZeroU32::get);
        ensure!(
            max_headers <= MAX_HEADERS,
            "`edge.max_headers` is {max_headers}; the maximum is {MAX_HEADERS}"
        );
        let max_json_depth = match self.max_json_depth {
            Some(depth) => usize::try_from(depth.get())?,
            None => BodyLimits::DEFAULT_MAX_JSON_DEPTH,
        };
        let networks = self.trusted_proxies.unwrap_or_default();
        let networks = networks.iter().filter(|network| !network.is_empty());
        let proxies = TrustedProxies {
            networks: networks
                .map(|network| network.parse().context("`edge.trusted_proxies`"))
                .collect::<Result<_>>()?,
            send_header: self.proxy_protocol.unwrap_or_default(),
        };
        ensure!(
            !proxies.send_header || !proxies.networks.is_empty(),
            "`edge.proxy_protocol` is set without `edge.trusted_proxies`; list the addresses of the proxies, because \
             other clients could invent the header"
        );
        Ok(EdgeConfig {
            proxies,
            timeouts: RequestTimeouts {
                first: duration(
                    "first_request_seconds",
                    self.first_request_seconds,
                    timeouts.first,
                )?,
                next: duration("next_request_seconds", self.next_request_seconds, timeouts.next)?,
                idle: duration("idle_seconds", self.idle_seconds, timeouts.idle)?,
                hang_up: timeouts.hang_up,
            },
            body_pace: BodyPace {
                timeout: duration("body_seconds", self.body_seconds, pace.timeout)?,
                bytes_per_second: self.body_bytes_per_second.unwrap_or(pace.bytes_per_second),
            },
            max_json_depth,
            limits: HttpLimits {
                max_head_bytes,
                max_headers,
                max_streams: self.max_streams.map_or(limits.max_streams, NonZeroU32::get),
                max_resets: self.max_resets.map_or(limits.max_resets, NonZeroU32::get),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Result<EdgeConfig> {
        toml::from_str::<EdgeSettings>(text)?.resolve()
    }

    #[test]
    fn settings_replace_single_defaults() {
        let config = resolve("idle_seconds = 7\nmax_streams = 9").unwrap();
        let default = RequestTimeouts::default();
        let timeouts = RequestTimeouts { idle: Duration::from_secs(7), ..default };
        assert_eq!((config.timeouts, config.limits.max_streams), (timeouts, 9));
        assert_eq!(config.body_pace, BodyPace::default());
    }

    #[test]
    fn settings_out_of_range_are_refused_by_name() {
        for (text, name) in [
            ("first_request_seconds = 86401", "`edge.first_request_seconds`"),
            ("body_seconds = 0", "nonzero"),
            ("max_head_bytes = 8191", "`edge.max_head_bytes`"),
            ("max_head_bytes = 262145", "`edge.max_head_bytes`"),
            ("max_headers = 16385", "`edge.max_headers`"),
            ("max_resets = 0", "nonzero"),
            ("trusted_proxies = [\"proxy.example\"]", "`edge.trusted_proxies`: `proxy.example`"),
            ("proxy_protocol = true", "`edge.trusted_proxies`"),
        ] {
            let error = format!("{:#}", resolve(text).unwrap_err());
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
