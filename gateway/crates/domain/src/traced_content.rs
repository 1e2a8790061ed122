//! The text of prompts and answers for spans, and the bound on how much of it waits for its export.
//!
//! A record with text waits for the recorder, and its spans wait for the collector. The text counts until neither has it
//! any longer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::key::KeyDigest;

/// The text of a request and of its answer, bounded and without secrets: messages as JSON, by the semantic conventions
/// for generative AI.
pub struct TracedContent {
    /// The key that has opted in. It is asked again when the text is exported.
    pub key: KeyDigest,
    /// The messages of the request, if it has any.
    pub input_messages: Option<String>,
    /// The answer, one message for each choice, if there is any.
    pub output_messages: Option<String>,
    /// The part of the budget that the text takes. A copy of the text must keep the permit, too.
    pub permit: Arc<ContentPermit>,
}

/// The bytes of text that may wait.
pub struct ContentBudget {
    free: AtomicUsize,
}

/// A part of a [`ContentBudget`], which is returned on drop.
pub struct ContentPermit {
    budget: Arc<ContentBudget>,
    bytes: usize,
}

// === impl TracedContent ===

impl fmt::Debug for TracedContent {
    /// Shows no text: a record may be written to the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracedContent").field("bytes", &self.permit.bytes).finish_non_exhaustive()
    }
}

impl PartialEq for TracedContent {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, input_messages, output_messages, permit: _ } = self;
        (key, input_messages, output_messages)
            == (&other.key, &other.input_messages, &other.output_messages)
    }
}

impl Eq for TracedContent {}

// === impl ContentBudget ===

impl ContentBudget {
    /// Creates a budget of `bytes`.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(bytes) })
    }

    /// Takes `bytes`; `None` if fewer are free.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Option<ContentPermit> {
        self.take(bytes).then(|| ContentPermit { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: usize) -> bool {
        let left = |free: usize| free.checked_sub(bytes);
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }
}

// === impl ContentPermit ===

impl ContentPermit {
    /// Changes the permit to `bytes`. Returns whether enough were free.
    #[must_use]
    pub fn resize(&mut self, bytes: usize) -> bool {
        let is_taken = self.budget.take(bytes.saturating_sub(self.bytes));
        if is_taken {
            let rest = self.bytes.saturating_sub(bytes);
            self.budget.free.fetch_add(rest, Ordering::Relaxed);
            self.bytes = bytes;
        }
        is_taken
    }
}

impl Drop for ContentPermit {
    fn drop(&mut self) {
        self.budget.free.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_never_exceed_the_budget_and_are_returned() {
        let budget = ContentBudget::new(10);
        let mut first = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        assert!(!first.resize(11) && first.resize(10) && budget.reserve(1).is_none());
        assert!(first.resize(3));
        let second = budget.reserve(7).unwrap();
        assert!(!first.resize(4) && budget.reserve(1).is_none());
        drop(first);
        assert!(budget.reserve(4).is_none());
        drop(second);
        assert!(budget.reserve(10).is_some());
    }
}
