//! Exponential backoff of failed sign-ins. Pure over `now`, the monotonic time.
//!
//! Failures are counted in three scopes: per source and account, per source over all accounts, and
//! per account over all sources. The last two are looser, because third parties can cause failures
//! in them. A source that has signed in to an account before is exempt from both, so that failures
//! from elsewhere cannot lock the owner out. For such a source the maximum wait of the first scope
//! is short, so that clients behind the same NAT or proxy cannot lock the owner out, either.
//! Loopback addresses are not counted per source: all clients of a proxy on this host share them.
//!
//! An attempt counts as failed until it succeeds, so that parallel attempts are counted. An attempt
//! during a wait is refused and does not prolong the wait.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use sha2::{Digest, Sha256};

use domain::source::Source;

/// The number of failures before the first wait, and the maximum wait of a scope.
#[derive(Clone, Copy)]
struct Policy {
    /// The number of failures that starts the first wait.
    threshold: u32,
    max_wait: Duration,
}

const PAIR_POLICY: Policy = Policy { threshold: 5, max_wait: Duration::from_mins(15) };
/// Replaces `PAIR_POLICY` for a source that has signed in to the account before.
const KNOWN_PAIR_POLICY: Policy = Policy { threshold: 5, max_wait: Duration::from_secs(10) };
const SOURCE_POLICY: Policy = Policy { threshold: 30, max_wait: Duration::from_mins(15) };
const NAME_POLICY: Policy = Policy { threshold: 100, max_wait: Duration::from_secs(10) };
/// The first wait; each further failure doubles it.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Failures expire after this time without another one.
const FORGET_AFTER: Duration = Duration::from_hours(1);
/// The maximum number of entries of a table, at some 100 bytes each.
const MAX_ENTRIES: usize = 10_000;

/// The digest of an account name, existing or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameDigest([u8; 16]);

/// A sign-in attempt in progress.
///
/// Must be passed to [`Throttle::succeed`] or [`Throttle::cancel`] unless it fails.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct SignInAttempt {
    name: NameDigest,
    source: Source,
    is_known: bool,
}

/// The failure counters of all scopes.
#[derive(Default)]
pub(super) struct Throttle {
    pairs: FailureTable<(NameDigest, Source)>,
    sources: FailureTable<Source>,
    names: FailureTable<NameDigest>,
    /// The time of the last successful sign-in by account and source.
    known: HashMap<(NameDigest, Source), Duration>,
}

struct FailureTable<K> {
    entries: HashMap<K, Failures>,
}

#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    last: Duration,
    blocked_until: Duration,
}

// === impl NameDigest ===

impl NameDigest {
    /// Digests a name; case is ignored.
    pub(super) fn of(name: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(name.to_lowercase()).into();
        let (half, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        Self(*half)
    }
}

// === impl SignInAttempt ===

impl SignInAttempt {
    /// Whether the source has signed in to the account before.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }
}

// === impl Throttle ===

impl Throttle {
    /// Starts a sign-in attempt and counts it as failed.
    ///
    /// # Errors
    /// The time to wait, if the attempt must not be made yet.
    pub(super) fn begin(
        &mut self,
        name: NameDigest,
        source: Source,
        now: Duration,
    ) -> Result<SignInAttempt, Duration> {
        let is_known = self.known.contains_key(&(name, source));
        let mut wait = self.pairs.wait(&(name, source), now);
        if !is_known {
            wait = wait.max(self.sources.wait(&source, now)).max(self.names.wait(&name, now));
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        self.pairs.add((name, source), if is_known { KNOWN_PAIR_POLICY } else { PAIR_POLICY }, now);
        if !is_known {
            if !is_loopback(source) {
                self.sources.add(source, SOURCE_POLICY, now);
            }
            self.names.add(name, NAME_POLICY, now);
        }
        Ok(SignInAttempt { name, source, is_known })
    }

    /// Starts a password verification within a session of the account. Only the first scope
    /// applies, because third parties cannot make such an attempt.
    ///
    /// # Errors
    /// As [`Throttle::begin`].
    pub(super) fn begin_signed_in(
        &mut self,
        name: NameDigest,
        source: Source,
        now: Duration,
    ) -> Result<SignInAttempt, Duration> {
        if let Some(wait) = self.pairs.wait(&(name, source), now) {
            return Err(wait);
        }
        self.pairs.add((name, source), PAIR_POLICY, now);
        Ok(SignInAttempt { name, source, is_known: true })
    }

    /// Records a success: resets the failures of source and account, and marks the source as known.
    pub(super) fn succeed(&mut self, attempt: SignInAttempt, now: Duration) {
        let pair = (attempt.name, attempt.source);
        self.pairs.entries.remove(&pair);
        self.undo_others(attempt);
        if self.known.len() >= MAX_ENTRIES && !self.known.contains_key(&pair) {
            remove_older_half(&mut self.known, |at| *at);
        }
        self.known.insert(pair, now);
    }

    /// Removes an attempt without an outcome from the counters.
    pub(super) fn cancel(&mut self, attempt: SignInAttempt) {
        self.pairs.undo(&(attempt.name, attempt.source), PAIR_POLICY);
        self.undo_others(attempt);
    }

    fn undo_others(&mut self, attempt: SignInAttempt) {
        if !attempt.is_known {
            self.sources.undo(&attempt.source, SOURCE_POLICY);
            self.names.undo(&attempt.name, NAME_POLICY);
        }
    }
}

// === impl FailureTable ===

impl<K> Default for FailureTable<K> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> FailureTable<K> {
    /// Returns the remaining wait of `key`; `None` if there is none.
    fn wait(&self, key: &K, now: Duration) -> Option<Duration> {
        let failures = self.entries.get(key)?;
        failures.blocked_until.checked_sub(now).filter(|wait| !wait.is_zero())
    }

    fn add(&mut self, key: K, policy: Policy, now: Duration) {
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&key) {
            self.entries.retain(|_, it| now.saturating_sub(it.last) < FORGET_AFTER);
            if self.entries.len() >= MAX_ENTRIES {
                remove_older_half(&mut self.entries, |it| it.last);
            }
        }
        let failures = self.entries.entry(key).or_default();
        if now.saturating_sub(failures.last) >= FORGET_AFTER {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(doublings) = failures.count.checked_sub(policy.threshold) {
            // 2²⁰ seconds exceed every maximum wait.
            let wait = MIN_WAIT.saturating_mul(1 << doublings.min(20));
            failures.blocked_until = now + wait.min(policy.max_wait);
        }
    }

    fn undo(&mut self, key: &K, policy: Policy) {
        let Some(failures) = self.entries.get_mut(key) else { return };
        failures.count = failures.count.saturating_sub(1);
        if failures.count < policy.threshold {
            failures.blocked_until = Duration::ZERO;
        }
        if failures.count == 0 {
            self.entries.remove(key);
        }
    }
}

/// Whether `source` is a loopback address, which all clients of a proxy on this host share.
fn is_loopback(source: Source) -> bool {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        .into_iter()
        .any(|address: IpAddr| source == Source::of(Some(address)))
}

/// Removes the older half of the entries of a full table.
fn remove_older_half<K: Eq + Hash, V>(entries: &mut HashMap<K, V>, at: impl Fn(&V) -> Duration) {
    let mut times: Vec<_> = entries.values().map(&at).collect();
    let middle = times.len() / 2;
    let (_, &mut median, _) = times.select_nth_unstable(middle);
    let mut of_median = 0;
    entries.retain(|_, value| {
        let time = at(value);
        // Many entries can share the median time: every other one of them is removed.
        of_median += usize::from(time == median);
        time > median || (time == median && of_median % 2 == 0)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Source = Source::Local;

    fn source(number: u32) -> Source {
        Source::of(Some(std::net::Ipv4Addr::from_bits(number).into()))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Makes a failing attempt. Returns the wait before the next one, in seconds.
    fn fail(throttle: &mut Throttle, name: &str, source: Source, now: u64) -> u64 {
        let name = NameDigest::of(name);
        _ = throttle.begin(name, source, seconds(now)).expect("no wait");
        let next = throttle.begin(name, source, seconds(now));
        match next {
            Ok(attempt) => {
                throttle.cancel(attempt);
                0
            }
            Err(wait) => wait.as_secs(),
        }
    }

    #[test]
    fn doubles_the_wait_from_the_fifth_failure_up_to_fifteen_minutes() {
        let throttle = &mut Throttle::default();
        let mut now = 0;
        let waits = [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900];
        for wait in waits {
            assert_eq!(fail(throttle, "ann", HOME, now), wait);
            now += wait;
        }
        assert_eq!(fail(throttle, "ANN", HOME, now), 900, "case is ignored");
        assert_eq!(fail(throttle, "bob", HOME, now), 0, "another account");
        assert_eq!(fail(throttle, "ann", source(1), now), 0, "another source");
        assert_eq!(fail(throttle, "ann", HOME, now + 3_600), 0, "after an hour");
    }

    #[test]
    fn attempts_during_a_wait_do_not_prolong_it() {
        let throttle = &mut Throttle::default();
        for _ in 0..5 {
            fail(throttle, "ann", HOME, 0);
        }
        let name = NameDigest::of("ann");
        for _ in 0..1_000 {
            assert_eq!(throttle.begin(name, HOME, seconds(0)).unwrap_err(), seconds(1));
        }
        _ = throttle.begin(name, HOME, seconds(1)).unwrap();
    }

    #[test]
    fn attempts_in_progress_count_as_failed_until_they_succeed() {
        let throttle = &mut Throttle::default();
        let name = NameDigest::of("ann");
        let attempts: Vec<_> =
            (0..5).map(|_| throttle.begin(name, HOME, seconds(0)).unwrap()).collect();
        assert!(throttle.begin(name, HOME, seconds(0)).is_err());
        throttle.cancel(attempts[0]);
        let again = throttle.begin(name, HOME, seconds(0)).unwrap();
        assert!(throttle.begin(name, HOME, seconds(0)).is_err());
        throttle.succeed(again, seconds(0));
        assert_eq!(fail(throttle, "ann", HOME, 0), 0, "a success resets the failures");
    }

    #[test]
    fn throttles_a_source_that_fails_for_many_accounts() {
        let throttle = &mut Throttle::default();
        for number in 1..30 {
            assert_eq!(fail(throttle, &number.to_string(), HOME, 0), 0);
        }
        assert_eq!(fail(throttle, "30", HOME, 0), 1);
        assert_eq!(fail(throttle, "31", source(1), 0), 0);
    }

    #[test]
    fn failures_from_many_sources_throttle_unknown_sources_but_not_a_known_one() {
        let throttle = &mut Throttle::default();
        let name = NameDigest::of("ann");
        let owner = throttle.begin(name, HOME, seconds(0)).unwrap();
        throttle.succeed(owner, seconds(0));
        let mut wait = 0;
        for number in 0..110 {
            wait = fail(throttle, "ann", source(number), 100 * u64::from(number));
        }
        assert_eq!(wait, 10);
        assert_eq!(fail(throttle, "ann", HOME, 10_900), 0, "at the same moment");
        // Failures for other accounts from the known source do not throttle it, either.
        for number in 0..30 {
            _ = throttle.begin(NameDigest::of(&number.to_string()), HOME, seconds(10_900));
        }
        assert!(throttle.begin(NameDigest::of("new"), HOME, seconds(10_900)).is_err());
        assert_eq!(fail(throttle, "ann", HOME, 10_900), 0);
    }

    #[test]
    fn failures_from_a_known_source_delay_it_by_at_most_ten_seconds() {
        let throttle = &mut Throttle::default();
        let shared = source(1);
        let owner = throttle.begin(NameDigest::of("ann"), shared, seconds(0)).unwrap();
        throttle.succeed(owner, seconds(0));
        let mut now = 0;
        for wait in [0, 0, 0, 0, 1, 2, 4, 8, 10, 10, 10] {
            assert_eq!(fail(throttle, "ann", shared, now), wait);
            now += wait;
        }
    }

    #[test]
    fn failures_from_loopback_do_not_count_per_source() {
        let throttle = &mut Throttle::default();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let proxy = Source::of(address.parse().ok());
            for number in 0..40 {
                assert_eq!(fail(throttle, &number.to_string(), proxy, 0), 0, "{address}");
            }
            throttle.names = FailureTable::default();
        }
    }

    #[test]
    fn memory_is_bounded() {
        let throttle = &mut Throttle::default();
        for number in 0..3 * u32::try_from(MAX_ENTRIES).unwrap() {
            let name = NameDigest::of(&number.to_string());
            if let Ok(attempt) = throttle.begin(name, source(number), seconds(0))
                && number % 2 == 0
            {
                throttle.succeed(attempt, seconds(u64::from(number)));
            }
        }
        assert!(throttle.pairs.entries.len() <= MAX_ENTRIES);
        assert!(throttle.sources.entries.len() <= MAX_ENTRIES);
        assert!(throttle.names.entries.len() <= MAX_ENTRIES);
        assert!((1..=MAX_ENTRIES).contains(&throttle.known.len()));
    }
}
