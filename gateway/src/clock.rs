//! Time and randomness: the two seams that tests replace.
//!
//! Nothing else may ask the machine for the time, for random bytes or for a new id.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use rand::Rng;
use uuid::Uuid;

/// The time, for people and for measuring.
pub trait Clock: Send + Sync {
    /// Returns the time of day.
    fn now(&self) -> Timestamp;
    /// Returns the time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// Random bytes, and the ids made of them.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random ones, fit for secrets.
    fn fill(&self, bytes: &mut [u8]);

    /// Makes a UUIDv7 for `now`.
    fn uuid(&self, now: Timestamp) -> Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}

/// The machine's own clocks.
pub struct SystemClock {
    start: Instant,
}

/// The thread's generator, seeded by the operating system.
pub struct SystemEntropy;

// === impl SystemClock ===

impl SystemClock {
    /// Starts the monotonic clock at zero.
    #[expect(clippy::new_without_default, reason = "a clock has no neutral value")]
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

// === impl SystemEntropy ===

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sha2::{Digest, Sha256};

    use super::Entropy;

    /// Entropy that yields the same bytes in every run: hashes of a counter.
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
