//! The wall clock and the random numbers of `ctl`. No other module reads either.

use jiff::Timestamp;

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "this is the clock of ctl")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// Returns 128 random bits in hexadecimal, from the thread's cryptographic generator.
pub(crate) fn random_word() -> String {
    format!("{:032x}", rand::random::<u128>())
}
