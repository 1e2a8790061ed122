//! Decides when to yield once before writing, to batch reads.

/// Decides whether to yield to the upstream connection's task once more before the available bytes are passed
/// on.
///
/// That task yields one event per poll, even if its connection has read several. In a burst, one more poll
/// brings further events into the same write. In a stream at a model's pace it brings nothing, and costs a
/// tenth of the event. So yielding becomes rarer while it brings nothing.
#[derive(Default)]
pub(super) struct ReadBatcher {
    /// Whether this has yielded since the last read.
    has_yielded: bool,
    /// How many more times not to yield.
    skips: u8,
    /// How many times not to yield after the next fruitless yield.
    next_skips: u8,
}

impl ReadBatcher {
    const MAX_SKIPS: u8 = 16;

    /// Returns whether to yield once although bytes are available.
    pub(super) fn should_yield(&mut self) -> bool {
        if self.has_yielded {
            // The yield was fruitless.
            self.has_yielded = false;
            self.next_skips = (self.next_skips * 2).clamp(1, Self::MAX_SKIPS);
            self.skips = self.next_skips;
            return false;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        self.has_yielded = true;
        true
    }

    /// Records that bytes were read.
    pub(super) fn read(&mut self) {
        if self.has_yielded {
            self.has_yielded = false;
            self.next_skips = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_batched_and_a_paced_stream_is_not_delayed() {
        let mut read_batcher = ReadBatcher::default();
        for _ in 0..10 {
            assert!(read_batcher.should_yield());
            read_batcher.read();
        }
        let mut has_yielded = 0;
        for _ in 0..1_000 {
            // One event, and nothing after it.
            if read_batcher.should_yield() {
                has_yielded += 1;
                assert!(!read_batcher.should_yield());
            }
            read_batcher.read();
        }
        assert!((50..80).contains(&has_yielded), "{has_yielded}");
    }
}
