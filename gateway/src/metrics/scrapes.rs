//! When the metrics were last scraped.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// The scrapes of one port.
#[derive(Debug)]
pub struct Scrapes {
    address: SocketAddr,
    last: Mutex<Option<Timestamp>>,
}

impl Scrapes {
    /// Creates the state of a port at `address` that was not scraped yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, last: Mutex::default() }
    }

    /// Returns the address of the port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the time of the last scrape; `None` if there was none since the start.
    pub fn last(&self) -> Option<Timestamp> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, now: Timestamp) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}
