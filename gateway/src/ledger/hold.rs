//! The hold of one request. It grows with the answer and shrinks when less turns out to be needed.

use super::bound::{HoldPlan, cost, tokens_for};
use super::funds::{FundsHold, FundsWait};
use domain::hold::{growth_step, max_tolerated_if_lowered, max_tolerated_output, retained_hold};
use domain::money::Nanos;
use domain::price::Price;

/// Money that is held for one request. Dropping it releases what was not spent.
#[derive(Debug)]
pub struct Hold {
    pub(super) held: FundsHold,
    /// The price per million input tokens, of the more expensive kind.
    input_price: Nanos,
    /// The price per million output tokens.
    output_price: Nanos,
    /// The input tokens that the hold covers.
    input_tokens: u64,
    /// The output tokens that the hold covers.
    output_tokens: u64,
    /// The output tokens that may be produced, as sent upstream.
    max_output_tokens: u64,
    /// The output cap to send upstream, in tokens for each choice; `None` if the balances cover the cap that
    /// the client set, or the model's maximum if it set none.
    pub cap: Option<u64>,
}

impl Hold {
    pub(super) fn new(held: FundsHold, plan: &HoldPlan, input_tokens: u64, price: &Price) -> Self {
        Self {
            held,
            input_price: price.input.max(price.cached),
            output_price: price.output,
            input_tokens,
            output_tokens: plan.output_tokens,
            max_output_tokens: plan.max_output_tokens,
            cap: plan.cap,
        }
    }

    /// Returns whether an answer of at most `bound` output tokens is covered, and grows the hold if necessary.
    ///
    /// If the hold does not cover the whole output cap, the result is `false` if there is not enough money
    /// now. If it does, `bound` may exceed the cap by a tolerance, because our tokenizer may count more
    /// tokens than the upstream's; the result is `false` if the upstream cannot have kept to the cap.
    pub fn ensure_covered(&mut self, bound: u64) -> bool {
        if bound <= self.output_tokens {
            return true;
        }
        if !self.is_complete() && !self.grow(bound) {
            return false;
        }
        let max = self.max_output_tokens;
        let tolerated = if self.cap.is_some() {
            max_tolerated_if_lowered(max)
        } else {
            max_tolerated_output(max)
        };
        bound <= self.output_tokens.max(tolerated)
    }

    /// Returns whether the whole output cap is held, was not lowered, and allows an answer of about `estimate`
    /// tokens, with the tolerance of [`ensure_covered`](Self::ensure_covered). Such an answer need not be
    /// counted, because its whole possible charge is held.
    pub fn is_within_client_cap(&self, estimate: u64) -> bool {
        self.is_complete()
            && self.cap.is_none()
            && estimate <= max_tolerated_output(self.max_output_tokens)
    }

    /// Returns whether `bytes` of text can be added to an answer of at most `bound` tokens without growing
    /// the hold.
    pub fn has_room(&self, bound: u64, bytes: u64) -> bool {
        bound.saturating_add(bytes) <= self.output_tokens || self.is_complete()
    }

    /// Releases what exceeds an answer of `output_tokens` so far, except for a margin. A hold that covers the
    /// whole answer is kept.
    pub fn shrink(&mut self, output_tokens: u64) {
        let keep = retained_hold(output_tokens);
        if !self.is_complete() && self.output_tokens > keep {
            let price = self.output_price;
            self.held.shrink(cost(self.output_tokens, price) + -cost(keep, price));
            self.output_tokens = keep;
        }
    }

    /// Lowers the bound on the input and releases the difference.
    pub fn bound_input(&mut self, input_tokens: u64) {
        if input_tokens < self.input_tokens {
            let price = self.input_price;
            self.held.shrink(cost(self.input_tokens, price) + -cost(input_tokens, price));
            self.input_tokens = input_tokens;
        }
    }

    /// Returns whether the output cap was lowered, and the input costs more than an eighth of the allowed
    /// output: then an exact count of the input could allow a notably longer answer.
    pub fn is_capped_by_input(&self) -> bool {
        let input = cost(self.input_tokens, self.input_price);
        let output = cost(self.max_output_tokens, self.output_price);
        self.cap.is_some() && input.0 > output.0 / 8
    }

    /// Returns whether a request waits for money that this one may release.
    pub fn has_waiters(&self) -> bool {
        self.held.has_waiters()
    }

    /// Returns whether other requests hold money that this hold could grow by.
    pub fn is_shared(&self) -> bool {
        !self.is_complete() && self.held.is_shared()
    }

    /// Registers a request that waits for money. While the guard lives, other requests release the money that
    /// they do not need.
    pub fn register_waiter(&self) -> Option<FundsWait> {
        self.held.register_waiter()
    }

    /// Returns whether the hold covers the whole answer.
    fn is_complete(&self) -> bool {
        self.output_tokens >= self.max_output_tokens
    }

    /// Grows the hold to `output_tokens`, or to the whole answer if that is less, and by a margin if there is
    /// enough money.
    fn grow(&mut self, output_tokens: u64) -> bool {
        let rest = self.max_output_tokens - self.output_tokens;
        let needed = output_tokens.saturating_sub(self.output_tokens).min(rest);
        let payable = tokens_for(self.held.spendable(), self.output_price);
        let wanted = needed.saturating_add(growth_step(payable)).min(rest);
        let grew = [wanted, needed].into_iter().any(|tokens| {
            let grew = self.held.grow(cost(tokens, self.output_price));
            if grew {
                self.output_tokens += tokens;
            }
            grew
        });
        if !grew {
            self.held.request(cost(needed, self.output_price));
        }
        grew
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::balance::Balance;
    use super::super::funds::{Funds, KeyFunds};
    use super::*;

    const PRICE: Price = Price {
        input: Nanos(1_000_000),
        cached: Nanos(100_000),
        output: Nanos(2_000_000),
        version: 1,
    };

    /// Returns a hold for ten input tokens at one nanodollar and some output tokens at two.
    fn hold(funds: &Funds, output_tokens: u64, max_output_tokens: u64) -> Hold {
        let amount = Nanos(10) + cost(output_tokens, PRICE.output);
        let plan = HoldPlan { amount, output_tokens, max_output_tokens, cap: None };
        Hold::new(funds.hold(amount).unwrap(), &plan, 10, &PRICE)
    }

    fn funds(balance: i64) -> Funds {
        let account = Arc::new(Balance::new(Nanos(balance)));
        Funds { account, key: KeyFunds::Uncapped(Arc::default()) }
    }

    #[test]
    fn a_hold_grows_to_the_last_token_that_can_be_paid() {
        let funds = funds(10 + 2 * 100);
        let mut hold = hold(&funds, 16, 1_000);
        assert!(hold.ensure_covered(16) && hold.ensure_covered(50) && hold.ensure_covered(100));
        assert!(
            !hold.ensure_covered(101) && !hold.is_shared(),
            "no other request can release money"
        );
        assert_eq!(funds.spendable(), Nanos::ZERO);
        hold.bound_input(4);
        assert!(hold.ensure_covered(103), "what was held for the input");
        assert!(!hold.ensure_covered(104));
    }

    #[test]
    fn money_that_one_hold_releases_is_available_to_another() {
        let funds = funds(2 * (10 + 2 * 100));
        let (mut rich, mut poor) = (hold(&funds, 150, 1_000), hold(&funds, 20, 1_000));
        assert!(!poor.ensure_covered(60) && poor.is_shared() && !rich.has_waiters());
        let wait = poor.register_waiter();
        assert!(rich.has_waiters());
        rich.shrink(40);
        rich.shrink(40);
        assert!(poor.ensure_covered(60));
        drop(wait);
        assert!(!rich.has_waiters());
        drop((rich, poor));
        assert_eq!(funds.spendable(), Nanos(2 * (10 + 2 * 100)), "all comes back");
    }

    #[test]
    fn an_estimate_does_not_end_an_answer_whose_cap_is_held_in_full() {
        let funds = funds(10 + 2 * 50);
        let mut hold = hold(&funds, 50, 50);
        assert!(hold.has_room(50, 1_000_000));
        assert!(hold.ensure_covered(51) && hold.ensure_covered(4 * 50 + 64));
        assert!(!hold.ensure_covered(4 * 50 + 65), "the upstream does not keep to its cap");
        assert!(hold.is_within_client_cap(4 * 50 + 64));
        assert!(!hold.is_within_client_cap(4 * 50 + 65));
        hold.shrink(0);
        assert_eq!(funds.spendable(), Nanos::ZERO);
    }
}
