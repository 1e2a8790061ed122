//! The text of prompts and answers for spans, and the bound on how much of it waits for its export.
//!
//! A record with text waits for the recorder, and its spans wait for the collector. The text counts until neither has it
//! any longer. Secrets are removed from it when it is exported: that takes too long for a worker.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use secrecy::SecretString;

use super::key::KeyDigest;
use super::wire::finish::FinishReason;

/// The text of a request and of its answer, bounded, and with the secrets that it may contain.
pub struct TracedContent {
    /// The key that has opted in. It is asked again when the text is exported.
    pub key: KeyDigest,
    /// The messages of the request.
    pub input: Vec<TracedText>,
    /// The choices of the answer.
    pub output: Vec<TracedText>,
    /// What must not be exported, besides what looks like a secret.
    pub secrets: Vec<SecretString>,
    /// The part of the budget that the text takes.
    pub permit: ContentPermit,
}

/// A message, or one choice of an answer.
pub struct TracedText {
    /// Who says it.
    pub role: String,
    /// What is said.
    pub content: String,
    /// Whether more was said.
    pub is_cut: bool,
    /// Why a choice ended.
    pub finish: Option<FinishReason>,
    /// Whether a choice has calls of tools, which are left out.
    pub has_calls: bool,
}

/// The text of a request until it is taken for its export. The copies of a record share it, so that they do not multiply
/// it.
pub struct ContentSlot(Mutex<Option<TracedContent>>);

/// The bytes of text that may wait.
pub struct ContentBudget {
    free: AtomicUsize,
}

/// A part of a [`ContentBudget`], which is returned on drop.
pub struct ContentPermit {
    budget: Arc<ContentBudget>,
    bytes: usize,
}

// === impl ContentSlot ===

impl ContentSlot {
    /// Returns a slot with this text.
    pub const fn new(content: TracedContent) -> Self {
        Self(Mutex::new(Some(content)))
    }

    /// Takes the text; `None` if it was taken.
    pub fn take(&self) -> Option<TracedContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for ContentSlot {
    /// Shows no text: a record may be written to the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContentSlot").finish_non_exhaustive()
    }
}

impl PartialEq for ContentSlot {
    /// Whether both are the same slot.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for ContentSlot {}

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
