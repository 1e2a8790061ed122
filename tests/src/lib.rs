//! The harness: a whole gateway on real sockets and a real database, with clients and upstreams that
//! tests hold in their hands.
//!
//! Nothing here knows what is tested. Start with [`Product`], which is a gateway in this process;
//! [`Session`] is somebody signed in on its admin plane, [`http`] speaks to its API, [`RawUpstream`]
//! is an upstream whose every byte the test sends, [`process`] runs the real binaries, and [`Terminal`] is
//! one that somebody sits at. [`drill`] puts all of it under load.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails a test")]

mod clock;
pub mod drill;
pub mod http;
pub mod process;
mod product;
mod session;
mod terminal;
mod upstream;

use std::time::Duration;

pub use clock::ManualClock;
pub use product::{Home, Product, Setup, priced_model};
pub use session::{NewKey, Session, requests_of};
pub use terminal::Terminal;
pub use upstream::{Call, RawUpstream, chunk, closed_port, json_answer, raw_answer, stream_head};

/// After so long a test that waits for an event has failed; it never passes because time passed.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A chat request of one user message.
pub fn question(model: &str, text: &str) -> serde_json::Value {
    serde_json::json!({ "model": model, "messages": [{ "role": "user", "content": text }] })
}

/// Waits for `event`, and fails the test instead of hanging when it does not come.
///
/// # Panics
/// It did not come.
#[track_caller]
pub fn soon<T>(what: &str, event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(PATIENCE, event).await;
        waited.unwrap_or_else(|_| panic!("{caller}: {what} did not come"))
    }
}
