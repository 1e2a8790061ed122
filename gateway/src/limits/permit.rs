//! The place of one request under its limits.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;

use super::Moment;
use super::meter::{Counts, Meter};
use domain::hold::{HoldPolicy, growth_step, kept, tolerated, tolerated_if_lowered};
use domain::limit::{Demand, Limits};

/// An admitted request: its concurrency slots and the tokens that are reserved for it. Dropping it
/// gives back both.
#[derive(Debug)]
pub struct Permit {
    meters: Meters,
    /// When the request came in: it counts in the month of that.
    began: Timestamp,
    /// `None` if nothing limits its tokens.
    reservation: Option<Box<Reservation>>,
}

/// The meters of the account, the model and the key; `None` where nothing need be counted. They are
/// locked in this order, so that no two requests wait for each other.
pub(super) type Meters = [Option<Arc<Meter>>; 3];

/// Tokens that are reserved for one request, under all of its limits.
#[derive(Debug)]
struct Reservation {
    /// What was counted when, oldest first.
    parts: Vec<(Duration, u64)>,
    /// How many input tokens they are for.
    input: u64,
    /// How many input tokens are reserved of the month, [`Self::month_extra`] among them.
    max_input: u64,
    /// How many output tokens they are for.
    output: u64,
    /// How many are added at a time.
    step: u64,
    /// Where they count per minute.
    per_minute: [bool; 3],
    /// The monthly quotas that must hold.
    quotas: [Option<u64>; 3],
    /// How much more is reserved of the month than of the minute: an answer that comes at once has all
    /// that it may be.
    month_extra: u64,
    /// How many output tokens may come, as the upstream is told; `None` if no quota bounds them.
    max_output: Option<u64>,
    cap: Option<u64>,
}

/// What a request is granted beside its input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// Output tokens, of the minute and of the month.
    output: u64,
    /// More of the month.
    pub(super) month_extra: u64,
    max_output: Option<u64>,
    cap: Option<u64>,
}

/// A request that waits for tokens to be given back. Dropping it ends the wait.
#[derive(Debug)]
pub struct QuotaWait(Meters);

/// Locks those that are there.
pub(super) fn lock(meters: &Meters) -> [Option<MutexGuard<'_, Counts>>; 3] {
    meters.each_ref().map(|meter| meter.as_ref().map(|meter| meter.lock()))
}

// === impl Grant ===

impl Grant {
    /// What is granted to a demand of which a minute has room for `output`. The output is capped by what
    /// its monthly quotas leave, in tokens; `month_left` is `None` where there is no quota.
    pub(super) fn of(demand: &Demand, output: u64, month_left: Option<u64>) -> Self {
        let allowed = month_left.map(|left| {
            let payable = left.saturating_sub(demand.max_input) / demand.choices;
            demand.policy.allowed(demand.longest, payable)
        });
        let max_output = allowed.map(|allowed| allowed.saturating_mul(demand.choices));
        let month_output = match demand.policy {
            HoldPolicy::Plain { .. } => max_output.unwrap_or(output),
            HoldPolicy::Stream => output,
        };
        let month_input = demand.max_input.saturating_sub(demand.input);
        Self {
            output,
            month_extra: month_output.saturating_sub(output).saturating_add(month_input),
            max_output,
            cap: allowed.filter(|&allowed| allowed < demand.longest),
        }
    }
}

// === impl QuotaWait ===

impl QuotaWait {
    pub(super) fn new(meters: Meters) -> Self {
        meters.iter().flatten().for_each(|meter| meter.add_waiter());
        Self(meters)
    }
}

// === impl Permit ===

impl Permit {
    /// A request that was counted everywhere at `now`; if it has a demand, with its input and what it is
    /// granted reserved.
    pub(super) fn new(
        meters: Meters,
        limits: [&Limits; 3],
        demand: Option<(&Demand, Grant)>,
        now: Moment,
    ) -> Self {
        let reservation = demand.map(|(demand, grant)| {
            Box::new(Reservation {
                parts: vec![(now.monotonic, demand.input.saturating_add(grant.output))],
                input: demand.input,
                max_input: demand.max_input,
                output: grant.output,
                step: demand.step,
                per_minute: limits.map(|limits| limits.tpm.is_some()),
                quotas: limits.map(|limits| limits.monthly_tokens.filter(|_| !limits.observe)),
                month_extra: grant.month_extra,
                max_output: grant.max_output,
                cap: grant.cap,
            })
        });
        Self { meters, began: now.wall, reservation }
    }

    /// The cap to send upstream, in tokens for each answer, where the client's own is more than its
    /// monthly quotas leave.
    pub fn cap(&self) -> Option<u64> {
        self.reservation.as_ref()?.cap
    }

    /// Whether the answer is capped because of what is reserved for the input: a count of the input that
    /// is lower than its bound would allow an answer that is longer by an eighth or more.
    pub fn is_capped_by_input(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| {
            it.cap.is_some() && it.max_output.is_some_and(|output| it.max_input > output / 8)
        })
    }

    /// Makes sure that so many output tokens are reserved, with another part if need be; what a
    /// minute's limit has no room for is counted all the same. `false` if a monthly quota does not
    /// leave as many.
    pub fn ensure_covered(&mut self, output_tokens: u64, now: impl Fn() -> Duration) -> bool {
        let Some(reservation) = &mut self.reservation else { return true };
        // an answer that the upstream ends by its cap is not ended by an estimate
        let output_tokens = reservation.max_output.map_or(output_tokens, |max| {
            if reservation.is_within_cap(output_tokens) {
                output_tokens.min(max)
            } else {
                output_tokens
            }
        });
        while reservation.output < output_tokens.saturating_add(reservation.step / 4) {
            if !reservation.grow(&self.meters, self.began, now()) {
                return output_tokens <= reservation.output;
            }
        }
        true
    }

    /// Gives back what a stream of so many tokens so far does not need of its monthly quotas, but for a
    /// little. A reservation of all that may come stays as it is.
    pub fn shrink(&mut self, output_tokens: u64) {
        let Some(reservation) = &mut self.reservation else { return };
        let is_bounded = reservation.max_output.is_some_and(|max| reservation.output < max);
        let surplus = reservation.output.saturating_sub(kept(output_tokens));
        if is_bounded && surplus > 0 {
            reservation.output -= reservation.give_back(&self.meters, self.began, surplus);
        }
    }

    /// Takes in how many tokens the input is at most, and gives back what was reserved for more.
    pub fn bound_input(&mut self, input_tokens: u64) {
        let Some(reservation) = &mut self.reservation else { return };
        let extra = |input: u64, max_input: u64| max_input.saturating_sub(input);
        let before = extra(reservation.input, reservation.max_input);
        let max_input = reservation.max_input.min(input_tokens);
        let after = extra(reservation.input.min(input_tokens), max_input);
        let released = before.saturating_sub(after).min(reservation.month_extra);
        reservation.max_input = max_input;
        if released > 0 {
            reservation.month_extra -= released;
            for counts in lock(&self.meters).iter_mut().flatten() {
                counts.month.release(released, self.began);
            }
        }
        let surplus = reservation.input.saturating_sub(input_tokens);
        if surplus > 0 {
            reservation.input -= reservation.give_back(&self.meters, self.began, surplus);
        }
    }

    /// Whether so much text can be added to an answer of `bound` tokens without reserving more for it;
    /// in bytes.
    pub fn has_room(&self, bound: u64, bytes: u64) -> bool {
        self.reservation.as_ref().is_none_or(|reservation| {
            bound.saturating_add(bytes) <= reservation.output
                || reservation.max_output.is_none_or(|max| reservation.output >= max)
        })
    }

    /// Whether some request waits for tokens that this one may not need.
    pub fn has_waiters(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| it.max_output.is_some())
            && self.meters.iter().flatten().any(|meter| meter.has_waiters())
    }

    /// Whether other requests have reserved tokens of a month that they may give back.
    pub fn is_shared(&self) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        let reserved = reservation.total().saturating_add(reservation.month_extra);
        let mut places = lock(&self.meters).into_iter().zip(reservation.quotas);
        places.any(|(counts, quota)| {
            counts.zip(quota).is_some_and(|(counts, _)| counts.month.reserved() > reserved)
        })
    }

    /// Has other requests give back the tokens that they do not need, for as long as the guard lives.
    pub fn wait(&self) -> QuotaWait {
        QuotaWait::new(self.meters.clone())
    }

    /// How many tokens are reserved.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> u64 {
        self.reservation.as_ref().map_or(0, |reservation| reservation.total())
    }

    /// Ends the request, which used so many tokens: counts them, and gives back what else was
    /// reserved.
    pub fn settle(mut self, used: u64, now: impl Fn() -> Duration) {
        self.end(used, now);
    }

    fn end(&mut self, used: u64, now: impl Fn() -> Duration) {
        let (meters, reservation) = (std::mem::take(&mut self.meters), self.reservation.take());
        let reserved = reservation.as_ref().map_or(0, |reservation| reservation.total());
        let extra = reservation.as_ref().map_or(0, |reservation| reservation.month_extra);
        for (place, counts) in lock(&meters).iter_mut().enumerate() {
            let Some(counts) = counts else { continue };
            counts.leave();
            counts.month.settle(reserved.saturating_add(extra), used, self.began);
            if let Some(reservation) = reservation.as_ref().filter(|it| it.per_minute[place]) {
                reservation.settle(counts, used, &now);
            }
        }
    }
}

impl Drop for QuotaWait {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(|meter| meter.remove_waiter());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // nothing was used, so that the time does not matter
        self.end(0, || Duration::ZERO);
    }
}

// === impl Reservation ===

impl Reservation {
    fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens))
    }

    /// Reserves another step, or what the quotas leave of it; `false` if that is nothing.
    fn grow(&mut self, meters: &Meters, began: Timestamp, now: Duration) -> bool {
        let mut places = lock(meters);
        let mut step = self.step;
        for (counts, quota) in places.iter().zip(self.quotas) {
            if let Some((counts, quota)) = counts.as_ref().zip(quota) {
                let left = quota.saturating_sub(counts.month.taken());
                step = step.min(growth_step(left)).min(left);
            }
        }
        step = step.min(self.max_output.map_or(step, |max| max.saturating_sub(self.output)));
        if step == 0 {
            return false;
        }
        for (counts, per_minute) in places.iter_mut().zip(self.per_minute) {
            if let Some(counts) = counts {
                counts.reserve(per_minute, step, now, began);
            }
        }
        self.parts.push((now, step));
        self.output = self.output.saturating_add(step);
        true
    }

    /// Gives back so many tokens, the newest ones first; returns how many there were.
    fn give_back(&mut self, meters: &Meters, began: Timestamp, surplus: u64) -> u64 {
        let mut places = lock(meters);
        let mut rest = surplus;
        while let Some((then, tokens)) = self.parts.last_mut().filter(|_| rest > 0) {
            let back = rest.min(*tokens);
            for (counts, per_minute) in places.iter_mut().zip(self.per_minute) {
                if let Some(counts) = counts.as_mut().filter(|_| per_minute) {
                    counts.take_tokens_back(back, *then);
                }
            }
            *tokens -= back;
            rest -= back;
            if *tokens == 0 {
                self.parts.pop();
            }
        }
        for counts in places.iter_mut().flatten() {
            counts.month.release(surplus - rest, began);
        }
        surplus - rest
    }

    /// Whether an upstream can have kept to the cap that was sent if its answer is so long by our
    /// tokenizer.
    fn is_within_cap(&self, output_tokens: u64) -> bool {
        self.max_output.is_none_or(|max| {
            let is_lowered = self.cap.is_some();
            output_tokens <= if is_lowered { tolerated_if_lowered(max) } else { tolerated(max) }
        })
    }

    /// Makes what was counted in the minute what was used, from the end.
    fn settle(&self, counts: &mut Counts, used: u64, now: impl Fn() -> Duration) {
        let reserved = self.total();
        let mut unused = reserved.saturating_sub(used);
        for (then, tokens) in self.parts.iter().rev() {
            if unused == 0 {
                break;
            }
            let back = unused.min(*tokens);
            counts.take_tokens_back(back, *then);
            unused -= back;
        }
        if used > reserved {
            counts.add_tokens(used - reserved, now());
        }
    }
}
