//! The memory that a stream holds of its answer, counted against the budget of long answers.

use bytes::Bytes;

use super::open_request::OpenRequest;
use super::plain_answer::UNCOUNTED_BYTES;
use crate::memory_budget::MemoryGuard;
use domain::refusal::Refusal;

/// How much memory an event takes, as a multiple of its length: it is collected, then copied to the output, and its text
/// is kept until it is counted.
pub(super) const EVENT_COPIES: usize = 3;

/// The memory of one stream. Up to 256 KiB, which most streams do not exceed, it is not counted.
#[derive(Default)]
pub struct StreamMemory(Option<MemoryGuard>);

impl StreamMemory {
    /// Counts `bytes` for the stream of `request`. What was counted once is not released before the end, because buffers
    /// keep their capacity. Does not wait: a stream that waits would keep what others wait for.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn grow_to(&mut self, bytes: usize, request: &OpenRequest) -> Result<(), Refusal> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(());
        }
        let guard = self.0.get_or_insert_with(|| request.memory_guard());
        // In steps, so that few events touch the counters that all streams share.
        let is_counted = guard.try_grow_to(bytes.next_multiple_of(UNCOUNTED_BYTES));
        if is_counted { Ok(()) } else { Err(Refusal::BodyMemoryExhausted) }
    }

    /// Returns the last bytes of the stream, which hold its memory until they are dropped.
    pub fn attach(self, last: Bytes) -> Bytes {
        match self.0 {
            Some(guard) => guard.attach(last),
            None => last,
        }
    }
}
