//! Time and randomness, behind traits that tests replace.
//!
//! No other code may read a system clock, generate random bytes or create random ids.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::Rng;
use uuid::Uuid;

/// The wall clock and the monotonic clock.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;
    /// Returns the time since a fixed moment in the past; never decreases.
    fn monotonic(&self) -> Duration;
}

/// A source of random bytes and ids.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes of cryptographic quality.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns a UUIDv7 with the time `now`.
    fn uuid(&self, now: Timestamp) -> Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// The clocks of the operating system.
pub struct SystemClock {
    start: Instant,
}

/// The thread-local random number generator, seeded by the operating system.
pub struct SystemEntropy;

// === impl SystemClock ===

impl SystemClock {
    /// Creates a clock whose monotonic time starts at zero.
    #[expect(clippy::new_without_default, reason = "a clock has no neutral value")]
    #[expect(clippy::disallowed_methods, reason = "the only use of the system clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only use of the system clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

// === impl SystemEntropy ===

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "the only use of a random number generator")]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sha2::{Digest, Sha256};

    use super::Entropy;

    /// Deterministic entropy: the hashes of a counter.
    #[derive(Default)]
    pub(crate) struct CountingEntropy(AtomicU64);

    impl Entropy for CountingEntropy {
        fn fill(&self, bytes: &mut [u8]) {
            for chunk in bytes.chunks_mut(32) {
                let count = self.0.fetch_add(1, Ordering::Relaxed);
                chunk.copy_from_slice(&Sha256::digest(count.to_be_bytes())[..chunk.len()]);
            }
        }
    }
}
