//! Sums over requests in memory: over the records of a batch, and over the groups of a summary.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use jiff::Timestamp;

use crate::{KeySum, MAX_LISTED_KEYS, StoreError, Summary, TimeUnit, Totals};
use domain::id::{AccountId, KeyId, ModelId};
use domain::ledger::Entry;
use domain::money::Nanos;
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::Tokens;

/// A minute, in microseconds.
pub(crate) const MINUTE: i64 = 60_000_000;
/// An hour, in microseconds.
pub(crate) const HOUR: i64 = 3_600_000_000;
/// A day, in microseconds.
pub(crate) const DAY: i64 = 24 * HOUR;

/// Requests of one hour and model with the same status.
pub(crate) type Group<'a> = (i64, Option<&'a ModelId>, RequestStatus);

/// Sums by account, key and group.
pub(crate) type KeySums<'a> = HashMap<(AccountId, &'a KeyId, Group<'a>), Totals, RandomState>;

/// Requests of one day, account, key and model with the same status.
pub(crate) type Day<'a> = (i64, AccountId, &'a KeyId, Option<&'a ModelId>, RequestStatus);

/// Sums by model and unit of time, and by key.
pub(crate) struct GroupedTotals {
    /// The unit of time of the groups.
    pub(crate) by: TimeUnit,
    /// By model, and by the number of the unit of time since 1970.
    pub(crate) groups: HashMap<(Option<ModelId>, i64), Totals, RandomState>,
    pub(crate) keys: HashMap<(AccountId, KeyId), Totals, RandomState>,
}

/// A range of hours or days; `None` for an open end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeRange {
    pub(crate) first: Option<i64>,
    pub(crate) end: Option<i64>,
}

/// A time range as parts of the log and a range of whole hours between them.
pub(crate) struct SplitRange {
    /// The parts of the log, in microseconds; `None` for an open end.
    pub(crate) log: Vec<(Option<i64>, Option<i64>)>,
    /// The whole hours.
    pub(crate) hours: Option<TimeRange>,
}

/// Sums `records` by hour.
pub(crate) fn by_key<'a>(records: impl Iterator<Item = &'a RequestRecord>) -> KeySums<'a> {
    let mut sums = KeySums::default();
    for record in records {
        let hour = record.started_at.as_microsecond().div_euclid(HOUR);
        let group = (hour, record.model.as_ref(), record.status);
        let totals = sums.entry((record.account, &record.key, group)).or_default();
        accumulate(totals, &totals_of(record));
    }
    sums
}

/// Sums hours by day.
pub(crate) fn by_day<'a>(hours: &KeySums<'a>) -> HashMap<Day<'a>, Totals, RandomState> {
    let mut days = HashMap::<Day<'_>, Totals, RandomState>::default();
    for ((account, key, (hour, model, status)), totals) in hours {
        let day = (hour.div_euclid(24), *account, *key, *model, *status);
        accumulate(days.entry(day).or_default(), totals);
    }
    days
}

/// Adds a sum to another.
pub(crate) fn accumulate(sum: &mut Totals, part: &Totals) {
    sum.requests = sum.requests.saturating_add(part.requests);
    sum.errors = sum.errors.saturating_add(part.errors);
    sum.input = sum.input.saturating_add(part.input);
    sum.cached = sum.cached.saturating_add(part.cached);
    sum.output = sum.output.saturating_add(part.output);
    sum.reasoning = sum.reasoning.saturating_add(part.reasoning);
    sum.cost = sum.cost.saturating_add(part.cost);
}

/// Returns the changes of balances by `entries`. A sum that would overflow is split, because a
/// saturated sum would change a balance by less than its parts do: the first changes come before
/// the others, of which there is one per account.
pub(crate) fn balance_changes(
    entries: &[Entry],
) -> (Vec<(AccountId, Nanos)>, HashMap<AccountId, Nanos, RandomState>) {
    let mut sums = HashMap::<AccountId, Nanos, RandomState>::default();
    let mut first = Vec::new();
    for entry in entries {
        let sum = sums.entry(entry.account).or_default();
        if let Some(exact) = sum.0.checked_add(entry.amount.0) {
            *sum = Nanos(exact);
        } else {
            first.push((entry.account, *sum));
            *sum = entry.amount;
        }
    }
    (first, sums)
}

/// Returns the days since 1970, in UTC.
pub(crate) fn day_of(at: Timestamp) -> i64 {
    at.as_microsecond().div_euclid(DAY)
}

/// Returns the hour that contains `time`, unless `time` is its start.
pub(crate) fn partial_hour(time: Option<i64>) -> Option<i64> {
    time.filter(|time| time.rem_euclid(HOUR) != 0).map(|time| time.div_euclid(HOUR))
}

fn totals_of(record: &RequestRecord) -> Totals {
    let usage = record.usage.unwrap_or_default();
    let requests = u64::from(record.count.get());
    let known = |tokens: Option<Tokens>| tokens.map_or(0, |tokens| tokens.0);
    Totals {
        requests,
        errors: if record.status.is_error() { requests } else { 0 },
        input: usage.input.0,
        cached: known(usage.cached),
        output: usage.output.0,
        reasoning: known(usage.reasoning),
        cost: record.cost.unwrap_or_default(),
    }
}

fn most_expensive_first<K: Ord, S>(sums: HashMap<K, Totals, S>) -> Vec<(K, Totals)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by(|(a, x), (b, y)| {
        (y.cost, y.requests).cmp(&(x.cost, x.requests)).then_with(|| a.cmp(b))
    });
    sums
}

/// Returns the start of a unit of time of that length, in microseconds, by its number since 1970.
fn start_of(number: i64, length: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(number.saturating_mul(length))
        .map_err(|error| StoreError::Unavailable(error.into()))
}

// === impl GroupedTotals ===

impl GroupedTotals {
    /// Creates sums by this unit of time.
    pub(crate) fn new(by: TimeUnit) -> Self {
        Self { by, groups: HashMap::default(), keys: HashMap::default() }
    }

    /// Returns the summary, without the labels of its keys.
    pub(crate) fn into_summary(self) -> Result<Summary, StoreError> {
        let mut totals = Totals::default();
        let mut by_model = HashMap::<_, Totals>::new();
        let [mut by_day, mut by_hour, mut by_minute] = [const { BTreeMap::new() }; 3];
        let mut by_model_and_time = Vec::with_capacity(self.groups.len());
        let length = self.by.length();
        for ((model, time), part) in self.groups {
            let start = time.saturating_mul(length);
            let add = |sums: &mut BTreeMap<i64, Totals>, unit: i64| {
                accumulate(sums.entry(start.div_euclid(unit)).or_default(), &part);
            };
            add(&mut by_day, DAY);
            if length <= HOUR {
                add(&mut by_hour, HOUR);
            }
            if length <= MINUTE {
                add(&mut by_minute, MINUTE);
            }
            accumulate(&mut totals, &part);
            accumulate(by_model.entry(model.clone()).or_default(), &part);
            by_model_and_time.push((start_of(time, length)?, model, part));
        }
        by_model_and_time.sort_by(|(a, model, _), (b, other, _)| (a, model).cmp(&(b, other)));
        let by_day = by_day
            .into_iter()
            .map(|(day, totals)| Ok((start_of(day, DAY)?.strftime("%F").to_string(), totals)));
        let starts = |sums: BTreeMap<i64, Totals>, length| {
            let sums = sums.into_iter();
            sums.map(|(time, totals)| Ok((start_of(time, length)?, totals)))
                .collect::<Result<_, StoreError>>()
        };
        let mut by_key = most_expensive_first(self.keys);
        by_key.truncate(MAX_LISTED_KEYS);
        let by_key = by_key.into_iter().map(|((account, key), totals)| KeySum {
            key,
            label: None,
            account,
            totals,
        });
        Ok(Summary {
            totals,
            by_model: most_expensive_first(by_model),
            by_day: by_day.collect::<Result<_, StoreError>>()?,
            by_hour: starts(by_hour, HOUR)?,
            by_minute: starts(by_minute, MINUTE)?,
            by_model_and_time,
            by_key: by_key.collect(),
        })
    }
}

// === impl TimeUnit ===

impl TimeUnit {
    /// Returns the length, in microseconds.
    pub(crate) fn length(self) -> i64 {
        match self {
            Self::Day => DAY,
            Self::Hour => HOUR,
            Self::Minute => MINUTE,
        }
    }
}

// === impl SplitRange ===

impl SplitRange {
    /// Returns a range that is read from the log only.
    pub(crate) fn log_only(since: Option<i64>, until: Option<i64>) -> Self {
        Self { log: vec![(since, until)], hours: None }
    }

    /// Splits a range at the boundaries of hours. The log no longer has all requests of an hour from
    /// which records were deleted, so such an hour counts as a whole: `has_deleted` says whether
    /// that is so for the [`partial_hour`]s of `since` and `until`.
    pub(crate) fn new(since: Option<i64>, until: Option<i64>, has_deleted: [bool; 2]) -> Self {
        let mut first = since.map(|time| -(-time).div_euclid(HOUR));
        let mut end = until.map(|time| time.div_euclid(HOUR));
        if has_deleted[0] {
            first = partial_hour(since);
        }
        if has_deleted[1] {
            end = partial_hour(until).map(|hour| hour + 1);
        }
        if first.zip(end).is_some_and(|(first, end)| first >= end) {
            // There is no whole hour.
            return Self::log_only(since, until);
        }
        let before = first.map(|hour| hour * HOUR).filter(|first| since < Some(*first));
        let after = end.map(|hour| hour * HOUR).filter(|end| until > Some(*end));
        let before = before.map(|first| (since, Some(first)));
        let after = after.map(|end| (Some(end), until));
        Self {
            log: before.into_iter().chain(after).collect(),
            hours: Some(TimeRange { first, end }),
        }
    }
}

// === impl TimeRange ===

impl TimeRange {
    /// Splits a range of hours into those before the first whole day, the whole days, and the rest;
    /// `None` without a whole day.
    pub(crate) fn split_days(self) -> Option<(Option<Self>, Self, Option<Self>)> {
        let first = self.first.map(|hour| -(-hour).div_euclid(24));
        let end = self.end.map(|hour| hour.div_euclid(24));
        if first.zip(end).is_some_and(|(first, end)| first >= end) {
            return None;
        }
        let (days_start, days_end) = (first.map(|day| day * 24), end.map(|day| day * 24));
        let before =
            (self.first < days_start).then_some(Self { first: self.first, end: days_start });
        let after = (days_end < self.end).then_some(Self { first: days_end, end: self.end });
        Some((before, Self { first, end }, after))
    }
}
