//! The connections of a pool that can take a request: idle ones of HTTP/1.1, and the one of HTTP/2 that all requests share.
//!
//! A task closes those that are stale or that the upstream has closed; it runs while there are any.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::HeaderMap;
use hyper::client::conn::http2;
use tokio::task::coop;
use tokio::time::Instant;

use super::spawn_detached;
use crate::upstream::driven::DrivenConnection;
use crate::upstream::outbound::Outbound;

/// A connection that was idle for longer is closed, because servers and middleboxes may have dropped it.
pub(super) const MAX_IDLE: Duration = Duration::from_secs(90);
/// How much earlier than its server an idle connection is closed, if the server announces when it does.
const IDLE_MARGIN: Duration = Duration::from_secs(1);
/// The largest number of idle connections of one worker. Each takes a descriptor and some KiB.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// The interval at which connections that the upstream has closed are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The connections that can take a request.
#[derive(Default)]
pub(in crate::upstream) struct Idle(Mutex<IdleConnections>);

#[derive(Default)]
pub(super) struct IdleConnections {
    /// The HTTP/1.1 connections and the time until which they may be used, the most recently used last.
    pub(super) http1: Vec<(Box<DrivenConnection>, Instant)>,
    http2: Option<SharedConnection>,
    /// The number of HTTP/2 connections opened so far.
    opened_http2: u64,
    /// Whether the last connection speaks HTTP/2.
    is_http2: bool,
    /// Whether a task closes stale connections.
    has_sweeper: bool,
}

/// A connection that can take a request.
pub(super) enum Connection {
    Http1(Box<DrivenConnection>),
    Http2(SharedConnection),
}

/// Identifies an HTTP/2 connection of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Http2Id(u64);

/// An HTTP/2 connection. It closes once all handles and requests are dropped.
#[derive(Clone)]
pub(super) struct SharedConnection {
    pub(super) sender: http2::SendRequest<Outbound>,
    pub(super) id: Http2Id,
    last_used: Instant,
}

// === impl Idle ===

impl Idle {
    /// Takes the HTTP/2 connection, or the most recently used one of HTTP/1.1, if it is open.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut kept = self.lock();
        if let Some(shared) = kept.open_http2() {
            shared.last_used = Instant::now();
            return Some(Connection::Http2(shared.clone()));
        }
        loop {
            let (mut connection, usable_until) = kept.http1.pop()?;
            if is_usable(&mut connection, usable_until) {
                return Some(Connection::Http1(connection));
            }
        }
    }

    /// Keeps an HTTP/1.1 connection for the next request, for up to `max_idle`, unless there are many.
    pub(super) fn put(self: Arc<Self>, connection: Box<DrivenConnection>, max_idle: Duration) {
        let mut kept = self.lock();
        if kept.http1.len() < MAX_IDLE_CONNECTIONS {
            kept.http1.push((connection, Instant::now() + max_idle));
            self.start_sweeper(&mut kept);
        }
    }

    /// Returns the number of HTTP/1.1 connections.
    pub(in crate::upstream) fn count(&self) -> usize {
        self.lock().http1.len()
    }

    /// Closes the HTTP/1.1 connection that was not used for the longest time. Returns whether there was one.
    pub(in crate::upstream) fn drop_oldest(&self) -> bool {
        let mut kept = self.lock();
        if kept.http1.is_empty() {
            return false;
        }
        kept.http1.remove(0);
        true
    }

    /// Keeps an HTTP/2 connection for all requests, unless another one was opened meanwhile. Returns the one to
    /// use.
    pub(super) fn share(
        self: &Arc<Self>,
        sender: http2::SendRequest<Outbound>,
    ) -> SharedConnection {
        let mut kept = self.lock();
        kept.is_http2 = true;
        if let Some(shared) = kept.open_http2() {
            return shared.clone();
        }
        kept.opened_http2 += 1;
        let id = Http2Id(kept.opened_http2);
        let shared = SharedConnection { sender, id, last_used: Instant::now() };
        kept.http2 = Some(shared.clone());
        self.start_sweeper(&mut kept);
        shared
    }

    /// Gives no more requests to an HTTP/2 connection.
    pub(super) fn forget(&self, id: Http2Id) {
        self.lock().http2.take_if(|shared| shared.id == id);
    }

    /// Returns whether the last connection that was opened speaks HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.lock().is_http2
    }

    /// Records that a connection was opened that speaks HTTP/1.1.
    pub(super) fn note_http1(&self) {
        self.lock().is_http2 = false;
    }

    fn start_sweeper(self: &Arc<Self>, kept: &mut IdleConnections) {
        if !std::mem::replace(&mut kept.has_sweeper, true) {
            // Without a cooperative budget, which would end after some closed connections.
            spawn_detached(coop::unconstrained(sweep(Arc::downgrade(self))));
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnections {
    /// Returns the HTTP/2 connection unless it is closed.
    fn open_http2(&mut self) -> Option<&mut SharedConnection> {
        self.http2.take_if(|shared| shared.sender.is_closed());
        self.http2.as_mut()
    }

    /// Drops the connections that are stale, and those that the upstream has closed.
    pub(super) fn drop_unusable(&mut self) {
        self.http1.retain_mut(|(connection, usable_until)| is_usable(connection, *usable_until));
        self.http2
            .take_if(|shared| shared.sender.is_closed() || shared.last_used.elapsed() >= MAX_IDLE);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.http1.is_empty() && self.http2.is_none()
    }
}

/// Returns whether an idle connection can take a request.
fn is_usable(connection: &mut DrivenConnection, until: Instant) -> bool {
    Instant::now() < until && (!connection.was_woken() || connection.is_ready())
}

/// Returns how long a connection may be idle, from the `Keep-Alive` header of its last answer.
pub(super) fn max_idle(headers: &HeaderMap) -> Duration {
    let parameters = headers.get("keep-alive").and_then(|value| value.to_str().ok());
    let announced = parameters.into_iter().flat_map(|text| text.split(',')).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let seconds = value.trim().trim_matches('"').parse().ok();
        seconds.filter(|_| name.trim().eq_ignore_ascii_case("timeout"))
    });
    announced.map_or(MAX_IDLE, |seconds| {
        Duration::from_secs(seconds).saturating_sub(IDLE_MARGIN).min(MAX_IDLE)
    })
}

/// Closes unusable connections until none is left.
async fn sweep(idle: Weak<Idle>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut kept = idle.lock();
        kept.drop_unusable();
        kept.has_sweeper = !kept.is_empty();
        if !kept.has_sweeper {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_closed_before_its_server_closes_it() {
        let idle_after = |text: &str| {
            max_idle(&HeaderMap::from_iter([(
                "keep-alive".parse().unwrap(),
                text.parse().unwrap(),
            )]))
        };
        assert_eq!(max_idle(&HeaderMap::new()), MAX_IDLE);
        assert_eq!(idle_after("timeout=5, max=1000"), Duration::from_secs(4));
        assert_eq!(idle_after("max=7, Timeout = \"2\""), Duration::from_secs(1));
        assert_eq!(idle_after("timeout=0"), Duration::ZERO);
        assert_eq!(idle_after("timeout=99999"), MAX_IDLE);
        assert_eq!(idle_after("timeout=soon"), MAX_IDLE);
    }
}
