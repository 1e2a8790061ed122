//! Connections of clients on both ports: how they are accepted, limited and closed.
//!
//! This module knows sockets and time, but no protocol. [`Acceptor`] accepts under the limits of
//! [`ConnectionSlots`] and of [`descriptors`]. [`ClientIo`] is a connection that closes itself when its
//! client does nothing. The protocol layer reports requests to the connection's [`Activity`].

mod acceptor;
mod activity;
mod client_io;
pub mod descriptors;
mod slots;
mod stall;

pub use acceptor::{Accepted, Acceptor, Listen};
pub use activity::{Activity, ActivityGuard};
pub use client_io::{ClientIo, IdlePolicy, Timeouts};
pub use slots::{ConnectionGuard, ConnectionLimits, ConnectionSlots};
pub use stall::StallTimer;

use std::time::Duration;

/// How long a client may take from its connection to its first request, TLS handshake included.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an HTTP/2 connection may be without requests. It may take twice as long, because it is checked
/// once per interval.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
