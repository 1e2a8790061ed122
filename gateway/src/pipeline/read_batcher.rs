//! When to wait a turn for more, having something in hand.

/// Decides when to let the upstream's task have one more turn before what there is is handed out.
///
/// What its connection has read already comes one event for each turn of that task. In a burst, a turn
/// more brings them to the client in one write; in a stream that is paced by a model it brings nothing,
/// and costs a tenth of the event. So it is offered ever more rarely while it brings nothing.
#[derive(Default)]
pub(super) struct ReadBatcher {
    /// Whether the turn was given since the last read.
    offered: bool,
    /// How many times to go without.
    skips: u8,
    /// How many times to go without after the next turn that brings nothing.
    next_skips: u8,
}

impl ReadBatcher {
    const MAX_SKIPS: u8 = 16;

    /// Whether to wait one turn, having something in hand.
    pub(super) fn should_yield(&mut self) -> bool {
        if self.offered {
            // it brought nothing
            self.offered = false;
            self.next_skips = (self.next_skips * 2).clamp(1, Self::MAX_SKIPS);
            self.skips = self.next_skips;
            return false;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        self.offered = true;
        true
    }

    /// Something was read.
    pub(super) fn read(&mut self) {
        if self.offered {
            self.offered = false;
            self.next_skips = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_gathered_and_a_paced_stream_is_left_alone() {
        let mut read_batcher = ReadBatcher::default();
        for _ in 0..10 {
            assert!(read_batcher.should_yield());
            read_batcher.read();
        }
        let mut offered = 0;
        for _ in 0..1_000 {
            // one event, and nothing behind it
            if read_batcher.should_yield() {
                offered += 1;
                assert!(!read_batcher.should_yield());
            }
            read_batcher.read();
        }
        assert!((50..80).contains(&offered), "{offered}");
    }
}
