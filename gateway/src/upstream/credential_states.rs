//! The credentials of one upstream: requests use them in turn, and a refused one is paused.
//!
//! It is a pure function of `now`, the monotonic time, and consists of atomics. A pause keeps no request away: if all
//! credentials are paused, the one whose pause ends first is used, because an attempt that may fail is better than
//! none. An upstream that requires no credential has one state, so that it can be paused too.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::breaker::millis;
use super::error::UpstreamError;
use domain::health::CredentialHealth;
use domain::upstream::{CredentialIndex, MAX_CREDENTIALS};

/// The longest pause that an upstream can ask for with `retry-after`.
const MAX_REQUESTED_PAUSE: Duration = Duration::from_mins(1);
/// The pause of a credential that was refused for what it is (401, 402), if there are others.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);
/// The pause of a credential that was used too often (429) or may not send this request (403), if there are others and
/// the upstream asks for no pause. Some servers refuse a prompt with 403, which says nothing about other requests.
const BUSY_PAUSE: Duration = Duration::from_secs(1);
/// The most credentials of one upstream that are tried for one request.
const MAX_TRIED: u32 = 3;

/// The states of the credentials, in the order of the catalogue entry.
pub(super) struct CredentialStates {
    /// Never empty.
    states: Box<[CredentialState]>,
    /// How many of the states are those of a credential: none if the upstream requires none.
    count: usize,
    /// The number of turns so far.
    turns: AtomicUsize,
}

#[derive(Default)]
struct CredentialState {
    /// The monotonic time in milliseconds until which other credentials are used first.
    paused_until: AtomicU64,
    /// Whether the pause ends as soon as the upstream accepts the credential: it was refused for what it is.
    ends_when_accepted: AtomicBool,
    /// Set if the credential could not be resolved.
    is_missing: AtomicBool,
    requests: AtomicU64,
    refusals: AtomicU64,
    /// The HTTP status of the most recent refusal; zero before the first.
    last_refusal: AtomicU16,
}

/// The credentials of one upstream that were tried for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriedCredentials(u32);

const _: () = assert!(MAX_CREDENTIALS <= u32::BITS as usize);

// === impl CredentialStates ===

impl CredentialStates {
    /// Creates the states of `count` credentials, at most [`MAX_CREDENTIALS`].
    pub(super) fn new(count: usize) -> Self {
        let states = (0..count.clamp(1, MAX_CREDENTIALS)).map(|_| CredentialState::default());
        Self { states: states.collect(), count, turns: AtomicUsize::default() }
    }

    /// Records that a credential could not be resolved; it is not used any more.
    pub(super) fn set_missing(&self, index: CredentialIndex) {
        self.state(index).is_missing.store(true, Ordering::Relaxed);
    }

    /// Returns the credential for a request: the next one without a pause, or else the one whose pause ends first.
    pub(super) fn choose(&self, now: Duration) -> CredentialIndex {
        let next = self.next_free(TriedCredentials::default(), now);
        let first_again = || self.usable().min_by_key(|(_, state)| state.pause_left(now));
        next.or_else(|| first_again().map(|(index, _)| index)).unwrap_or_default()
    }

    /// Returns the credential with which a request is repeated after `error`: the next one without a pause that is not
    /// among `tried`. `None` if another credential cannot help, or enough were tried.
    pub(super) fn choose_next(
        &self,
        tried: TriedCredentials,
        error: &UpstreamError,
        now: Duration,
    ) -> Option<CredentialIndex> {
        if !error.refuses_credential() || tried.0.count_ones() >= MAX_TRIED {
            return None;
        }
        self.next_free(tried, now)
    }

    /// Returns for how much longer no credential is free; `None` if one is.
    pub(super) fn pause_left(&self, now: Duration) -> Option<Duration> {
        self.usable().map(|(_, state)| state.pause_left(now)).min().flatten()
    }

    /// Records that the upstream accepted a credential. That ends a pause after a refusal for what it is, but not one
    /// that the upstream asked for: the request may have been sent before.
    pub(super) fn record_accepted(&self, index: CredentialIndex) {
        let state = self.state(index);
        state.requests.fetch_add(1, Ordering::Relaxed);
        // The load avoids a store, which would take the cache line from all other cores.
        if state.ends_when_accepted.load(Ordering::Relaxed) {
            state.ends_when_accepted.store(false, Ordering::Relaxed);
            state.paused_until.store(0, Ordering::Relaxed);
        }
    }

    /// Records a failure of a request with a credential. Returns whether it is the credential's and not the
    /// upstream's: other credentials are free.
    pub(super) fn record_failure(
        &self,
        index: CredentialIndex,
        error: &UpstreamError,
        now: Duration,
    ) -> bool {
        self.count_failure(index, error);
        self.pause_after(index, error, now)
    }

    /// Like [`record_failure`](Self::record_failure), for a request that was sent before the pauses were ended: it begins
    /// no new one.
    pub(super) fn record_earlier_failure(
        &self,
        index: CredentialIndex,
        error: &UpstreamError,
        now: Duration,
    ) -> bool {
        self.count_failure(index, error);
        self.set_last_refusal(index, error);
        self.is_credentials_own(error, now)
    }

    fn count_failure(&self, index: CredentialIndex, error: &UpstreamError) {
        let state = self.state(index);
        state.requests.fetch_add(1, Ordering::Relaxed);
        if error.refuses_credential() {
            state.refusals.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn set_last_refusal(&self, index: CredentialIndex, error: &UpstreamError) {
        if error.refuses_credential()
            && let UpstreamError::Refused { status, .. } = error
        {
            self.state(index).last_refusal.store(*status, Ordering::Relaxed);
        }
    }

    /// Returns whether a failure is that of a credential and not of the upstream: other credentials are free.
    fn is_credentials_own(&self, error: &UpstreamError, now: Duration) -> bool {
        error.refuses_credential() && self.has_others() && self.pause_left(now).is_none()
    }

    /// Returns whether the upstream has several usable credentials.
    fn has_others(&self) -> bool {
        self.usable().nth(1).is_some()
    }

    /// Pauses what `error` says should get no requests for a while, without counting it: the failure of a request, or
    /// of a probe or a health check. Returns whether it is the credential's and not the upstream's.
    pub(super) fn pause_after(
        &self,
        index: CredentialIndex,
        error: &UpstreamError,
        now: Duration,
    ) -> bool {
        self.set_last_refusal(index, error);
        let (state, has_others) = (self.state(index), self.has_others());
        let requested = error.retry_after().map(|pause| pause.min(MAX_REQUESTED_PAUSE));
        match error {
            UpstreamError::Refused { status: 401 | 402, .. } if has_others => {
                state.pause(now + REFUSED_PAUSE, true);
            }
            UpstreamError::Refused { status: 403 | 429, .. } if has_others => {
                state.pause(now + requested.unwrap_or(BUSY_PAUSE), false);
            }
            // The upstream asks for no requests, whatever their credential.
            _ => {
                if let Some(pause) = requested {
                    self.states.iter().for_each(|state| state.pause(now + pause, false));
                }
            }
        }
        self.is_credentials_own(error, now)
    }

    /// Ends all pauses. Requests and refusals stay counted.
    pub(super) fn end_pauses(&self) {
        for state in &self.states {
            state.paused_until.store(0, Ordering::Relaxed);
            state.ends_when_accepted.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the health of the credentials.
    pub(super) fn health(&self, now: Duration) -> Vec<CredentialHealth> {
        let health = |state: &CredentialState| CredentialHealth {
            pause_left: state.pause_left(now),
            requests: state.requests.load(Ordering::Relaxed),
            refusals: state.refusals.load(Ordering::Relaxed),
            last_refusal: Some(state.last_refusal.load(Ordering::Relaxed)).filter(|it| *it != 0),
        };
        self.states.iter().take(self.count).map(health).collect()
    }

    /// Takes the next turn among the credentials that are neither paused nor `tried`.
    fn next_free(&self, tried: TriedCredentials, now: Duration) -> Option<CredentialIndex> {
        let is_free = |(index, state): &(CredentialIndex, &CredentialState)| {
            !tried.contains(*index) && state.pause_left(now).is_none()
        };
        let mut free = self.usable().filter(is_free).map(|(index, _)| index);
        if self.states.len() == 1 {
            return free.next();
        }
        let count = free.clone().count();
        if count < 2 {
            return free.next();
        }
        free.nth(self.turns.fetch_add(1, Ordering::Relaxed) % count)
    }

    fn usable(&self) -> impl Iterator<Item = (CredentialIndex, &CredentialState)> + Clone {
        let all = (0..).map(CredentialIndex).zip(&*self.states);
        all.filter(|(_, state)| !state.is_missing.load(Ordering::Relaxed))
    }

    fn state(&self, index: CredentialIndex) -> &CredentialState {
        &self.states[usize::from(index.0)]
    }
}

impl Default for CredentialStates {
    fn default() -> Self {
        Self::new(0)
    }
}

// === impl CredentialState ===

impl CredentialState {
    /// Extends the pause to `until`.
    fn pause(&self, until: Duration, ends_when_accepted: bool) {
        let until = millis(until);
        if self.paused_until.fetch_max(until, Ordering::Relaxed) < until {
            self.ends_when_accepted.store(ends_when_accepted, Ordering::Relaxed);
        }
    }

    fn pause_left(&self, now: Duration) -> Option<Duration> {
        let until = Duration::from_millis(self.paused_until.load(Ordering::Relaxed));
        until.checked_sub(now).filter(|left| !left.is_zero())
    }
}

// === impl TriedCredentials ===

impl TriedCredentials {
    /// Adds a credential.
    pub fn insert(&mut self, index: CredentialIndex) {
        self.0 |= 1 << index.0;
    }

    fn contains(self, index: CredentialIndex) -> bool {
        self.0 & (1 << index.0) != 0
    }
}

#[cfg(test)]
mod tests {
    use domain::wire::error::ReportedError;

    use super::*;
    use hyper::HeaderMap;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn refused(status: u16, retry_after: Option<&'static str>) -> UpstreamError {
        let mut headers = Box::<HeaderMap>::default();
        if let Some(value) = retry_after {
            headers.insert("retry-after", value.parse().unwrap());
        }
        UpstreamError::Refused { status, body: ReportedError::default(), headers }
    }

    fn chosen(states: &CredentialStates, at: u64) -> Vec<u8> {
        let mut chosen: Vec<_> = (0..6).map(|_| states.choose(seconds(at)).0).collect();
        chosen.sort_unstable();
        chosen
    }

    #[test]
    fn requests_use_the_credentials_in_turn() {
        let states = CredentialStates::new(3);
        let turns: Vec<_> = (0..6).map(|_| states.choose(seconds(1)).0).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        assert_eq!(chosen(&CredentialStates::new(0), 1), [0; 6]);
    }

    #[test]
    fn each_refused_credential_has_its_own_pause() {
        let states = CredentialStates::new(3);
        let [first, second, third] = [0, 1, 2].map(CredentialIndex);
        assert!(states.record_failure(first, &refused(429, Some("20")), seconds(1)));
        assert!(states.record_failure(second, &refused(401, None), seconds(1)));
        assert_eq!(chosen(&states, 20), [2; 6]);
        assert_eq!(chosen(&states, 21), [0, 0, 0, 2, 2, 2]);
        assert!(states.record_failure(third, &refused(429, None), seconds(21)));
        assert_eq!(chosen(&states, 21), [0; 6]);
        assert_eq!(chosen(&states, 22), [0, 0, 0, 2, 2, 2]);
        assert_eq!(chosen(&states, 301), [0, 0, 1, 1, 2, 2]);
        let health = states.health(seconds(22));
        let pauses: Vec<_> = health.iter().map(|it| it.pause_left).collect();
        assert_eq!(pauses, [None, Some(seconds(279)), None]);
        let refusals: Vec<_> = health.iter().map(|it| (it.refusals, it.last_refusal)).collect();
        assert_eq!(refusals, [(1, Some(429)), (1, Some(401)), (1, Some(429))]);
    }

    #[test]
    fn if_all_are_paused_the_one_that_is_free_first_is_used() {
        let states = CredentialStates::new(2);
        let [first, second] = [0, 1].map(CredentialIndex);
        assert!(states.record_failure(first, &refused(401, None), seconds(1)));
        let is_its_own = states.record_failure(second, &refused(429, Some("9")), seconds(1));
        assert!(!is_its_own, "no other credential is free: the upstream fails");
        assert_eq!(states.pause_left(seconds(1)), Some(seconds(9)));
        assert_eq!(chosen(&states, 2), [1; 6]);
        states.record_accepted(second);
        assert_eq!(states.pause_left(seconds(2)), Some(seconds(8)), "it asked for that pause");
        states.record_accepted(first);
        assert_eq!(chosen(&states, 2), [0; 6]);
    }

    /// Regression test: only the credential of the request was paused, so that each of the others took one more.
    #[test]
    fn a_pause_that_does_not_concern_the_credential_holds_for_all() {
        let states = CredentialStates::new(3);
        let first = CredentialIndex(0);
        assert!(!states.record_failure(first, &refused(503, Some("30")), seconds(1)));
        assert_eq!(states.pause_left(seconds(1)), Some(seconds(30)));
        // A pause that the upstream asked for outlasts an earlier refusal and an answer to an earlier request.
        let states = CredentialStates::new(2);
        assert!(states.record_failure(first, &refused(401, None), seconds(1)));
        states.record_accepted(first);
        states.record_failure(first, &refused(503, Some("30")), seconds(2));
        states.record_accepted(first);
        assert_eq!(states.pause_left(seconds(2)), Some(seconds(30)));
    }

    /// Regression test: a probe that was refused counted as a request, one that was answered did not.
    #[test]
    fn background_checks_are_no_requests() {
        let states = CredentialStates::new(2);
        let first = CredentialIndex(0);
        assert!(states.pause_after(first, &refused(401, None), seconds(1)));
        states.record_accepted(first);
        states.record_failure(first, &refused(429, None), seconds(400));
        let health = &states.health(seconds(1))[0];
        assert_eq!((health.requests, health.refusals, health.last_refusal), (2, 1, Some(429)));
    }

    /// Some servers refuse a prompt with 403.
    #[test]
    fn a_403_pauses_a_credential_for_a_moment_only() {
        let states = CredentialStates::new(2);
        assert!(states.record_failure(CredentialIndex(0), &refused(403, None), seconds(1)));
        assert_eq!(chosen(&states, 1), [1; 6]);
        assert_eq!(chosen(&states, 2), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn a_request_is_repeated_with_at_most_two_other_credentials() {
        let states = CredentialStates::new(5);
        let (mut tried, mut index) = (TriedCredentials::default(), states.choose(seconds(1)));
        let mut used = vec![index.0];
        loop {
            tried.insert(index);
            let error = refused(429, Some("5"));
            states.record_failure(index, &error, seconds(1));
            let Some(next) = states.choose_next(tried, &error, seconds(1)) else { break };
            index = next;
            used.push(index.0);
        }
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 3, "each once");
        for error in [refused(500, None), refused(404, None), UpstreamError::CutOff] {
            let none = states.choose_next(TriedCredentials::default(), &error, seconds(1));
            assert_eq!(none, None, "another credential does not help against {error:?}");
        }
    }

    #[test]
    fn a_single_credential_is_paused_only_if_the_upstream_asks_for_it() {
        let states = CredentialStates::new(1);
        for status in [401, 402, 403, 429] {
            assert!(!states.record_failure(CredentialIndex(0), &refused(status, None), seconds(1)));
        }
        assert_eq!(states.pause_left(seconds(1)), None);
        states.record_failure(CredentialIndex(0), &refused(503, Some("100")), seconds(1));
        assert_eq!(states.pause_left(seconds(1)), Some(MAX_REQUESTED_PAUSE));
    }

    #[test]
    fn a_credential_that_is_not_resolved_is_not_used() {
        let states = CredentialStates::new(3);
        states.set_missing(CredentialIndex(1));
        assert_eq!(chosen(&states, 1), [0, 0, 0, 2, 2, 2]);
        states.record_failure(CredentialIndex(0), &refused(401, None), seconds(1));
        let error = refused(401, None);
        assert!(!states.record_failure(CredentialIndex(2), &error, seconds(1)));
        assert!(states.pause_left(seconds(1)).is_some());
    }
}
