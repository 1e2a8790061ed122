//! A bound on the requests that are sent twice because an upstream is slow.
//!
//! An upstream is often slow because it has too much to do, and so may be the others. If every slow request were sent
//! twice, the load would double when there is least room for it. So each request earns a fraction of a second one, up
//! to a burst, as in the retry budgets of other proxies.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of requests that earn one that is sent twice.
const REQUESTS_PER_HEDGE: u32 = 10;
/// The number of requests that may be sent twice in a burst.
const BURST: u32 = 10;

/// The budget of one upstream, which all workers share. A new one is full, so that hedging also works with few requests.
pub struct HedgeBudget {
    /// In requests that are sent once.
    earned: AtomicU32,
}

impl Default for HedgeBudget {
    fn default() -> Self {
        Self { earned: AtomicU32::new(BURST * REQUESTS_PER_HEDGE) }
    }
}

impl HedgeBudget {
    /// Counts a request that is sent once.
    pub fn earn(&self) {
        let earn = |earned| (earned < BURST * REQUESTS_PER_HEDGE).then_some(earned + 1);
        _ = self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn);
    }

    /// Takes the permission to send a request twice; `false` if there is none.
    pub fn take(&self) -> bool {
        let take = |earned: u32| earned.checked_sub(REQUESTS_PER_HEDGE);
        self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Returns a permission that was taken and not used.
    pub fn give_back(&self) {
        let add = |earned: u32| Some((earned + REQUESTS_PER_HEDGE).min(BURST * REQUESTS_PER_HEDGE));
        _ = self.earned.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_the_requests_is_sent_twice_after_a_burst() {
        let budget = HedgeBudget::default();
        let taken = |requests: u32| {
            let mut taken = 0;
            for _ in 0..requests {
                budget.earn();
                taken += u32::from(budget.take());
            }
            taken
        };
        // The first request finds the budget full.
        assert_eq!(taken(1_001), BURST + 1_000 / REQUESTS_PER_HEDGE);
        (0..1_000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.take()).count(), BURST as usize);
        budget.give_back();
        assert!(budget.take() && !budget.take());
    }
}
