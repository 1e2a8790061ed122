//! Reports how much of each limit is in use.

use jiff::Timestamp;

use super::meter::SubjectCounts;
use super::{Limiter, Moment};
use domain::allocation::LimitSubject;
use domain::id::{AccountId, KeyId, ModelId};
use domain::limit::{LimitKind, LimitScope, Limits};

/// A limit and its current usage, reservations included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitUse {
    /// The owner of the limit.
    pub scope: LimitScope,
    /// The counted quantity.
    pub kind: LimitKind,
    /// The limit, in units of `kind`.
    pub limit: u64,
    /// The usage, in units of `kind`.
    pub used: u64,
    /// Whether requests above the limit are admitted and only noted on their records.
    pub observed: bool,
    /// The time at which the whole limit is available again if nothing more is used; `None` if time alone
    /// does not free it.
    pub resets_at: Option<Timestamp>,
}

/// The owner of a set of limits.
#[derive(Clone, Copy, Debug)]
pub enum LimitOwner<'a> {
    /// A plan, as used by this account.
    Plan(AccountId),
    /// A model.
    Model(&'a ModelId),
    /// A key, by its [origin](domain::key::Key::origin).
    Key(&'a KeyId),
}

impl LimitOwner<'_> {
    /// Returns the owner, as the owner of shared pools.
    pub fn subject(self) -> LimitSubject {
        match self {
            LimitOwner::Plan(account) => LimitSubject::Account(account),
            LimitOwner::Model(model) => LimitSubject::Model(model.clone()),
            LimitOwner::Key(key) => LimitSubject::Key(key.clone()),
        }
    }
}

impl Limiter {
    /// Returns the usage of each limit that is set, at `now`.
    pub fn limits_in_use(&self, of: LimitOwner<'_>, limits: &Limits, now: Moment) -> Vec<LimitUse> {
        let (scope, meter) = match of {
            LimitOwner::Plan(account) => {
                (LimitScope::Plan, self.accounts.pin().get(&account).cloned())
            }
            LimitOwner::Model(model) => (LimitScope::Model, self.models.pin().get(model).cloned()),
            LimitOwner::Key(key) => (LimitScope::Key, self.keys.pin().get(key).cloned()),
        };
        match meter {
            Some(meter) => in_use(scope, limits, &mut meter.lock(), now),
            None => in_use(scope, limits, &mut SubjectCounts::default(), now),
        }
    }
}

fn in_use(
    scope: LimitScope,
    limits: &Limits,
    counts: &mut SubjectCounts,
    now: Moment,
) -> Vec<LimitUse> {
    counts.roll(now.wall);
    let soon = |(used, clear): (u64, std::time::Duration)| (used, now.wall.checked_add(clear).ok());
    [
        (LimitKind::Requests, limits.rpm, soon(counts.requests(now))),
        (LimitKind::Tokens, limits.tpm, soon(counts.tokens(now))),
        (LimitKind::Concurrency, limits.concurrency, (counts.in_flight(), None)),
        (
            LimitKind::MonthlyTokens,
            limits.monthly_tokens,
            (counts.month.committed(), Some(counts.month.end())),
        ),
    ]
    .into_iter()
    .filter_map(|(kind, limit, (used, resets_at))| {
        let used = used.saturating_add(counts.used_elsewhere(limits, kind));
        Some(LimitUse { scope, kind, limit: limit?, used, observed: limits.observe, resets_at })
    })
    .collect()
}
