//! The reservation of one request under its limits.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;

use super::Moment;
use super::meter::{SubjectCounts, SubjectMeter};
use super::share;
use domain::hold::{
    HoldPolicy, growth_step, max_tolerated_if_lowered, max_tolerated_output, retained_hold,
};
use domain::limit::{Demand, LimitKind, Limits};

/// The concurrency slots and reserved tokens of an admitted request. Dropping it releases both.
#[derive(Debug)]
pub struct Permit {
    meters: Meters,
    /// The arrival of the request, which decides the month it counts in.
    began: Timestamp,
    /// `None` if no limit counts the request's tokens.
    reservation: Option<Box<Reservation>>,
}

/// The meters of the account, the model and the key; `None` once the request has ended. Invariant: they are
/// locked in this order, which rules out deadlocks.
pub(super) type Meters = [Option<Arc<SubjectMeter>>; 3];

/// The tokens that are reserved for one request, under all of its limits.
#[derive(Debug)]
struct Reservation {
    /// The amounts that are reserved both in the minute and in the month, and the times at which they were
    /// counted, oldest first. Invariant: their sum is [`Self::input`] plus [`Self::output`].
    parts: Vec<(Duration, u64)>,
    /// The estimated input tokens. They are part of [`Self::parts`].
    input: u64,
    /// The bound on the input tokens. The difference to [`Self::input`] is part of [`Self::month_extra`].
    max_input: u64,
    /// The output tokens that are part of [`Self::parts`].
    output: u64,
    /// The number of output tokens by which the reservation grows.
    step: u64,
    /// The meters that count tokens per minute.
    per_minute: [bool; 3],
    /// The monthly quotas that are enforced.
    quotas: [Option<u64>; 3],
    /// The tokens that are reserved in the month but not in the minute: the part of the bound on the input
    /// above the estimate, and the part of a non-streamed answer above [`Self::output`].
    month_extra: u64,
    /// The output that the monthly quotas allow, over all choices, in tokens: at most the client's or the
    /// model's own cap. `None` if no quota is enforced.
    max_output: Option<u64>,
    /// The output cap to send upstream, in tokens for each choice; `None` if no quota lowers the client's or
    /// the model's own cap.
    cap: Option<u64>,
}

/// The tokens that a request is granted beside its input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    /// The output tokens that are reserved at first, in the minute and in the month. At most
    /// [`Self::max_output`].
    pub(super) output: u64,
    /// The tokens that are reserved in the month beyond `Demand::input` and [`Self::output`].
    pub(super) month_extra: u64,
    /// As in [`Reservation`].
    max_output: Option<u64>,
    /// As in [`Reservation`].
    pub(super) cap: Option<u64>,
}

/// A request that waits for tokens to be released. Dropping it ends the wait.
#[derive(Debug)]
pub struct QuotaWaitGuard(Meters);

/// Locks the meters that are present.
pub(super) fn lock(meters: &Meters) -> [Option<MutexGuard<'_, SubjectCounts>>; 3] {
    meters.each_ref().map(|meter| meter.as_ref().map(|meter| meter.lock()))
}

// === impl Grant ===

impl Grant {
    /// Computes the grant for a demand if the limits leave `left` tokens and the monthly quotas leave
    /// `month_left`; `None` means no such limit. Invariant: if `month_left` covers the bound on the input, the
    /// amount that is reserved in the month is at most `month_left`.
    pub(super) fn of(demand: &Demand, left: Option<u64>, month_left: Option<u64>) -> Self {
        let allowed = month_left.map(|left| {
            let payable = left.saturating_sub(demand.max_input) / demand.choices;
            demand.policy.output_cap(demand.max_answer, payable)
        });
        let max_output = allowed.map(|allowed| allowed.saturating_mul(demand.choices));
        let room = left.map(|left| left.saturating_sub(demand.input));
        // `room` has the estimated input deducted, `max_output` the bound on the input.
        let output = room.into_iter().chain(max_output).fold(demand.output, u64::min);
        let month_output = match demand.policy {
            HoldPolicy::Plain { .. } => max_output.unwrap_or(output),
            HoldPolicy::Stream => output,
        };
        let month_input = demand.max_input.saturating_sub(demand.input);
        Self {
            output,
            month_extra: month_output.saturating_sub(output).saturating_add(month_input),
            max_output,
            cap: allowed.filter(|&allowed| allowed < demand.max_answer),
        }
    }
}

// === impl QuotaWaitGuard ===

impl QuotaWaitGuard {
    pub(super) fn new(meters: Meters) -> Self {
        meters.iter().flatten().for_each(|meter| meter.add_waiter());
        Self(meters)
    }
}

// === impl Permit ===

impl Permit {
    /// Creates the permit of a request that was counted by all meters at `now`. If it has a demand, its input
    /// and its grant are reserved.
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

    /// Returns the output cap to send upstream, in tokens for each choice, if the monthly quotas leave less
    /// than the client's cap, or than the model's maximum if the client set none.
    pub fn cap(&self) -> Option<u64> {
        self.reservation.as_ref()?.cap
    }

    /// Returns whether a quota lowers the output cap, and the bound on the input is more than an eighth of the
    /// allowed output: then an exact count of the input could allow a notably longer answer.
    pub fn is_capped_by_input(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| {
            it.cap.is_some() && it.max_output.is_some_and(|output| it.max_input > output / 8)
        })
    }

    /// Returns whether `output_tokens` of a stream are reserved, and grows the reservation if necessary.
    /// Tokens above a per-minute limit are counted all the same. The result is `false` if a monthly quota
    /// does not leave as many, or if the upstream cannot have kept to the output cap.
    ///
    /// Only for streams: the whole output cap of a non-streamed answer is reserved in the month from the
    /// start, and growing would reserve it again.
    pub fn ensure_covered(&mut self, output_tokens: u64, now: impl Fn() -> Duration) -> bool {
        let Some(reservation) = &mut self.reservation else { return true };
        // The upstream ends the answer at its cap; an estimate must not end it earlier.
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

    /// Releases the part of the monthly reservation that a stream of `output_tokens` so far does not need,
    /// except for a margin. A reservation for the whole answer is kept.
    pub fn shrink(&mut self, output_tokens: u64) {
        let Some(reservation) = &mut self.reservation else { return };
        let is_bounded = reservation.max_output.is_some_and(|max| reservation.output < max);
        let surplus = reservation.output.saturating_sub(retained_hold(output_tokens));
        if is_bounded && surplus > 0 {
            reservation.output -= reservation.give_back(&self.meters, self.began, surplus);
        }
    }

    /// Lowers the bound on the input and releases the difference.
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

    /// Returns whether `bytes` of text can be added to an answer of at most `bound` tokens without growing
    /// the reservation.
    pub fn has_room(&self, bound: u64, bytes: u64) -> bool {
        self.reservation.as_ref().is_none_or(|reservation| {
            bound.saturating_add(bytes) <= reservation.output
                || reservation.max_output.is_none_or(|max| reservation.output >= max)
        })
    }

    /// Returns whether a request waits for tokens that this one may release.
    pub fn has_waiters(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| it.max_output.is_some())
            && self.meters.iter().flatten().any(|meter| meter.has_waiters())
    }

    /// Returns whether other requests hold monthly tokens that they may release, or more may be obtained from other
    /// gateways.
    pub fn is_shared(&self) -> bool {
        let Some(reservation) = &self.reservation else { return false };
        let reserved = reservation.total().saturating_add(reservation.month_extra);
        let mut locked = lock(&self.meters).into_iter().zip(reservation.quotas);
        locked.any(|(counts, quota)| {
            counts.zip(quota).is_some_and(|(mut counts, quota)| {
                let share = counts.share_mut(LimitKind::MonthlyTokens);
                share.is_some_and(|share| share.may_obtain(quota))
                    || counts.month.reserved() > reserved
            })
        })
    }

    /// Registers a request that waits for monthly tokens. While the guard lives, other requests release the
    /// tokens that they do not need.
    pub fn register_waiter(&self) -> QuotaWaitGuard {
        QuotaWaitGuard::new(self.meters.clone())
    }

    /// Returns the reserved tokens.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> u64 {
        self.reservation.as_ref().map_or(0, |reservation| reservation.total())
    }

    /// Ends the request: counts the `used` tokens and releases the rest of the reservation.
    pub fn settle(mut self, used: u64, now: impl Fn() -> Duration) {
        self.end(used, now);
    }

    fn end(&mut self, used: u64, now: impl Fn() -> Duration) {
        let (meters, reservation) = (std::mem::take(&mut self.meters), self.reservation.take());
        let reserved = reservation.as_ref().map_or(0, |reservation| reservation.total());
        let extra = reservation.as_ref().map_or(0, |reservation| reservation.month_extra);
        for (index, counts) in lock(&meters).iter_mut().enumerate() {
            let Some(counts) = counts else { continue };
            counts.end_request();
            counts.month.settle(reserved.saturating_add(extra), used, self.began);
            if let Some(reservation) = reservation.as_ref().filter(|it| it.per_minute[index]) {
                reservation.settle(counts, used, &now);
            }
        }
    }
}

impl Drop for QuotaWaitGuard {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(|meter| meter.remove_waiter());
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Nothing was used, so the time does not matter.
        self.end(0, || Duration::ZERO);
    }
}

// === impl Reservation ===

impl Reservation {
    fn total(&self) -> u64 {
        self.parts.iter().fold(0, |sum, (_, tokens)| sum.saturating_add(*tokens))
    }

    /// Reserves another step, or what the quotas leave of it. Returns `false` if they leave nothing.
    fn grow(&mut self, meters: &Meters, began: Timestamp, now: Duration) -> bool {
        let mut locked = lock(meters);
        let mut step = self.step;
        for (counts, quota) in locked.iter().zip(self.quotas) {
            if let Some((counts, quota)) = counts.as_ref().zip(quota) {
                let left = counts.enforced_month_left(quota);
                step = step.min(growth_step(left)).min(left);
            }
        }
        let rest = self.max_output.map_or(u64::MAX, |max| max.saturating_sub(self.output));
        step = step.min(rest);
        if step == 0 {
            if rest > 0 {
                let lacking = self.request_more(&mut locked);
                drop(locked);
                share::push(
                    lacking.filter_map(|index| {
                        Some((meters[index].clone()?, LimitKind::MonthlyTokens))
                    }),
                );
            }
            return false;
        }
        for (counts, per_minute) in locked.iter_mut().zip(self.per_minute) {
            if let Some(counts) = counts {
                counts.reserve(per_minute, step, now, began);
            }
        }
        self.parts.push((now, step));
        self.output = self.output.saturating_add(step);
        true
    }

    /// Requests another step from the quotas of which this gateway has nothing left and other gateways may have.
    /// Returns the positions of those to add to the queue.
    fn request_more(
        &self,
        locked: &mut [Option<MutexGuard<'_, SubjectCounts>>; 3],
    ) -> impl Iterator<Item = usize> + use<> {
        let mut lacking = Vec::new();
        for (index, (counts, quota)) in locked.iter_mut().zip(self.quotas).enumerate() {
            let Some((counts, quota)) = counts.as_mut().zip(quota) else { continue };
            if counts.enforced_month_left(quota) == 0
                && let Some(share) = counts.share_mut(LimitKind::MonthlyTokens)
                && share.request(quota, self.step)
            {
                lacking.push(index);
            }
        }
        lacking.into_iter()
    }

    /// Releases up to `surplus` tokens, the newest first, and returns how many were released.
    fn give_back(&mut self, meters: &Meters, began: Timestamp, surplus: u64) -> u64 {
        let mut locked = lock(meters);
        let mut rest = surplus;
        while let Some((then, tokens)) = self.parts.last_mut().filter(|_| rest > 0) {
            let back = rest.min(*tokens);
            for (counts, per_minute) in locked.iter_mut().zip(self.per_minute) {
                if let Some(counts) = counts.as_mut().filter(|_| per_minute) {
                    counts.subtract_tokens(back, *then);
                }
            }
            *tokens -= back;
            rest -= back;
            if *tokens == 0 {
                self.parts.pop();
            }
        }
        for counts in locked.iter_mut().flatten() {
            counts.month.release(surplus - rest, began);
        }
        surplus - rest
    }

    /// Returns whether an upstream that kept to its cap can have produced `output_tokens` by our tokenizer.
    fn is_within_cap(&self, output_tokens: u64) -> bool {
        self.max_output.is_none_or(|max| {
            let is_lowered = self.cap.is_some();
            output_tokens
                <= if is_lowered {
                    max_tolerated_if_lowered(max)
                } else {
                    max_tolerated_output(max)
                }
        })
    }

    /// Corrects the minute's count from the reserved to the used tokens, beginning with the newest part.
    fn settle(&self, counts: &mut SubjectCounts, used: u64, now: impl Fn() -> Duration) {
        let reserved = self.total();
        let mut unused = reserved.saturating_sub(used);
        for (then, tokens) in self.parts.iter().rev() {
            if unused == 0 {
                break;
            }
            let back = unused.min(*tokens);
            counts.subtract_tokens(back, *then);
            unused -= back;
        }
        if used > reserved {
            counts.add_tokens(used - reserved, now());
        }
    }
}
