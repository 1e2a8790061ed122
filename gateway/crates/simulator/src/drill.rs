//! Counts the occurrences of faults that are limited by the script key `times`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The maximum number of counters. All are reset when it would be exceeded.
const MAX_COUNTERS: usize = 10_000;

/// The number of requests per drill. A drill is identified by the hash of the last user message.
#[derive(Debug, Default)]
pub(super) struct Drills(Mutex<HashMap<u64, u64>>);

impl Drills {
    /// Counts a request of `drill`. Returns whether its faults have already occurred `times` times.
    pub(super) fn is_over(&self, drill: u64, times: u64) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MAX_COUNTERS && !counts.contains_key(&drill) {
            counts.clear();
        }
        let count = counts.entry(drill).or_default();
        let over = *count >= times;
        *count = count.saturating_add(1);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drills_are_counted_independently() {
        let drills = Drills::default();
        assert!(drills.is_over(1, 0));
        assert_eq!([(); 3].map(|()| drills.is_over(2, 2)), [false, false, true]);
        assert!(!drills.is_over(3, 1));
    }

    #[test]
    fn memory_is_bounded() {
        let drills = Drills::default();
        for drill in 0..=MAX_COUNTERS as u64 {
            assert!(!drills.is_over(drill, 1));
        }
        assert_eq!(drills.0.lock().expect("a lock").len(), 1);
    }
}
