//! Accepts connections under limits, and backs off when the system has no room for more.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

use super::descriptors::{self, SpareDescriptors};
use super::proxies::TrustedProxies;
use super::slots::{ConnectionGuard, ConnectionSlots};

/// The wait after a failed accept; it doubles with each further failure.
const MIN_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// The interval at which a port logs that it rejects connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// A bound socket that accepts connections.
pub trait Listen: Send + Sync {
    /// A connection.
    type Stream: Send;

    /// Waits for the next connection, and returns it with the client's address, if there is one.
    ///
    /// # Cancel safety
    /// Cancelling it loses no connection.
    fn accept(&self)
    -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The connection.
    pub stream: S,
    /// The client's address; `None` for a Unix socket.
    pub address: Option<SocketAddr>,
    /// Its slot under the limits.
    pub slot: ConnectionGuard,
    /// Whether it begins with a header of the PROXY protocol.
    pub has_proxy_header: bool,
}

/// Accepts the connections of one port.
#[derive(Debug)]
pub struct Acceptor<L> {
    listener: L,
    /// The name of the port in the log.
    name: &'static str,
    slots: ConnectionSlots,
    proxies: Arc<TrustedProxies>,
    spare: SpareDescriptors,
    has_spare: bool,
    backoff: Duration,
    /// The time of the last warning about rejected connections, and their number since.
    warned_at: Option<Instant>,
    turned_away: u64,
}

impl Listen for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, address) = Self::accept(self).await?;
        Ok((stream, Some(address)))
    }
}

impl<L: Listen> Acceptor<L> {
    /// Creates an acceptor for `listener`, which the log calls `name`, under the limits of `slots`.
    pub fn new(listener: L, name: &'static str, slots: ConnectionSlots) -> Self {
        Self {
            listener,
            name,
            slots,
            proxies: Arc::default(),
            spare: SpareDescriptors::default(),
            has_spare: false,
            backoff: MIN_BACKOFF,
            warned_at: None,
            turned_away: 0,
        }
    }

    /// Reserves some descriptors for this port, for when the process has no others.
    #[must_use]
    pub fn with_spare_descriptors(mut self) -> Self {
        self.has_spare = true;
        self.spare.refill();
        self
    }

    /// Sets the proxies in front of this port. Their connections count against the total, and for the addresses that
    /// they report.
    #[must_use]
    pub fn with_proxies(mut self, proxies: Arc<TrustedProxies>) -> Self {
        self.proxies = proxies;
        self
    }

    /// Waits for the next connection that the limits allow. Connections beyond the limits are closed at once.
    /// A failed accept is retried after a wait.
    ///
    /// # Cancel safety
    /// Cancelling it loses no connection.
    pub async fn accept(&mut self) -> Accepted<L::Stream> {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    self.backoff = MIN_BACKOFF;
                    let ip = address.map(|address| address.ip());
                    let client = ip.filter(|ip| !self.proxies.contains(*ip));
                    match self.slots.take(client) {
                        Ok(slot) => {
                            if self.has_spare {
                                self.spare.refill();
                            }
                            let has_proxy_header =
                                self.proxies.send_header && ip.is_some() && client.is_none();
                            return Accepted { stream, address, slot, has_proxy_header };
                        }
                        Err(error) => self.warn(&error, ip),
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.warn(&error, None);
                    if descriptors::is_exhausted(&error) && self.spare.release() {
                        continue;
                    }
                    sleep(self.backoff).await;
                    self.backoff = (self.backoff * 2).min(MAX_BACKOFF);
                }
            }
        }
    }

    fn warn(&mut self, error: &dyn std::error::Error, address: Option<IpAddr>) {
        self.turned_away += 1;
        let now = Instant::now();
        if self.warned_at.is_some_and(|then| now.duration_since(then) < WARNING_INTERVAL) {
            return;
        }
        tracing::warn!(
            event = "connections_refused",
            port = self.name,
            %error,
            address = address.map(tracing::field::display),
            connections = self.turned_away,
            "cannot take connections"
        );
        self.warned_at = Some(now);
        self.turned_away = 0;
    }
}

/// Returns whether an error concerns only the connection to be accepted, not the port.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::slots::ConnectionLimits;
    use super::*;

    /// Yields one outcome after the other, then nothing.
    struct Script(Mutex<Vec<io::Result<u8>>>);

    impl Listen for Script {
        type Stream = u8;

        async fn accept(&self) -> io::Result<(u8, Option<SocketAddr>)> {
            let next = self.0.lock().unwrap().pop();
            let Some(next) = next else { return std::future::pending().await };
            let address = "192.0.2.1:1".parse().unwrap();
            next.map(|stream| (stream, Some(address)))
        }
    }

    fn acceptor(mut script: Vec<io::Result<u8>>, limits: ConnectionLimits) -> Acceptor<Script> {
        script.reverse();
        Acceptor::new(Script(Mutex::new(script)), "test", ConnectionSlots::new(limits))
    }

    fn no_descriptors() -> io::Result<u8> {
        Err(rustix::io::Errno::MFILE.into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_without_descriptors_waits_longer_after_each_try() {
        let mut script: Vec<_> = (0..12).map(|_| no_descriptors()).collect();
        script.push(Ok(7));
        let mut acceptor = acceptor(script, ConnectionLimits::default());
        let began = Instant::now();
        let accepted = acceptor.accept().await;
        assert_eq!((accepted.stream, accepted.address), (7, "192.0.2.1:1".parse().ok()));
        // 20 + 40 + … + 640 ms, and a second for each of the other six.
        assert!(began.elapsed() >= Duration::from_millis(7_260), "{:?}", began.elapsed());
        assert_eq!(acceptor.backoff, MIN_BACKOFF);
    }

    #[tokio::test(start_paused = true)]
    async fn a_spare_descriptor_takes_the_place_of_a_wait() {
        let script = vec![no_descriptors(), Ok(7)];
        let mut acceptor = acceptor(script, ConnectionLimits::default()).with_spare_descriptors();
        let began = Instant::now();
        assert_eq!(acceptor.accept().await.stream, 7);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_broke_before_it_was_accepted_delays_nobody() {
        let script = vec![Err(io::ErrorKind::ConnectionAborted.into()), Ok(7)];
        let mut acceptor = acceptor(script, ConnectionLimits::default());
        let began = Instant::now();
        assert_eq!(acceptor.accept().await.stream, 7);
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_beyond_the_limit_are_closed_and_those_after_them_served() {
        let limits = ConnectionLimits { total: Some(1), per_address: None };
        let mut acceptor = acceptor(vec![Ok(1), Ok(2), Ok(3)], limits);
        let first = acceptor.accept().await;
        assert_eq!(first.stream, 1);
        let none = tokio::time::timeout(Duration::from_secs(1), acceptor.accept()).await;
        assert!(none.is_err(), "two and three were turned away");
        drop(first);
        acceptor.listener.0.lock().unwrap().push(Ok(4));
        assert_eq!(acceptor.accept().await.stream, 4);
    }
}
