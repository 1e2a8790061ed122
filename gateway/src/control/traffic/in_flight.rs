//! Counts of requests in flight, derived from the open requests of the journal.
//!
//! Requests maintain no counters for this.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ledger::Ledger;
use crate::ledger::journal::JournaledRequest;
use domain::id::{AccountId, UpstreamName};

/// The maximum age of cached counts: the journal is scanned once in this time for all watchers.
const MAX_AGE: Duration = Duration::from_millis(200);

/// The numbers of requests in flight.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Over all accounts.
    pub total: u64,
    /// By account.
    pub accounts: HashMap<AccountId, u64>,
    /// By the upstream of their latest attempt.
    pub upstreams: HashMap<UpstreamName, u64>,
}

/// The last counts with their monotonic time.
#[derive(Default)]
pub(in crate::control) struct InFlightCache(Mutex<Option<(Duration, Arc<InFlight>)>>);

impl InFlightCache {
    /// Returns the cached counts; counts again if they are older than `MAX_AGE`.
    pub(in crate::control) fn get(&self, ledger: &Ledger, now: Duration) -> Arc<InFlight> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, counts)) = &*last
            && now.saturating_sub(*at) < MAX_AGE
        {
            return counts.clone();
        }
        let counts = Arc::new(InFlight::of(ledger));
        *last = Some((now, counts.clone()));
        counts
    }
}

impl InFlight {
    fn of(ledger: &Ledger) -> Self {
        // Only copied under the journal's lock, which requests wait for; counted afterwards.
        let open = ledger.in_flight_requests(|JournaledRequest { record, .. }| {
            let upstream = record.deployment.as_ref().map(|deployment| deployment.upstream.clone());
            (record.account, upstream)
        });
        let mut counts = Self { total: open.len() as u64, ..Self::default() };
        for (account, upstream) in open {
            *counts.accounts.entry(account).or_default() += 1;
            if let Some(upstream) = upstream {
                *counts.upstreams.entry(upstream).or_default() += 1;
            }
        }
        counts
    }
}
