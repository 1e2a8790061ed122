//! The memory for copies of a Responses request: the items that it continues, its translations, and the input that is
//! stored. The request's own body counts against another budget, so that no request waits for memory that it holds.

use bytes::Bytes;

use super::AppState;
use super::plain_answer::UNCOUNTED_BYTES;
use crate::memory_budget::MemoryGuard;
use domain::id::AccountId;
use domain::model::Model;
use domain::refusal::Refusal;

/// The copies of a request's text beside one translation for each kind of upstream: what it continues, and the input
/// that is stored.
const OTHER_COPIES: usize = 2;
/// A model has hardly more kinds of upstreams than this.
const MAX_TRANSLATIONS: usize = 3;

/// The memory of the copies of one request. Copies of a text of up to 256 KiB are not counted.
pub(super) struct RequestCopies {
    memory: MemoryGuard,
}

impl RequestCopies {
    /// Returns a counter of copies for a request of `account`. It holds no memory yet.
    pub(super) fn new(app: &AppState, account: AccountId) -> Self {
        Self { memory: app.working_memory.guard(account) }
    }

    /// Takes memory for the copies of a text of `text_bytes`, which is the request and what it continues. Returns
    /// whether there is enough now.
    pub(super) fn try_take(&mut self, text_bytes: usize, model: &Model) -> bool {
        self.memory.try_grow_to(self.needed(text_bytes, model))
    }

    /// The same, but waits for memory that others hold.
    ///
    /// # Errors
    /// No memory became available in time.
    ///
    /// # Cancel safety
    /// If cancelled, no memory was taken.
    pub(super) async fn take(&mut self, text_bytes: usize, model: &Model) -> Result<(), Refusal> {
        let needed = self.needed(text_bytes, model);
        self.memory.grow_to(needed).await.map_err(|_| Refusal::BodyMemoryExhausted)
    }

    /// Returns the memory of the stored input, which outlives the other copies.
    pub(super) fn split_off(&mut self, input_bytes: usize) -> MemoryGuard {
        self.memory.split_off(input_bytes)
    }

    /// Counts a body that is sent to an upstream until its last user drops it. Such a body is not refused, because its
    /// request may have been sent to another upstream before: if there is no memory, it is not counted.
    pub(super) fn count_body(app: &AppState, account: AccountId, body: Bytes) -> Bytes {
        if body.len() <= UNCOUNTED_BYTES {
            return body;
        }
        let mut memory = app.working_memory.guard(account);
        if memory.try_grow_to(body.len()) { memory.attach(body) } else { body }
    }

    /// Returns the memory for all copies, in bytes. A long request counts as a body of the greatest length, so that it
    /// gets memory whenever such a body would.
    fn needed(&self, text_bytes: usize, model: &Model) -> usize {
        if text_bytes <= UNCOUNTED_BYTES {
            return 0;
        }
        let translations = model.deployments.len().min(MAX_TRANSLATIONS);
        text_bytes.saturating_mul(translations + OTHER_COPIES).min(self.memory.max_body_bytes())
    }
}
