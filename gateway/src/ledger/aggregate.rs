//! Merges the records of requests that cost nothing if one key sends many of them within a second.
//!
//! A request that is refused, or answered without an upstream, costs its client microseconds and neither
//! money nor a limit stops the next one. With a record for each, one key could fill the disk. So the first
//! [`MAX_INDIVIDUAL`] requests of a kind are recorded individually, and the others of that second share one
//! record with their [count](RequestRecord::count). Merged counts are not in the journal until they are
//! taken: a crash loses those of the current second.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

use domain::endpoint::Endpoint;
use domain::id::KeyId;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};

/// The requests of one kind that are recorded individually between two calls of [`Aggregator::take`].
pub(super) const MAX_INDIVIDUAL: u32 = 10;
/// The keys that are tracked between two calls of [`Aggregator::take`].
const MAX_KEYS: usize = 16_384;

/// Counts requests by key and kind.
#[derive(Default)]
pub(super) struct Aggregator {
    keys: Mutex<HashMap<KeyId, Vec<Kind>, RandomState>>,
}

/// The endpoint and result of a key's requests: a few dozen kinds, because upstream error codes are not among
/// them.
struct Kind {
    endpoint: Endpoint,
    status: RequestStatus,
    http_status: Option<u16>,
    error_code: Option<String>,
    /// The requests that were recorded individually.
    individual: u32,
    /// The merged record of the others.
    merged: Option<Box<RequestRecord>>,
}

// === impl Aggregator ===

impl Aggregator {
    /// Returns whether records like this one may be merged: the request never went upstream and cost nothing.
    pub(super) fn applies_to(record: &RequestRecord) -> bool {
        record.deployment.is_none()
            && record.usage.is_none()
            && record.cost.is_none_or(|cost| cost == Nanos::ZERO)
            && record.idempotency.is_none()
    }

    /// Counts a record. Returns it if it must be recorded individually; otherwise [`Aggregator::take`]
    /// returns it as part of a merged record.
    pub(super) fn admit(&self, record: Box<RequestRecord>) -> Option<Box<RequestRecord>> {
        let mut keys = self.lock();
        let kinds = match keys.get_mut(&record.key) {
            Some(kinds) => kinds,
            None => keys.entry(record.key.clone()).or_default(),
        };
        let Some(kind) = kinds.iter_mut().find(|kind| kind.includes(&record)) else {
            kinds.push(Kind::of(&record));
            return Some(record);
        };
        if kind.individual < MAX_INDIVIDUAL {
            kind.individual += 1;
            return Some(record);
        }
        match &mut kind.merged {
            Some(merged) => merge(merged, &record),
            None => kind.merged = Some(record),
        }
        None
    }

    /// Returns whether [`Aggregator::take`] must be called early because too many keys are tracked.
    pub(super) fn is_full(&self) -> bool {
        self.lock().len() >= MAX_KEYS
    }

    /// Takes the merged records since the last call and resets the counters.
    pub(super) fn take(&self) -> impl Iterator<Item = Box<RequestRecord>> + use<> {
        let keys = std::mem::take(&mut *self.lock());
        keys.into_values().flatten().filter_map(|kind| kind.merged)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<KeyId, Vec<Kind>, RandomState>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Kind ===

impl Kind {
    fn of(record: &RequestRecord) -> Self {
        Self {
            endpoint: record.endpoint,
            status: record.status,
            http_status: record.http_status,
            error_code: record.error_code.clone(),
            individual: 1,
            merged: None,
        }
    }

    fn includes(&self, record: &RequestRecord) -> bool {
        self.endpoint == record.endpoint
            && self.status == record.status
            && self.http_status == record.http_status
            && self.error_code == record.error_code
    }
}

/// Adds `record` to `merged`, which keeps the fields that both share and the longer duration.
fn merge(merged: &mut RequestRecord, record: &RequestRecord) {
    merged.count = merged.count.saturating_add(record.count.get());
    merged.stream &= record.stream;
    merged.duration = merged.duration.max(record.duration);
    merged.ttft = merged.ttft.max(record.ttft);
    if merged.model != record.model {
        merged.model = None;
    }
    if merged.price_version != record.price_version {
        merged.price_version = None;
    }
    if merged.notes != record.notes {
        merged.notes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::journal::tests::ended;
    use domain::id::ModelId;

    /// Returns a request of `key` that was refused with `code`.
    fn refused(number: u128, key: &str, code: &str) -> Box<RequestRecord> {
        Box::new(RequestRecord {
            key: KeyId::new(key),
            status: RequestStatus::Rejected,
            error_code: Some(code.to_owned()),
            deployment: None,
            usage: None,
            cost: Some(Nanos::ZERO),
            idempotency: None,
            count: std::num::NonZeroU32::MIN,
            ..ended(number)
        })
    }

    /// Returns the counts of the individual and of the merged records.
    fn counts(
        aggregator: &Aggregator,
        records: impl Iterator<Item = Box<RequestRecord>>,
    ) -> (u32, Vec<u32>) {
        let individual = records.filter_map(|record| aggregator.admit(record)).count();
        let mut merged: Vec<_> = aggregator.take().map(|record| record.count.get()).collect();
        merged.sort_unstable();
        (u32::try_from(individual).unwrap(), merged)
    }

    #[test]
    fn what_exceeds_the_rate_is_one_record_with_the_count() {
        let aggregator = Aggregator::default();
        let some = |count| (0..count).map(|number| refused(number, "k", "invalid_api_key"));
        assert_eq!(counts(&aggregator, some(10)), (10, vec![]));
        assert_eq!(counts(&aggregator, some(11)), (10, vec![1]));
        assert_eq!(counts(&aggregator, some(1_000)), (10, vec![990]));
        assert_eq!(counts(&aggregator, some(0)), (0, vec![]), "it is taken once");
    }

    #[test]
    fn keys_and_error_codes_are_counted_separately() {
        let aggregator = Aggregator::default();
        let records = (0..100).map(|number| {
            let key = if number % 2 == 0 { "a" } else { "b" };
            refused(number, key, if number % 10 == 0 { "x" } else { "y" })
        });
        // 10 and 40 of `a`, 50 of `b`.
        assert_eq!(counts(&aggregator, records), (30, vec![30, 40]));
    }

    #[test]
    fn a_merged_record_says_what_all_agree_on() {
        let aggregator = Aggregator::default();
        for number in 0..u128::from(MAX_INDIVIDUAL) {
            assert!(aggregator.admit(refused(number, "k", "c")).is_some());
        }
        for (number, model) in [(20, "m"), (21, "m"), (22, "n")] {
            let model = Some(ModelId::new(model));
            assert!(
                aggregator
                    .admit(RequestRecord { model, ..*refused(number, "k", "c") }.into())
                    .is_none()
            );
        }
        let merged: Vec<_> = aggregator.take().collect();
        let [merged] = &merged[..] else { panic!("{merged:?}") };
        assert_eq!((merged.id, merged.count.get()), (refused(20, "k", "c").id, 3));
        assert_eq!((&merged.model, merged.error_code.as_deref()), (&None, Some("c")));
    }

    #[test]
    fn what_went_upstream_or_cost_something_is_never_merged() {
        assert!(Aggregator::applies_to(&refused(1, "k", "c")));
        assert!(!Aggregator::applies_to(&ended(1)));
        let costly = RequestRecord { cost: Some(Nanos(1)), ..*refused(1, "k", "c") };
        assert!(!Aggregator::applies_to(&costly));
    }

    #[test]
    fn memory_is_bounded() {
        let aggregator = Aggregator::default();
        for number in 0..MAX_KEYS as u128 {
            assert!(!aggregator.is_full());
            aggregator.admit(refused(number, &number.to_string(), "c"));
        }
        assert!(aggregator.is_full());
        assert_eq!(aggregator.take().count(), 0);
        assert!(!aggregator.is_full());
    }
}
