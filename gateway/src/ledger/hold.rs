//! The money that is held for one request: it grows with the answer, and what turns out not to be needed
//! is given back.

use super::bound::{Bound, cost, tokens_for};
use super::funds::{FundsWait, Held};
use domain::hold::{growth_step, kept, tolerated, tolerated_if_lowered};
use domain::money::Nanos;
use domain::price::Price;

/// Money that is held for one request. Dropping it gives back what was not spent.
#[derive(Debug)]
pub struct Hold {
    pub(super) held: Held,
    /// What a million tokens of the dearer kind of input cost.
    input_price: Nanos,
    /// What a million output tokens cost.
    output_price: Nanos,
    /// How many input tokens the hold pays for.
    input_tokens: u64,
    /// How many output tokens the hold pays for.
    output_tokens: u64,
    /// How many output tokens may come, as the upstream is told.
    max_output_tokens: u64,
    /// The cap to send upstream, in tokens for each answer, where the client's own is more than the
    /// balance can pay.
    pub cap: Option<u64>,
}

impl Hold {
    pub(super) fn new(held: Held, bound: &Bound, input_tokens: u64, price: &Price) -> Self {
        Self {
            held,
            input_price: price.input.max(price.cached),
            output_price: price.output,
            input_tokens,
            output_tokens: bound.output_tokens,
            max_output_tokens: bound.max_output_tokens,
            cap: bound.cap,
        }
    }

    /// Makes sure that an answer is paid for which has `bound` output tokens at most; holds more if need
    /// be. `false` if it is not and cannot be now.
    ///
    /// An answer whose cap is held in full is paid for, unless it is so long that the upstream cannot have
    /// kept to the cap.
    pub fn covers(&mut self, bound: u64) -> bool {
        if bound <= self.output_tokens {
            return true;
        }
        if !self.is_complete() && !self.grow(bound) {
            return false;
        }
        let max = self.max_output_tokens;
        let tolerated = if self.cap.is_some() { tolerated_if_lowered(max) } else { tolerated(max) };
        bound <= self.output_tokens.max(tolerated)
    }

    /// Whether an answer of about `estimate` tokens keeps to a cap that its client set and that is held in full.
    /// It need not be counted then, since all that is charged for it is held.
    pub fn is_within_client_cap(&self, estimate: u64) -> bool {
        self.is_complete() && self.cap.is_none() && estimate <= tolerated(self.max_output_tokens)
    }

    /// Whether so much text can be added to an answer of `bound` tokens without holding more for it;
    /// in bytes.
    pub fn has_room(&self, bound: u64, bytes: u64) -> bool {
        bound.saturating_add(bytes) <= self.output_tokens || self.is_complete()
    }

    /// Gives back what is held beyond an answer of so many tokens so far, but for a little. A hold for
    /// all that may come stays as it is.
    pub fn shrink(&mut self, output_tokens: u64) {
        let keep = kept(output_tokens);
        if !self.is_complete() && self.output_tokens > keep {
            let price = self.output_price;
            self.held.shrink(cost(self.output_tokens, price) + -cost(keep, price));
            self.output_tokens = keep;
        }
    }

    /// Takes in how many tokens the input is at most, and gives back what was held for more.
    pub fn bound_input(&mut self, input_tokens: u64) {
        if input_tokens < self.input_tokens {
            let price = self.input_price;
            self.held.shrink(cost(self.input_tokens, price) + -cost(input_tokens, price));
            self.input_tokens = input_tokens;
        }
    }

    /// Whether the answer is capped because of what is held for the input: a count of the input that is
    /// lower than its bound would allow an answer that is longer by an eighth or more.
    pub fn is_capped_by_input(&self) -> bool {
        let input = cost(self.input_tokens, self.input_price);
        let output = cost(self.max_output_tokens, self.output_price);
        self.cap.is_some() && input.0 > output.0 / 8
    }

    /// Whether some request waits for what this one may not need.
    pub fn has_waiters(&self) -> bool {
        self.held.has_waiters()
    }

    /// Whether other requests hold something with which this hold could grow if they gave it back.
    pub fn is_shared(&self) -> bool {
        !self.is_complete() && self.held.is_shared()
    }

    /// Has other requests give back what they do not need, for as long as the guard lives.
    pub fn wait(&self) -> Option<FundsWait> {
        self.held.wait()
    }

    /// Whether all that may come is held for.
    fn is_complete(&self) -> bool {
        self.output_tokens >= self.max_output_tokens
    }

    /// Holds for so many output tokens or for all that may come, and for some more where there is enough.
    fn grow(&mut self, output_tokens: u64) -> bool {
        let rest = self.max_output_tokens - self.output_tokens;
        let needed = output_tokens.saturating_sub(self.output_tokens).min(rest);
        let payable = tokens_for(self.held.spendable(), self.output_price);
        let wanted = needed.saturating_add(growth_step(payable)).min(rest);
        [wanted, needed].into_iter().any(|tokens| {
            let grew = self.held.grow(cost(tokens, self.output_price));
            if grew {
                self.output_tokens += tokens;
            }
            grew
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::balance::Balance;
    use super::super::funds::Funds;
    use super::*;

    const PRICE: Price = Price {
        input: Nanos(1_000_000),
        cached: Nanos(100_000),
        output: Nanos(2_000_000),
        version: 1,
    };

    /// A hold for ten input and some output tokens, at a nanodollar and two.
    fn hold(funds: &Funds, output_tokens: u64, max_output_tokens: u64) -> Hold {
        let amount = Nanos(10) + cost(output_tokens, PRICE.output);
        let bound = Bound { amount, output_tokens, max_output_tokens, cap: None };
        Hold::new(funds.hold(amount).unwrap(), &bound, 10, &PRICE)
    }

    fn funds(balance: i64) -> Funds {
        Funds { account: Arc::new(Balance::new(Nanos(balance))), cap: None }
    }

    #[test]
    fn a_hold_grows_to_the_last_token_that_can_be_paid() {
        let funds = funds(10 + 2 * 100);
        let mut hold = hold(&funds, 16, 1_000);
        assert!(hold.covers(16) && hold.covers(50) && hold.covers(100));
        assert!(!hold.covers(101) && !hold.is_shared(), "nobody can give back anything");
        assert_eq!(funds.spendable(), Nanos::ZERO);
        hold.bound_input(4);
        assert!(hold.covers(103), "what was held for the input");
        assert!(!hold.covers(104));
    }

    #[test]
    fn what_one_does_not_need_another_can_have() {
        let funds = funds(2 * (10 + 2 * 100));
        let (mut rich, mut poor) = (hold(&funds, 150, 1_000), hold(&funds, 20, 1_000));
        assert!(!poor.covers(60) && poor.is_shared() && !rich.has_waiters());
        let wait = poor.wait();
        assert!(rich.has_waiters());
        rich.shrink(40);
        rich.shrink(40);
        assert!(poor.covers(60));
        drop(wait);
        assert!(!rich.has_waiters());
        drop((rich, poor));
        assert_eq!(funds.spendable(), Nanos(2 * (10 + 2 * 100)), "all comes back");
    }

    #[test]
    fn an_answer_whose_cap_is_held_in_full_is_not_ended_by_what_it_is_estimated_at() {
        let funds = funds(10 + 2 * 50);
        let mut hold = hold(&funds, 50, 50);
        assert!(hold.has_room(50, 1_000_000));
        assert!(hold.covers(51) && hold.covers(4 * 50 + 64));
        assert!(!hold.covers(4 * 50 + 65), "the upstream does not keep to its cap");
        assert!(hold.is_within_client_cap(4 * 50 + 64));
        assert!(!hold.is_within_client_cap(4 * 50 + 65));
        hold.shrink(0);
        assert_eq!(funds.spendable(), Nanos::ZERO);
    }
}
