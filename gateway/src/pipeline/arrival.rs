//! The id and the arrival time of a request.

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;

use super::AppState;
use domain::id::RequestId;

/// The id and the arrival time of a request.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The request id.
    pub id: RequestId,
    /// The wall-clock time.
    pub at: Timestamp,
    /// The monotonic time.
    pub monotonic: Duration,
}

impl Arrival {
    /// Creates the arrival of a request now.
    pub fn now(app: &AppState) -> Self {
        let at = app.clock.now();
        let id = RequestId(app.entropy.uuid(at));
        Self { id, at, monotonic: app.clock.monotonic() }
    }

    /// Returns the id as a header value.
    pub fn id_header(&self) -> HeaderValue {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = self.id.0.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).expect("a UUID is a valid header")
    }
}
