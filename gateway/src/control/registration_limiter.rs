//! A rate limit on registrations per client address, because registration is public and grants
//! trial credit.
//!
//! A sliding window of one hour, in memory. Memory is bounded by the limit for each address and by
//! the number of addresses.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ControlError;
use domain::source::client_prefix;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MAX_ADDRESSES: usize = 10_000;

/// Counts registrations per client address.
pub(super) struct RegistrationLimiter {
    /// Zero means no limit.
    per_hour: AtomicU32,
    /// The registrations of the last hour by address, oldest first.
    counted: Mutex<HashMap<IpAddr, VecDeque<Timestamp>>>,
}

impl RegistrationLimiter {
    /// Creates a limiter without registrations; a `per_hour` of zero means no limit.
    pub(super) fn new(per_hour: u32) -> Self {
        Self { per_hour: AtomicU32::new(per_hour), counted: Mutex::default() }
    }

    /// Changes the limit; what was counted stays.
    pub(super) fn set_limit(&self, per_hour: u32) {
        self.per_hour.store(per_hour, Ordering::Relaxed);
    }

    /// Counts a registration from `address`.
    ///
    /// # Errors
    /// [`ControlError::Limited`] if `address` reached the limit, or if too many addresses are
    /// tracked.
    pub(super) fn admit(&self, address: IpAddr, now: Timestamp) -> Result<(), ControlError> {
        let per_hour = self.per_hour.load(Ordering::Relaxed);
        if per_hour == 0 {
            return Ok(());
        }
        let address = client_prefix(address);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() >= MAX_ADDRESSES && !counted.contains_key(&address) {
            counted.retain(|_, times| times.back().is_some_and(|last| is_recent(*last, now)));
            if counted.len() >= MAX_ADDRESSES {
                return Err(limited("too many addresses are registering", Duration::from_mins(1)));
            }
        }
        let times = counted.entry(address).or_default();
        while times.front().is_some_and(|first| !is_recent(*first, now)) {
            times.pop_front();
        }
        match times.front() {
            Some(first) if times.len() >= per_hour as usize => {
                let wait = HOUR.saturating_sub(now.duration_since(*first));
                let wait = wait.unsigned_abs().max(Duration::from_secs(1));
                Err(limited("too many accounts were registered from your address", wait))
            }
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

fn is_recent(then: Timestamp, now: Timestamp) -> bool {
    now.duration_since(then) < HOUR
}

fn limited(why: &str, retry_after: Duration) -> ControlError {
    let minutes = retry_after.as_secs().div_ceil(60);
    let minutes = if minutes == 1 { "a minute".into() } else { format!("{minutes} minutes") };
    ControlError::Limited { message: format!("{why}; try again in {minutes}"), retry_after }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    /// Returns the seconds to wait; `None` if admitted.
    fn wait(
        registration_limiter: &RegistrationLimiter,
        address: &str,
        seconds: i64,
    ) -> Option<u64> {
        match registration_limiter.admit(address.parse().unwrap(), at(seconds)) {
            Ok(()) => None,
            Err(ControlError::Limited { message, retry_after }) => {
                assert!(message.contains("try again in"), "{message}");
                Some(retry_after.as_secs())
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn limits_registrations_per_address_and_hour() {
        let registration_limiter = RegistrationLimiter::new(2);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 0), None);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 1_800), None);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 1_801), Some(1_799));
        assert_eq!(
            wait(&registration_limiter, "::ffff:192.0.2.1", 1_801),
            Some(1_799),
            "the same address"
        );
        assert_eq!(wait(&registration_limiter, "192.0.2.2", 1_801), None, "another address");
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 3_600), None);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 3_601), Some(1_799));
    }

    #[test]
    fn counts_an_ipv6_network_as_one_address() {
        let registration_limiter = RegistrationLimiter::new(1);
        assert_eq!(wait(&registration_limiter, "2001:db8:0:1::1", 0), None);
        assert_eq!(wait(&registration_limiter, "2001:db8:0:1:ffff::2", 0), Some(3_600));
        assert_eq!(wait(&registration_limiter, "2001:db8:0:2::1", 0), None);
    }

    #[test]
    fn memory_is_bounded_and_released() {
        let registration_limiter = RegistrationLimiter::new(1);
        for number in 0..u32::try_from(MAX_ADDRESSES).unwrap() {
            let address = std::net::Ipv4Addr::from_bits(number).to_string();
            assert_eq!(wait(&registration_limiter, &address, 0), None);
        }
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 0), Some(60));
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 3_600), None);
        assert_eq!(registration_limiter.counted.lock().unwrap().len(), 1);
    }

    #[test]
    fn another_limit_applies_to_what_was_counted() {
        let registration_limiter = RegistrationLimiter::new(2);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 0), None);
        registration_limiter.set_limit(1);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 1), Some(3_599));
        registration_limiter.set_limit(2);
        assert_eq!(wait(&registration_limiter, "192.0.2.1", 1), None);
    }

    #[test]
    fn zero_means_no_limit() {
        let registration_limiter = RegistrationLimiter::new(0);
        assert!((0..100).all(|_| wait(&registration_limiter, "192.0.2.1", 0).is_none()));
    }
}
