//! How much of each limit is used.

use jiff::Timestamp;

use super::meter::Counts;
use super::{Limiter, Moment};
use domain::id::{AccountId, KeyId, ModelId};
use domain::limit::{LimitKind, LimitScope, Limits};

/// One limit and how much of it is used, reservations included.
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
    /// A key's, by its origin.
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
        match meter {
            Some(meter) => in_use(scope, limits, &mut meter.lock(), now),
            None => in_use(scope, limits, &mut Counts::default(), now),
        }
    }
}

fn in_use(scope: LimitScope, limits: &Limits, counts: &mut Counts, now: Moment) -> Vec<LimitUse> {
    counts.month.roll(now.wall);
    let soon = |(used, clear): (u64, std::time::Duration)| (used, now.wall.checked_add(clear).ok());
    [
        (LimitKind::Requests, limits.rpm, soon(counts.requests(now))),
        (LimitKind::Tokens, limits.tpm, soon(counts.tokens(now))),
        (LimitKind::Concurrency, limits.concurrency, (counts.in_flight(), None)),
        (
            LimitKind::MonthlyTokens,
            limits.monthly_tokens,
            (counts.month.taken(), Some(counts.month.end())),
        ),
    ]
    .into_iter()
    .filter_map(|(kind, limit, (used, resets_at))| {
        Some(LimitUse { scope, kind, limit: limit?, used, observed: limits.observe, resets_at })
    })
    .collect()
}
