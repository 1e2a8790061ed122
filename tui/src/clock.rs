//! The wall clock. No other file reads the time, so tests can supply it.

use jiff::Timestamp;

/// Returns the current wall clock time.
#[expect(clippy::disallowed_methods, reason = "this is where the time comes from")]
pub fn now() -> Timestamp {
    Timestamp::now()
}
