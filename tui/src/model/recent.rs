//! The recent requests of a model, key, account or upstream: how many, when, and how long they took.

use jiff::Timestamp;

use super::chart::percentile;
use super::record::Record;

use std::collections::BTreeMap;

/// The number of slices of a trend.
pub const SLICES: usize = 8;

/// Some of the newest requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recent {
    /// The number of requests.
    pub requests: u64,
    /// The arrival time of the newest one.
    pub last_at: Option<Timestamp>,
    /// How many of them there were in each slice of the time that all newest requests cover, oldest
    /// first.
    pub trend: [u64; SLICES],
    /// The median of their durations in milliseconds, if any is known.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of their durations in milliseconds, if any is known.
    pub p99_ms: Option<f64>,
}

/// Groups the newest requests by the name that `name` returns.
pub fn by_name<'a>(
    records: &[&'a Record],
    name: fn(&Record) -> Option<&str>,
) -> BTreeMap<&'a str, Recent> {
    let times = || records.iter().filter_map(|record| record.started_at);
    let first = times().min().map_or(0, Timestamp::as_millisecond);
    let length = times().max().map_or(0, |time| time.as_millisecond() - first) + 1;
    let mut groups: BTreeMap<&str, (Recent, Vec<f64>)> = BTreeMap::new();
    for record in records {
        let Some(name) = name(record) else { continue };
        let (recent, durations) = groups.entry(name).or_default();
        let count = u64::from(record.count.max(1));
        recent.requests = recent.requests.saturating_add(count);
        durations.extend(record.duration_ms);
        recent.last_at = recent.last_at.max(record.started_at);
        if let Some(at) = record.started_at {
            let place =
                i128::from(at.as_millisecond() - first) * SLICES as i128 / i128::from(length);
            let place = usize::try_from(place).unwrap_or(0).min(SLICES - 1);
            recent.trend[place] = recent.trend[place].saturating_add(count);
        }
    }
    let finished = groups.into_iter().map(|(name, (recent, mut durations))| {
        durations.sort_by(f64::total_cmp);
        let (p50_ms, p99_ms) = (percentile(&durations, 50), percentile(&durations, 99));
        (name, Recent { p50_ms, p99_ms, ..recent })
    });
    finished.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_name_and_time() {
        let record = |second, account: &str, took| Record {
            account: account.to_owned(),
            started_at: Timestamp::from_second(second).ok(),
            duration_ms: took,
            ..Record::default()
        };
        let records =
            [record(0, "a", Some(1.0)), record(79, "a", Some(9.0)), record(40, "b", None)];
        let records: Vec<_> = records.iter().collect();
        let found = by_name(&records, |it| Some(&it.account));
        assert_eq!((found["a"].requests, found["a"].trend), (2, [1, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(found["a"].last_at, Timestamp::from_second(79).ok());
        assert_eq!((found["a"].p50_ms, found["a"].p99_ms), (Some(1.0), Some(9.0)));
        assert_eq!((found["b"].trend, found["b"].p50_ms), ([0, 0, 0, 0, 1, 0, 0, 0], None));
        assert!(by_name(&[], |it| Some(&it.account)).is_empty());
    }
}
