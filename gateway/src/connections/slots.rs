//! Limits the number of connections, in total and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::source::client_prefix;

/// The limits of a port; `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The total.
    pub total: Option<usize>,
    /// Per client address, or per IPv6 /64 network. Loopback addresses and Unix sockets are exempt, because
    /// proxies on the same host use them.
    pub per_address: Option<usize>,
}

/// Counts the connections of a port.
#[derive(Clone, Debug)]
pub struct ConnectionSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ConnectionLimits,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    /// Addresses without connections are absent.
    by_address: HashMap<IpAddr, usize>,
}

/// The slot of one connection. Dropping it frees the slot.
#[derive(Debug)]
pub struct ConnectionGuard {
    slots: ConnectionSlots,
    /// The counted address; `None` if it is exempt.
    address: Option<IpAddr>,
}

/// The limit that a connection would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitReachedError {
    /// The total limit.
    #[error("as many connections are open as `max_connections` allows")]
    Total,
    /// The limit of one address.
    #[error("its address has as many connections as `max_connections_per_address` allows")]
    Address,
}

// === impl ConnectionSlots ===

impl ConnectionSlots {
    /// Creates slots under these limits.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self(Arc::new(Shared { limits, counts: Mutex::default() }))
    }

    /// Takes a slot for a connection from `address`; `None` means a Unix socket.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn take(&self, address: Option<IpAddr>) -> Result<ConnectionGuard, LimitReachedError> {
        let mut counts = self.counts();
        if self.0.limits.total.is_some_and(|limit| counts.total >= limit) {
            return Err(LimitReachedError::Total);
        }
        let address = counts.take(self.0.limits, address)?;
        counts.total += 1;
        drop(counts);
        Ok(ConnectionGuard { slots: self.clone(), address })
    }

    /// Returns the number of connections.
    pub fn in_use(&self) -> usize {
        self.counts().total
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panic elsewhere leaves the counts consistent.
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Counts a connection from `address` unless it is exempt, and returns the counted address.
    fn take(
        &mut self,
        limits: ConnectionLimits,
        address: Option<IpAddr>,
    ) -> Result<Option<IpAddr>, LimitReachedError> {
        let (Some(limit), Some(address)) = (limits.per_address, address) else { return Ok(None) };
        if address.to_canonical().is_loopback() {
            return Ok(None);
        }
        let address = client_prefix(address);
        let count = self.by_address.entry(address).or_default();
        if *count >= limit {
            return Err(LimitReachedError::Address);
        }
        *count += 1;
        Ok(Some(address))
    }
}

// === impl ConnectionGuard ===

impl ConnectionGuard {
    /// Counts the connection for `address`, which was not known when the slot was taken.
    ///
    /// # Errors
    /// The limit of the address is reached.
    pub(super) fn set_address(&mut self, address: IpAddr) -> Result<(), LimitReachedError> {
        if self.address.is_none() {
            self.address = self.slots.counts().take(self.slots.0.limits, Some(address))?;
        }
        Ok(())
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut counts = self.slots.counts();
        counts.total = counts.total.saturating_sub(1);
        if let Some(address) = self.address
            && let Some(count) = counts.by_address.get_mut(&address)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(total: usize, per_address: usize) -> ConnectionSlots {
        let limits = ConnectionLimits { total: Some(total), per_address: Some(per_address) };
        ConnectionSlots::new(limits)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_slot_is_free_again_when_its_connection_has_gone() {
        let slots = slots(2, 2);
        let first = slots.take(None).unwrap();
        let second = slots.take(Some(address("192.0.2.1"))).unwrap();
        assert_eq!(slots.take(None).unwrap_err(), LimitReachedError::Total);
        drop(first);
        let third = slots.take(Some(address("192.0.2.1"))).unwrap();
        drop((second, third));
        assert_eq!(slots.counts().total, 0);
        assert!(slots.counts().by_address.is_empty());
    }

    #[test]
    fn one_client_has_its_share_whichever_address_of_its_network_it_uses() {
        let slots = slots(10, 1);
        for (first, same, other) in [
            ("192.0.2.1", "192.0.2.1", "192.0.2.2"),
            ("192.0.2.7", "::ffff:192.0.2.7", "192.0.2.8"),
            ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
        ] {
            let held = slots.take(Some(address(first))).unwrap();
            assert_eq!(slots.take(Some(address(same))).unwrap_err(), LimitReachedError::Address);
            assert!(slots.take(Some(address(other))).is_ok());
            drop(held);
        }
    }

    #[test]
    fn an_address_that_is_known_later_counts_from_then_on() {
        let slots = slots(10, 1);
        let (mut first, mut second) = (slots.take(None).unwrap(), slots.take(None).unwrap());
        first.set_address(address("192.0.2.1")).unwrap();
        let beyond = second.set_address(address("192.0.2.1"));
        assert_eq!(beyond.unwrap_err(), LimitReachedError::Address);
        drop(first);
        second.set_address(address("192.0.2.1")).unwrap();
        drop(second);
        assert!(slots.counts().by_address.is_empty());
    }

    #[test]
    fn proxies_on_this_host_have_no_share_but_that_of_all() {
        let slots = slots(4, 1);
        let held: Vec<_> = ["127.0.0.1", "127.0.0.1", "::1"]
            .map(|text| slots.take(Some(address(text))).unwrap())
            .into_iter()
            .chain(slots.take(None))
            .collect();
        assert_eq!(slots.take(None).unwrap_err(), LimitReachedError::Total);
        drop(held);
    }
}
