//! The place of one request under its limits.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;

use super::Moment;
use super::meter::{Counts, Meter};
use crate::domain::limit::{Demand, Limits};

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
    /// How many output tokens that makes.
    output: u64,
    /// How many are added at a time.
    step: u64,
    /// Where they count per minute.
    per_minute: [bool; 3],
    /// The monthly quotas that must hold.
    quotas: [Option<u64>; 3],
    cap: Option<u64>,
}

/// Locks those that are there.
pub(super) fn lock(meters: &Meters) -> [Option<MutexGuard<'_, Counts>>; 3] {
    meters.each_ref().map(|meter| meter.as_ref().map(|meter| meter.lock()))
}

// === impl Permit ===

impl Permit {
    /// A request that was counted everywhere at `now`; if it has a demand, with its input and so many
    /// output tokens reserved. What monthly quotas leave caps its output; `left` is all there are
    /// where there is none.
    pub(super) fn new(
        meters: Meters,
        limits: [&Limits; 3],
        demand: Option<(&Demand, u64)>,
        left: u64,
        now: Moment,
    ) -> Self {
        let reservation = demand.map(|(demand, output)| {
            let payable = left.saturating_sub(demand.input) / demand.choices;
            Box::new(Reservation {
                parts: vec![(now.monotonic, demand.input.saturating_add(output))],
                output,
                step: demand.step,
                per_minute: limits.map(|limits| limits.tpm.is_some()),
                quotas: limits.map(|limits| limits.monthly_tokens.filter(|_| !limits.observe)),
                cap: (left < u64::MAX && payable < demand.longest).then_some(payable),
            })
        });
        Self { meters, began: now.wall, reservation }
    }

    /// The cap to send upstream, in tokens for each answer, where the client's own is more than its
    /// monthly quotas leave.
    pub fn cap(&self) -> Option<u64> {
        self.reservation.as_ref()?.cap
    }

    /// Makes sure that so many output tokens are reserved, with another part if need be; what a
    /// minute's limit has no room for is counted all the same. `false` if a monthly quota does not
    /// leave as many.
    pub fn reach(&mut self, output_tokens: u64, now: impl Fn() -> Duration) -> bool {
        let Some(reservation) = &mut self.reservation else { return true };
        while reservation.output < output_tokens.saturating_add(reservation.step / 4) {
            if !reservation.grow(&self.meters, self.began, now()) {
                return output_tokens <= reservation.output;
            }
        }
        true
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
        for (place, counts) in lock(&meters).iter_mut().enumerate() {
            let Some(counts) = counts else { continue };
            counts.leave();
            counts.month.settle(reserved, used, self.began);
            if let Some(reservation) = reservation.as_ref().filter(|it| it.per_minute[place]) {
                reservation.settle(counts, used, &now);
            }
        }
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
                step = step.min(quota.saturating_sub(counts.month.taken()));
            }
        }
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
