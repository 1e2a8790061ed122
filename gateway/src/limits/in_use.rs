//! How much of each limit is used.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use super::window::Window;
use super::{Limiter, lock};
use crate::domain::id::{AccountId, KeyId, ModelId};
use crate::domain::limit::{LimitKind, LimitScope, Limits};

/// A point in time, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// What minutes are measured by.
    pub monotonic: Duration,
    /// What people are told.
    pub wall: Timestamp,
}

/// One limit and how much of it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// What it belongs to.
    pub scope: LimitScope,
    /// What it counts.
    pub kind: LimitKind,
    /// The limit.
    pub limit: u64,
    /// How much of it is used.
    pub used: u64,
    /// Whether it is only observed.
    pub observed: bool,
    /// When all of it is there again, if nothing more is used; `None` if that is not a matter of time.
    pub resets_at: Option<Timestamp>,
}

/// Whose limits.
#[derive(Clone, Copy, Debug)]
pub enum Limited<'a> {
    /// A plan's, as used by this account.
    Plan(AccountId),
    /// A model's.
    Model(&'a ModelId),
    /// A key's.
    Key(&'a KeyId),
}

impl Limiter {
    /// Returns how much of each of these limits is used `now`; those that are not set are left out.
    pub fn limits_in_use(&self, of: Limited<'_>, limits: &Limits, now: Moment) -> Vec<LimitUse> {
        let (scope, meter) = match of {
            Limited::Plan(account) => {
                (LimitScope::Plan, self.accounts.pin().get(&account).cloned())
            }
            Limited::Model(model) => (LimitScope::Model, self.models.pin().get(model).cloned()),
            Limited::Key(key) => (LimitScope::Key, self.keys.pin().get(key).cloned()),
        };
        let meter = meter.unwrap_or_default();
        [
            (LimitKind::Requests, limits.rpm, of_minute(&meter.requests, now)),
            (LimitKind::Tokens, limits.tpm, of_minute(&meter.tokens, now)),
            (
                LimitKind::Concurrency,
                limits.concurrency,
                (meter.in_flight.load(Ordering::Relaxed), None),
            ),
        ]
        .into_iter()
        .filter_map(|(kind, limit, (used, resets_at))| {
            Some(LimitUse { scope, kind, limit: limit?, used, observed: false, resets_at })
        })
        .collect()
    }
}

/// What a window holds, and when it is empty.
fn of_minute(window: &Mutex<Window>, now: Moment) -> (u64, Option<Timestamp>) {
    let window = lock(window);
    let used = window.sum(now.monotonic);
    let empty = window.free_at(1, now.monotonic);
    (used, now.wall.checked_add(empty).ok().filter(|_| used > 0))
}
