//! Limits on requests per minute, tokens per minute and requests at the same time.
//!
//! Pure over `now`, the monotonic time: no clock, no IO. [`Limiter::admit`] says yes or no in one
//! step for all scopes of a request; the [`Permit`] it returns gives the concurrency slots back.

mod in_use;
mod window;

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::domain::id::{AccountId, KeyId, ModelId};
use crate::domain::limit::{LimitKind, LimitScope, Limits};
use window::Window;

pub use in_use::{LimitUse, Limited, Moment};

/// Counts what is limited. One for the whole gateway.
#[derive(Default)]
pub struct Limiter {
    accounts: Meters<AccountId>,
    models: Meters<ModelId>,
    keys: Meters<KeyId>,
}

/// Who a request counts against, and the limits there.
pub struct Subject<'a> {
    /// The account, with its plan's limits.
    pub account: (AccountId, &'a Limits),
    /// The model, with its own.
    pub model: (&'a ModelId, &'a Limits),
    /// The key, with its own.
    pub key: (&'a KeyId, &'a Limits),
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What it belongs to.
    pub scope: LimitScope,
    /// What it counts.
    pub kind: LimitKind,
    /// The limit.
    pub limit: u64,
    /// When it is worth to try again.
    pub retry_after: Duration,
}

/// An admitted request. Dropping it frees its concurrency slots.
#[derive(Debug)]
pub struct Permit {
    meters: [Option<Arc<Meter>>; 3],
}

type Meters<K> = papaya::HashMap<K, Arc<Meter>>;

/// What one account, model or key has used.
#[derive(Debug, Default)]
struct Meter {
    requests: Mutex<Window>,
    tokens: Mutex<Window>,
    in_flight: AtomicU64,
}

// === impl Limiter ===

impl Limiter {
    /// Admits a request that arrives at `now`, or names the first limit that it would exceed. A
    /// refused request counts nowhere.
    ///
    /// # Errors
    /// [`Exceeded`], the plan's limit before the model's before the key's.
    pub fn admit(&self, subject: &Subject<'_>, now: Duration) -> Result<Permit, Exceeded> {
        let scopes = [
            (
                LimitScope::Plan,
                subject.account.1,
                meter(&self.accounts, &subject.account.0, subject.account.1),
            ),
            (
                LimitScope::Model,
                subject.model.1,
                meter(&self.models, subject.model.0, subject.model.1),
            ),
            (LimitScope::Key, subject.key.1, meter(&self.keys, subject.key.0, subject.key.1)),
        ];
        for (taken, (scope, limits, meter)) in scopes.iter().enumerate() {
            let Some(meter) = meter else { continue };
            if let Err((kind, limit, retry_after)) = meter.take(limits, now) {
                for earlier in scopes[..taken].iter().filter_map(|(_, _, meter)| meter.as_ref()) {
                    earlier.give_back(now);
                }
                return Err(Exceeded { scope: *scope, kind, limit, retry_after });
            }
        }
        Ok(Permit { meters: scopes.map(|(_, _, meter)| meter) })
    }
}

/// Returns the meter of `id`, or `None` where nothing is limited and so nothing need be counted.
fn meter<K: Hash + Eq + Clone>(meters: &Meters<K>, id: &K, limits: &Limits) -> Option<Arc<Meter>> {
    if *limits == Limits::default() {
        return None;
    }
    let pinned = meters.pin();
    if let Some(meter) = pinned.get(id) {
        return Some(meter.clone());
    }
    Some(pinned.get_or_insert_with(id.clone(), Arc::default).clone())
}

// === impl Permit ===

impl Permit {
    /// Counts the tokens that the request took, once they are known.
    pub fn spend(&self, tokens: u64, now: Duration) {
        for meter in self.meters.iter().flatten() {
            lock(&meter.tokens).add(tokens, now);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        for meter in self.meters.iter().flatten() {
            meter.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

// === impl Meter ===

impl Meter {
    fn take(&self, limits: &Limits, now: Duration) -> Result<(), (LimitKind, u64, Duration)> {
        if let Some(limit) = limits.tpm {
            let tokens = lock(&self.tokens);
            if tokens.sum(now) >= limit {
                return Err((LimitKind::Tokens, limit, tokens.free_at(limit, now)));
            }
        }
        let before = self.in_flight.fetch_add(1, Ordering::Relaxed);
        if let Some(limit) = limits.concurrency.filter(|&limit| before >= limit) {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            return Err((LimitKind::Concurrency, limit, Duration::from_secs(1)));
        }
        let mut requests = lock(&self.requests);
        if let Some(limit) = limits.rpm.filter(|&limit| requests.sum(now) >= limit) {
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            return Err((LimitKind::Requests, limit, requests.free_at(limit, now)));
        }
        requests.add(1, now);
        Ok(())
    }

    fn give_back(&self, now: Duration) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        lock(&self.requests).remove(1, now);
    }
}

/// Held for a few additions, never across an await. A panic elsewhere leaves only counts behind.
fn lock(window: &Mutex<Window>) -> std::sync::MutexGuard<'_, Window> {
    window.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
