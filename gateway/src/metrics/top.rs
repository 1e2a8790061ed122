//! Series of the accounts, or of the keys, that send the most requests. The number of series is bounded: the rest shares
//! one.
//!
//! A series begins at zero when its owner gets it, and ends when another one takes its place; so none decreases, and the
//! increases of all series together are what all owners have used.

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::RandomState;

use super::encoder::{Encoder, Number};
use domain::money::Nanos;
use domain::record::RequestRecord;

/// The number of owners whose requests are known. With more, the numbers of all are halved, and those that become zero
/// are forgotten.
const MAX_KNOWN: usize = 50_000;
/// An owner without a series gets that of the one with the fewest requests if it has more by this factor, so that two of
/// about equal weight do not take turns.
const ADVANTAGE: u64 = 2;
/// The label of all owners without a series.
const OTHER: &str = "other";

/// The series of one kind of owners.
#[derive(Clone)]
pub(super) struct TopSeries<K> {
    max: usize,
    requests: HashMap<K, u64, RandomState>,
    series: Vec<(K, Sums)>,
    by_owner: HashMap<K, usize, RandomState>,
    /// A bound below which no owner with a series has requests, so that few requests look for the one with the fewest.
    fewest: u64,
    other: Sums,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    requests: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost: Nanos,
}

/// The names of the metrics of one kind of owners, and their label.
pub(super) struct TopNames {
    pub(super) label: &'static str,
    pub(super) requests: &'static str,
    pub(super) input_tokens: &'static str,
    pub(super) output_tokens: &'static str,
    pub(super) cost: &'static str,
}

// === impl TopSeries ===

impl<K: Clone + Eq + Hash + ToString> TopSeries<K> {
    /// Creates series for at most `max` owners; none if it is zero.
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            requests: HashMap::default(),
            series: Vec::new(),
            by_owner: HashMap::default(),
            fewest: 0,
            other: Sums::default(),
        }
    }

    /// Counts a request of `owner`.
    pub(super) fn observe(&mut self, owner: &K, record: &RequestRecord) {
        if self.max == 0 {
            return;
        }
        let requests = self.count(owner, u64::from(record.count.get()));
        let index = match self.by_owner.get(owner) {
            Some(index) => Some(*index),
            None => self.admit(owner, requests),
        };
        index.map_or(&mut self.other, |index| &mut self.series[index].1).add(record);
    }

    /// Counts the requests of an owner, and returns how many it has sent.
    fn count(&mut self, owner: &K, requests: u64) -> u64 {
        if self.requests.len() >= MAX_KNOWN && !self.requests.contains_key(owner) {
            self.requests.retain(|_, requests| {
                *requests /= 2;
                *requests > 0
            });
            self.fewest /= 2;
        }
        let known = self.requests.entry(owner.clone()).or_default();
        *known = known.saturating_add(requests);
        *known
    }

    /// Gives `owner` a series, if there is one for it.
    fn admit(&mut self, owner: &K, requests: u64) -> Option<usize> {
        let index = self.series.len();
        if index < self.max {
            self.series.push((owner.clone(), Sums::default()));
            self.by_owner.insert(owner.clone(), index);
            return Some(index);
        }
        let is_enough = |fewest: u64| requests > fewest.max(1).saturating_mul(ADVANTAGE);
        if !is_enough(self.fewest) {
            return None;
        }
        let of = |(owner, _): &(K, Sums)| self.requests.get(owner).copied().unwrap_or_default();
        let (index, fewest) = self.series.iter().map(of).enumerate().min_by_key(|(_, it)| *it)?;
        self.fewest = fewest;
        if !is_enough(fewest) {
            return None;
        }
        let (former, _) =
            std::mem::replace(&mut self.series[index], (owner.clone(), Sums::default()));
        self.by_owner.remove(&former);
        self.by_owner.insert(owner.clone(), index);
        Some(index)
    }

    /// Writes the families with these names.
    pub(super) fn encode(&self, encoder: &mut Encoder<'_>, names: &TopNames) {
        if self.max == 0 {
            return;
        }
        let mut rows: Vec<_> =
            self.series.iter().map(|(owner, sums)| (owner.to_string(), *sums)).collect();
        rows.push((OTHER.to_owned(), self.other));
        let mut write = |name, help, value: fn(&Sums) -> Number| {
            let mut family = encoder.counter(name, help);
            for (owner, sums) in &rows {
                family.sample(&[(names.label, owner)], value(sums));
            }
        };
        write(names.requests, "Requests of those that send the most.", |it| it.requests.into());
        write(names.input_tokens, "Their input tokens.", |it| it.input_tokens.into());
        write(names.output_tokens, "Their output tokens.", |it| it.output_tokens.into());
        write(names.cost, "What they were charged.", |it| it.cost.into());
    }
}

// === impl Sums ===

impl Sums {
    fn add(&mut self, record: &RequestRecord) {
        self.requests += u64::from(record.count.get());
        if let Some(usage) = &record.usage {
            self.input_tokens += usage.input.0;
            self.output_tokens += usage.output.0;
        }
        self.cost = self.cost + record.cost.unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::requests::tests::record;

    fn requests(series: &TopSeries<&'static str>) -> Vec<(&'static str, u64)> {
        series.series.iter().map(|(owner, sums)| (*owner, sums.requests)).collect()
    }

    #[test]
    fn the_rest_shares_a_series_and_an_owner_that_sends_much_more_gets_one() {
        let mut series = TopSeries::new(2);
        let mut send = |owner, count| {
            (0..count).for_each(|_| series.observe(&owner, &record("m")));
            (requests(&series), series.other.requests)
        };
        assert_eq!(send("a", 3), (vec![("a", 3)], 0));
        assert_eq!(send("b", 1), (vec![("a", 3), ("b", 1)], 0));
        assert_eq!(send("c", 2), (vec![("a", 3), ("b", 1)], 2));
        // Its series begins with the request that gives it one.
        assert_eq!(send("c", 1), (vec![("a", 3), ("c", 1)], 2));
        assert_eq!(send("b", 1), (vec![("a", 3), ("c", 1)], 3));
        assert_eq!(series.other.cost, Nanos(3 * 1_500));
    }

    #[test]
    fn none_are_counted_without_series_and_the_memory_is_bounded() {
        let mut series = TopSeries::new(0);
        series.observe(&1, &record("m"));
        assert!(series.requests.is_empty() && series.other == Sums::default());
        let mut series = TopSeries::new(3);
        for owner in 0..=2 * MAX_KNOWN {
            series.observe(&owner, &record("m"));
        }
        assert!(series.requests.len() <= MAX_KNOWN);
        assert_eq!(series.series.len(), 3);
        assert_eq!(series.other.requests, 2 * MAX_KNOWN as u64 - 2);
    }
}
