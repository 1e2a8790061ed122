//! Requests under way, counted from the journal's open ones: requests themselves count nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::ledger::Ledger;
use domain::id::{AccountId, UpstreamName};

/// However many ask, the journal is looked through once in this time.
const FRESH: Duration = Duration::from_millis(200);

/// How many requests are under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// In all.
    pub total: u64,
    /// By account.
    pub accounts: HashMap<AccountId, u64>,
    /// By the upstream that they went to last.
    pub upstreams: HashMap<UpstreamName, u64>,
}

/// The last count, and when it was made.
#[derive(Default)]
pub(in crate::control) struct LastCount(Mutex<Option<(Duration, Arc<UnderWay>)>>);

impl LastCount {
    /// Counts what is under way, unless that was just done.
    pub(in crate::control) fn get(&self, ledger: &Ledger, now: Duration) -> Arc<UnderWay> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, counted)) = &*last
            && now.saturating_sub(*at) < FRESH
        {
            return counted.clone();
        }
        let counted = Arc::new(UnderWay::of(ledger));
        *last = Some((now, counted.clone()));
        counted
    }
}

impl UnderWay {
    fn of(ledger: &Ledger) -> Self {
        // only copied while requests wait, and counted after
        let open = ledger.under_way(|record| {
            let upstream = record.deployment.as_ref().map(|deployment| deployment.upstream.clone());
            (record.account, upstream)
        });
        let mut counted = Self { total: open.len() as u64, ..Self::default() };
        for (account, upstream) in open {
            *counted.accounts.entry(account).or_default() += 1;
            if let Some(upstream) = upstream {
                *counted.upstreams.entry(upstream).or_default() += 1;
            }
        }
        counted
    }
}
