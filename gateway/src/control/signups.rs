//! How often one client address may register accounts: everybody may ask, and every account may be
//! given trial credit.
//!
//! Counts in memory, for an hour back from now. Memory is bounded: by the limit for each address, and by
//! the number of addresses.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::ControlError;
use domain::source::client_prefix;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
const MAX_ADDRESSES: usize = 10_000;

/// Counts registrations.
pub(super) struct SignUps {
    /// Zero means no limit.
    per_hour: u32,
    /// The times of the last hour's registrations, the oldest first.
    counted: Mutex<HashMap<IpAddr, VecDeque<Timestamp>>>,
}

impl SignUps {
    /// Nobody has registered yet. A `per_hour` of zero lets everybody register without end.
    pub(super) fn new(per_hour: u32) -> Self {
        Self { per_hour, counted: Mutex::default() }
    }

    /// Counts a registration from `address`.
    ///
    /// # Errors
    /// [`ControlError::Limited`] if there were too many within an hour.
    pub(super) fn admit(&self, address: IpAddr, now: Timestamp) -> Result<(), ControlError> {
        if self.per_hour == 0 {
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
            Some(first) if times.len() >= self.per_hour as usize => {
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

    /// Seconds to wait; none if admitted.
    fn wait(sign_ups: &SignUps, address: &str, seconds: i64) -> Option<u64> {
        match sign_ups.admit(address.parse().unwrap(), at(seconds)) {
            Ok(()) => None,
            Err(ControlError::Limited { message, retry_after }) => {
                assert!(message.contains("try again in"), "{message}");
                Some(retry_after.as_secs())
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_registers_so_many_within_any_hour() {
        let sign_ups = SignUps::new(2);
        assert_eq!(wait(&sign_ups, "192.0.2.1", 0), None);
        assert_eq!(wait(&sign_ups, "192.0.2.1", 1_800), None);
        assert_eq!(wait(&sign_ups, "192.0.2.1", 1_801), Some(1_799));
        assert_eq!(wait(&sign_ups, "::ffff:192.0.2.1", 1_801), Some(1_799), "the same one");
        assert_eq!(wait(&sign_ups, "192.0.2.2", 1_801), None, "another");
        assert_eq!(wait(&sign_ups, "192.0.2.1", 3_600), None);
        assert_eq!(wait(&sign_ups, "192.0.2.1", 3_601), Some(1_799));
    }

    #[test]
    fn a_whole_ipv6_network_counts_as_one_address() {
        let sign_ups = SignUps::new(1);
        assert_eq!(wait(&sign_ups, "2001:db8:0:1::1", 0), None);
        assert_eq!(wait(&sign_ups, "2001:db8:0:1:ffff::2", 0), Some(3_600));
        assert_eq!(wait(&sign_ups, "2001:db8:0:2::1", 0), None);
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let sign_ups = SignUps::new(1);
        for number in 0..u32::try_from(MAX_ADDRESSES).unwrap() {
            let address = std::net::Ipv4Addr::from_bits(number).to_string();
            assert_eq!(wait(&sign_ups, &address, 0), None);
        }
        assert_eq!(wait(&sign_ups, "192.0.2.1", 0), Some(60));
        assert_eq!(wait(&sign_ups, "192.0.2.1", 3_600), None);
        assert_eq!(sign_ups.counted.lock().unwrap().len(), 1);
    }

    #[test]
    fn zero_is_no_limit() {
        let sign_ups = SignUps::new(0);
        assert!((0..100).all(|_| wait(&sign_ups, "192.0.2.1", 0).is_none()));
    }
}
