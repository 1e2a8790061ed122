//! When a request came in, and under which id.

use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;

use super::AppState;
use domain::id::RequestId;

/// When a request came in, and under which id.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its id.
    pub id: RequestId,
    /// The time of day.
    pub at: Timestamp,
    /// The same on the monotonic clock.
    pub monotonic: Duration,
}

impl Arrival {
    /// A request that comes in now.
    pub fn now(app: &AppState) -> Self {
        let at = app.clock.now();
        let id = RequestId(app.entropy.uuid(at));
        Self { id, at, monotonic: app.clock.monotonic() }
    }

    /// The id as a header carries it.
    pub fn id_header(&self) -> HeaderValue {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = self.id.0.hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).expect("a UUID is a valid header")
    }
}
