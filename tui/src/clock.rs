//! The only place that asks what time it is.

use jiff::Timestamp;

/// Returns the time.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
