//! The limits of the protocols at the public edge.

use std::num::NonZeroU64;
use std::time::Duration;

/// The limits on what a connection may make the gateway hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpLimits {
    /// The longest head, and the most that is read ahead of a body of HTTP/1, in bytes.
    pub max_head_bytes: u32,
    /// The largest number of header fields of HTTP/1; the size of the head limits those of HTTP/2.
    pub max_headers: u32,
    /// The largest number of concurrent streams of an HTTP/2 connection.
    pub max_streams: u32,
    /// The largest number of streams of an HTTP/2 connection that were reset before they were accepted
    /// (CVE-2023-44487).
    pub max_resets: u32,
}

/// The limits on a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// The longest body, in bytes.
    pub max_bytes: usize,
    /// The deepest nesting of the arrays and objects of its JSON.
    pub max_json_depth: usize,
}

impl BodyLimits {
    /// The depth at which simdjson stops, too; other parsers allow from 128 to 10,000 levels.
    pub const DEFAULT_MAX_JSON_DEPTH: usize = 1_024;
}

/// How slow a request body may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPace {
    /// How long a client may take to send a body.
    pub timeout: Duration,
    /// The minimum rate of a body, averaged from its head on.
    pub bytes_per_second: NonZeroU64,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_head_bytes: 64 * 1024,
            max_headers: Self::DEFAULT_MAX_HEADERS,
            max_streams: 1_000,
            max_resets: 20,
        }
    }
}

impl HttpLimits {
    /// The number of header fields for which hyper has room without an allocation per request.
    pub(super) const DEFAULT_MAX_HEADERS: u32 = 100;
}

impl Default for BodyPace {
    fn default() -> Self {
        let bytes_per_second = NonZeroU64::new(1024).expect("it is not zero");
        Self { timeout: Duration::from_mins(2), bytes_per_second }
    }
}
