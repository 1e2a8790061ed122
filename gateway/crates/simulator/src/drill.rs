//! Faults that happen a number of times: how often each has happened.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Drills that are remembered; with one more, all are forgotten.
const KEPT: usize = 10_000;

/// How often each drill was asked for, by its message's hash.
#[derive(Debug, Default)]
pub(super) struct Drills(Mutex<HashMap<u64, u64>>);

impl Drills {
    /// Counts one more request of `drill`. Returns whether its faults have happened `times` times
    /// before.
    pub(super) fn is_over(&self, drill: u64, times: u64) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= KEPT && !counts.contains_key(&drill) {
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
    fn a_drill_is_over_after_its_times_whatever_others_do() {
        let drills = Drills::default();
        assert!(drills.is_over(1, 0));
        assert_eq!([(); 3].map(|()| drills.is_over(2, 2)), [false, false, true]);
        assert!(!drills.is_over(3, 1));
    }

    #[test]
    fn memory_is_bounded() {
        let drills = Drills::default();
        for drill in 0..=KEPT as u64 {
            assert!(!drills.is_over(drill, 1));
        }
        assert_eq!(drills.0.lock().expect("a lock").len(), 1);
    }
}
