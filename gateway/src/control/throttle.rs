//! Growing waits between failed sign-ins, pure over `now`, which is the monotonic time.
//!
//! Failures count in three scopes: those of one source for one account, those of one source for whatever
//! account, and those of one account from wherever. The last two have to be looser, as strangers can
//! cause them; a source that has signed in to an account before is exempt from both, so that nobody can
//! keep an owner out by failing from elsewhere. Nor can those who share the owner's address, as behind a NAT or a
//! proxy: there the wait of the first scope is short. A loopback address is no source that could be told from
//! others, as proxies on this host have it; it does not count in the second scope. An attempt counts as failed until it has succeeded: what
//! is tried in parallel is counted, too. An attempt within a wait does not prolong it.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use sha2::{Digest, Sha256};

use domain::source::Source;

/// How many failures a scope allows, and the longest wait after more of them.
#[derive(Clone, Copy)]
struct Policy {
    /// The failure after which the first wait begins.
    threshold: u32,
    max_wait: Duration,
}

const PAIR: Policy = Policy { threshold: 5, max_wait: Duration::from_mins(15) };
/// The same for a source that has signed in to the account before.
const KNOWN_PAIR: Policy = Policy { threshold: 5, max_wait: Duration::from_secs(10) };
const SOURCE: Policy = Policy { threshold: 30, max_wait: Duration::from_mins(15) };
const NAME: Policy = Policy { threshold: 100, max_wait: Duration::from_secs(10) };
/// The first wait; each failure after it doubles the next one.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// Failures are forgotten when there was none for so long.
const FORGET_AFTER: Duration = Duration::from_hours(1);
/// The most entries of a table, at some 100 bytes each.
const MAX_ENTRIES: usize = 10_000;

/// An account as somebody names it who signs in, whether it exists or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameDigest([u8; 16]);

/// An attempt to sign in that is under way.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(super) struct Attempt {
    name: NameDigest,
    source: Source,
    is_known: bool,
}

/// Counts failures.
#[derive(Default)]
pub(super) struct Throttle {
    pairs: Table<(NameDigest, Source)>,
    sources: Table<Source>,
    names: Table<NameDigest>,
    /// When a source last signed in to an account.
    known: HashMap<(NameDigest, Source), Duration>,
}

struct Table<K> {
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
    /// Digests a name, whose case does not matter.
    pub(super) fn of(name: &str) -> Self {
        let digest: [u8; 32] = Sha256::digest(name.to_lowercase()).into();
        let (half, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
        Self(*half)
    }
}

// === impl Attempt ===

impl Attempt {
    /// Whether this source has signed in to this account before.
    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }
}

// === impl Throttle ===

impl Throttle {
    /// Counts an attempt to sign in. It is to be told to [`Throttle::succeed`] or [`Throttle::cancel`]
    /// unless it fails.
    ///
    /// # Errors
    /// How long to wait before the next attempt; this one must not be made.
    pub(super) fn begin(
        &mut self,
        name: NameDigest,
        source: Source,
        now: Duration,
    ) -> Result<Attempt, Duration> {
        let is_known = self.known.contains_key(&(name, source));
        let mut wait = self.pairs.wait(&(name, source), now);
        if !is_known {
            wait = wait.max(self.sources.wait(&source, now)).max(self.names.wait(&name, now));
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        self.pairs.add((name, source), if is_known { KNOWN_PAIR } else { PAIR }, now);
        if !is_known {
            if !is_loopback(source) {
                self.sources.add(source, SOURCE, now);
            }
            self.names.add(name, NAME, now);
        }
        Ok(Attempt { name, source, is_known })
    }

    /// Counts an attempt to prove a password from within a session of its account, which nobody else can
    /// make.
    ///
    /// # Errors
    /// As [`Throttle::begin`].
    pub(super) fn begin_signed_in(
        &mut self,
        name: NameDigest,
        source: Source,
        now: Duration,
    ) -> Result<Attempt, Duration> {
        if let Some(wait) = self.pairs.wait(&(name, source), now) {
            return Err(wait);
        }
        self.pairs.add((name, source), PAIR, now);
        Ok(Attempt { name, source, is_known: true })
    }

    /// Notes that an attempt has succeeded: its source is known to be the account's from now on.
    pub(super) fn succeed(&mut self, attempt: Attempt, now: Duration) {
        let pair = (attempt.name, attempt.source);
        self.pairs.entries.remove(&pair);
        self.undo_others(attempt);
        if self.known.len() >= MAX_ENTRIES && !self.known.contains_key(&pair) {
            remove_older_half(&mut self.known, |at| *at);
        }
        self.known.insert(pair, now);
    }

    /// Takes back an attempt that neither failed nor succeeded.
    pub(super) fn cancel(&mut self, attempt: Attempt) {
        self.pairs.undo(&(attempt.name, attempt.source), PAIR);
        self.undo_others(attempt);
    }

    fn undo_others(&mut self, attempt: Attempt) {
        if !attempt.is_known {
            self.sources.undo(&attempt.source, SOURCE);
            self.names.undo(&attempt.name, NAME);
        }
    }
}

// === impl Table ===

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash> Table<K> {
    /// Returns how long `key` has to wait, if at all.
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
            // 2²⁰ seconds are longer than any wait
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

/// Whether clients of a proxy on this host come from there.
fn is_loopback(source: Source) -> bool {
    [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        .into_iter()
        .any(|address: IpAddr| source == Source::of(Some(address)))
}

/// Makes room in a table that is full.
fn remove_older_half<K: Eq + Hash, V>(entries: &mut HashMap<K, V>, at: impl Fn(&V) -> Duration) {
    let mut times: Vec<_> = entries.values().map(&at).collect();
    let middle = times.len() / 2;
    let (_, &mut median, _) = times.select_nth_unstable(middle);
    let mut of_median = 0;
    entries.retain(|_, value| {
        let time = at(value);
        // of entries of one and the same moment, every other one
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

    /// Fails, and says how long the next attempt has to wait, in seconds.
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
    fn after_five_failures_each_doubles_the_wait_up_to_a_quarter_of_an_hour() {
        let throttle = &mut Throttle::default();
        let mut now = 0;
        let waits = [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900];
        for wait in waits {
            assert_eq!(fail(throttle, "ann", HOME, now), wait);
            now += wait;
        }
        assert_eq!(fail(throttle, "ANN", HOME, now), 900, "whatever the case");
        assert_eq!(fail(throttle, "bob", HOME, now), 0, "another account");
        assert_eq!(fail(throttle, "ann", source(1), now), 0, "another source");
        assert_eq!(fail(throttle, "ann", HOME, now + 3_600), 0, "after an hour");
    }

    #[test]
    fn a_wait_is_not_prolonged_by_who_does_not_wait() {
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
    fn attempts_under_way_count_until_they_succeed() {
        let throttle = &mut Throttle::default();
        let name = NameDigest::of("ann");
        let attempts: Vec<_> =
            (0..5).map(|_| throttle.begin(name, HOME, seconds(0)).unwrap()).collect();
        assert!(throttle.begin(name, HOME, seconds(0)).is_err());
        throttle.cancel(attempts[0]);
        let again = throttle.begin(name, HOME, seconds(0)).unwrap();
        assert!(throttle.begin(name, HOME, seconds(0)).is_err());
        throttle.succeed(again, seconds(0));
        assert_eq!(fail(throttle, "ann", HOME, 0), 0, "a success clears the slate");
    }

    #[test]
    fn a_source_that_tries_many_accounts_waits() {
        let throttle = &mut Throttle::default();
        for number in 1..30 {
            assert_eq!(fail(throttle, &number.to_string(), HOME, 0), 0);
        }
        assert_eq!(fail(throttle, "30", HOME, 0), 1);
        assert_eq!(fail(throttle, "31", source(1), 0), 0);
    }

    #[test]
    fn failures_from_everywhere_slow_strangers_down_and_never_the_owner() {
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
        // nor can those do it who share the owner's address
        for number in 0..30 {
            _ = throttle.begin(NameDigest::of(&number.to_string()), HOME, seconds(10_900));
        }
        assert!(throttle.begin(NameDigest::of("new"), HOME, seconds(10_900)).is_err());
        assert_eq!(fail(throttle, "ann", HOME, 10_900), 0);
    }

    #[test]
    fn who_shares_the_owners_address_delays_the_owner_by_seconds_only() {
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
    fn failures_behind_a_proxy_on_this_host_keep_no_other_account_out() {
        let throttle = &mut Throttle::default();
        for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let proxy = Source::of(address.parse().ok());
            for number in 0..40 {
                assert_eq!(fail(throttle, &number.to_string(), proxy, 0), 0, "{address}");
            }
            throttle.names = Table::default();
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
