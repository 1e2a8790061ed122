//! The results of an upstream's health checks, as far as they decide whether it gets requests.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use domain::health::CheckState;

/// The number of failed health checks in a row after which other upstreams are tried first.
pub(super) const MAX_FAILED_CHECKS: u32 = 2;

/// The results so far. Checks of one upstream are sent one after another, so there is one writer.
#[derive(Default)]
pub(super) struct CheckResults {
    has_result: AtomicBool,
    consecutive_failures: AtomicU32,
}

impl CheckResults {
    /// Records the result of a check. Returns the state if it changes.
    pub(super) fn record(&self, has_passed: bool) -> Option<CheckState> {
        let before = self.state();
        self.has_result.store(true, Ordering::Relaxed);
        if has_passed {
            self.consecutive_failures.store(0, Ordering::Relaxed);
        } else {
            let failures = self.consecutive_failures.load(Ordering::Relaxed);
            self.consecutive_failures.store(failures.saturating_add(1), Ordering::Relaxed);
        }
        self.state().filter(|state| before != Some(*state))
    }

    /// Returns the state; `None` before the first result.
    pub(super) fn state(&self) -> Option<CheckState> {
        if !self.has_result.load(Ordering::Relaxed) {
            return None;
        }
        let failures = self.consecutive_failures.load(Ordering::Relaxed);
        Some(if failures < MAX_FAILED_CHECKS { CheckState::Passing } else { CheckState::Failing })
    }

    /// Returns whether the last check failed, but not the one before it.
    pub(super) fn has_just_failed(&self) -> bool {
        self.consecutive_failures.load(Ordering::Relaxed) == 1
    }

    /// Forgets all results.
    pub(super) fn clear(&self) {
        self.has_result.store(false, Ordering::Relaxed);
        self.consecutive_failures.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_in_a_row_are_a_failing_state_until_a_check_passes() {
        let results = CheckResults::default();
        assert_eq!(results.state(), None);
        let changes = [false, true, false, false, false, true].map(|has_passed| {
            let change = results.record(has_passed);
            (change, results.has_just_failed())
        });
        let (passing, failing) = (Some(CheckState::Passing), Some(CheckState::Failing));
        assert_eq!(
            changes,
            [
                (passing, true),
                (None, false),
                (None, true),
                (failing, false),
                (None, false),
                (passing, false)
            ]
        );
        results.clear();
        assert_eq!(results.state(), None);
    }
}
