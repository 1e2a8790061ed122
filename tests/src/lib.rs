//! Test harness: a whole gateway on real sockets and a real database, with test clients and
//! upstreams.
//!
//! Contains no assertions about a particular feature. Start with [`Product`], a gateway in this
//! process. [`Session`] calls its admin plane, [`http`] sends requests to its API, [`RawUpstream`]
//! is an upstream that the test scripts byte by byte, [`Transport`] chooses how all of them are
//! connected, [`process`] runs the real binaries, and [`Terminal`] runs one in a pseudo-terminal. [`drill`] runs the real binaries under load.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod clock;
mod clock_shift;
pub mod collector;
pub mod drill;
mod fleet;
pub mod http;
pub mod http2;
mod postgres;
mod postgres_server;
pub mod process;
mod product;
mod session;
mod terminal;
mod tls;
mod transport;
mod upstream;

use std::time::Duration;

pub use clock::ManualClock;
pub use clock_shift::ClockShift;
pub use fleet::{GatewayFleet, Link, wait_for_model};
pub use postgres::PostgresDatabase;
pub use postgres_server::{PostgresPrograms, PostgresServer, free_ports};
pub use product::{Home, Product, Setup, password_of, priced_model};
pub use session::{NewKey, Session, requests_of};
pub use terminal::Terminal;
pub use tls::{Certificate, ClientAuthority, SecureSimulator};
pub use transport::Transport;
pub use upstream::{
    Call, FEW_TOKENS, RawUpstream, chunk, closed_port, json_answer, raw_answer, stream_head,
};

/// The time limit of every wait for an event. A test that reaches it fails; none passes because of
/// it.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns a chat request body with one user message.
pub fn question(model: &str, text: &str) -> serde_json::Value {
    serde_json::json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
}

/// Waits for `event` for at most `TEST_TIMEOUT`, so that a missing event fails the test instead
/// of blocking it.
///
/// # Panics
/// If `event` does not complete in time. `what` names it in the message.
#[track_caller]
pub fn with_timeout<T>(what: &str, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(TEST_TIMEOUT, event).await;
        waited.unwrap_or_else(|_| panic!("{caller}: timed out waiting for {what}"))
    }
}
