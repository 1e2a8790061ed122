//! Connections of clients on both ports: how they are accepted, limited and closed.
//!
//! This module knows sockets and time, but no protocol. [`Acceptor`] accepts under the limits of
//! [`ConnectionSlots`] and of [`descriptors`], and knows the [`TrustedProxies`]. [`ClientIo`] is a connection that closes itself when its
//! client does nothing. The protocol layer reports requests to the connection's [`Activity`].

mod acceptor;
mod activity;
mod client_io;
pub mod descriptors;
mod hang_up;
mod proxies;
mod proxy_header;
mod slots;

pub use acceptor::{Accepted, Acceptor, Listen};
pub use activity::{Activity, ActivityGuard};
pub use client_io::{ClientIo, IdlePolicy, Timeouts};
pub use proxies::{ClientAddress, ProxyNetwork, TrustedProxies};
pub use slots::{ConnectionGuard, ConnectionLimits, ConnectionSlots};

use std::time::Duration;

/// How long a client may take to send a request, and how soon its end is noticed during one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTimeouts {
    /// From its connection to its first request, TLS handshake included.
    pub first: Duration,
    /// From the end of a request of HTTP/1 to the head of the next one.
    pub next: Duration,
    /// How long an HTTP/2 connection may be without requests. It may take twice as long, because it is checked
    /// once per interval.
    pub idle: Duration,
    /// The interval in which a connection of HTTP/1 is checked during a request for a client that has hung up behind bytes that
    /// it had sent. Not a setting.
    pub hang_up: Duration,
}

impl Default for RequestTimeouts {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(20),
            next: Duration::from_secs(30),
            idle: Duration::from_mins(5),
            hang_up: Duration::from_secs(5),
        }
    }
}
