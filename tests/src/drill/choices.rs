//! Random choices that a seed determines, so that a round can be repeated.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Choices without state: the same seed and subject give the same choice, in whatever order tasks choose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choices(u64);

impl Choices {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `limit` for `subject`; zero if `limit` is zero.
    pub(super) fn below(self, limit: usize, subject: impl Hash) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.0, subject).hash(&mut hasher);
        let limit = u64::try_from(limit).unwrap_or_default();
        let chosen = hasher.finish().checked_rem(limit).unwrap_or_default();
        usize::try_from(chosen).unwrap_or_default()
    }

    /// Returns one of `all` for `subject`.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn one_of<T: Copy>(self, all: &[T], subject: impl Hash) -> T {
        all[self.below(all.len(), subject)]
    }
}
