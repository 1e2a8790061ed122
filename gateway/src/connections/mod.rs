//! Connections of clients, on both ports: accepting them, how many there may be, and when they are closed.
//!
//! Knows sockets and time, no protocol. [`Acceptor`] accepts, under the caps of [`ConnectionSlots`] and with
//! the descriptors that [`descriptors`] leaves; [`ClientIo`] is a connection that closes itself when its
//! client does nothing. What runs the protocol reports requests to the connection's [`Activity`].

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

/// How long a client may take from its connection to its first request, its TLS handshake included.
pub const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an HTTP/2 connection may be without any request; twice that at most, since it is looked after
/// once in this time.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
