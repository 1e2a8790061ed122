//! The requests that wait for a connection slot, served round-robin between accounts.
//!
//! If the queue is full, a request takes the place of one of the account that has the most (longest queue drop): a
//! single account may use all places, and cannot keep others from them. Pure: there is no lock and no timer.

use std::collections::VecDeque;

use domain::id::AccountId;

/// The requests that wait. `T` is what a request waits with.
pub(super) struct WaitQueue<T> {
    max_waiting: usize,
    waiting: usize,
    next_ticket: u64,
    /// In the order in which the accounts are served. Invariant: none of them is without requests.
    accounts: VecDeque<AccountQueue<T>>,
}

/// The waiting requests of an account, the oldest first.
struct AccountQueue<T> {
    /// `None` for the gateway's own requests, such as health checks.
    account: Option<AccountId>,
    requests: VecDeque<(Ticket, T)>,
}

/// Identifies a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

// === impl WaitQueue ===

impl<T> WaitQueue<T> {
    /// Creates a queue with places for `max_waiting` requests.
    pub(super) fn new(max_waiting: usize) -> Self {
        Self { max_waiting, waiting: 0, next_ticket: 0, accounts: VecDeque::new() }
    }

    /// Appends a request of `account`; `None` if there is no place for it. A request that loses its place to it is
    /// dropped.
    pub(super) fn push(&mut self, account: Option<AccountId>, request: T) -> Option<Ticket> {
        if self.waiting >= self.max_waiting && !self.drop_for(account) {
            return None;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting += 1;
        if let Some(queue) = self.accounts.iter_mut().find(|queue| queue.account == account) {
            queue.requests.push_back((ticket, request));
        } else {
            let requests = VecDeque::from([(ticket, request)]);
            self.accounts.push_back(AccountQueue { account, requests });
        }
        Some(ticket)
    }

    /// Returns the number of requests that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Removes the request that is served next: the oldest one of the account that was served least recently.
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut queue = self.accounts.pop_front()?;
        let (_, request) = queue.requests.pop_front()?;
        self.waiting -= 1;
        if !queue.requests.is_empty() {
            self.accounts.push_back(queue);
        }
        Some(request)
    }

    /// Removes a request that does not wait any longer. Has no effect if it was removed before.
    pub(super) fn remove(&mut self, account: Option<AccountId>, ticket: Ticket) {
        let Some(at) = self.accounts.iter().position(|queue| queue.account == account) else {
            return;
        };
        let requests = &mut self.accounts[at].requests;
        let before = requests.len();
        requests.retain(|(other, _)| *other != ticket);
        self.waiting -= before - requests.len();
        if requests.is_empty() {
            self.accounts.remove(at);
        }
    }

    /// Drops the newest request of the account that has the most, if that leaves it at least as many as `account` will
    /// have. Returns whether there is a place now.
    fn drop_for(&mut self, account: Option<AccountId>) -> bool {
        let own = self.accounts.iter().find(|queue| queue.account == account);
        let own = own.map_or(0, |queue| queue.requests.len());
        let longest = self.accounts.iter_mut().max_by_key(|queue| queue.requests.len());
        let Some(longest) = longest.filter(|queue| queue.requests.len() > own + 1) else {
            return false;
        };
        longest.requests.pop_back();
        self.waiting -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ALICE: Option<AccountId> = Some(AccountId(Uuid::from_u128(1)));
    const BOB: Option<AccountId> = Some(AccountId(Uuid::from_u128(2)));
    const CAROL: Option<AccountId> = Some(AccountId(Uuid::from_u128(3)));

    /// Pushes requests; returns the queue, and which of them got a place.
    fn queue(
        max_waiting: usize,
        requests: &[(Option<AccountId>, &'static str)],
    ) -> (WaitQueue<&'static str>, Vec<Option<Ticket>>) {
        let mut queue = WaitQueue::new(max_waiting);
        let tickets = requests.iter().map(|&(account, name)| queue.push(account, name)).collect();
        (queue, tickets)
    }

    fn drain(mut queue: WaitQueue<&'static str>) -> Vec<&'static str> {
        let order = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!((queue.waiting, queue.accounts.len()), (0, 0));
        order
    }

    #[test]
    fn accounts_take_turns() {
        let (queue, _) =
            queue(9, &[(ALICE, "a1"), (ALICE, "a2"), (ALICE, "a3"), (BOB, "b1"), (BOB, "b2")]);
        assert_eq!(drain(queue), ["a1", "b1", "a2", "b2", "a3"]);
    }

    #[test]
    fn a_full_queue_drops_the_newest_request_of_the_account_with_the_most() {
        let full = [(ALICE, "a1"), (ALICE, "a2"), (ALICE, "a3"), (BOB, "b1")];
        let (mut queue, _) = queue(4, &full);
        assert!(queue.push(ALICE, "a4").is_none(), "it has the most");
        assert!(queue.push(CAROL, "c1").is_some(), "instead of a3");
        assert!(queue.push(CAROL, "c2").is_none(), "that would only turn the places over");
        assert_eq!(drain(queue), ["a1", "b1", "c1", "a2"]);
    }

    #[test]
    fn a_request_that_leaves_frees_its_place() {
        let (mut queue, tickets) = queue(2, &[(ALICE, "a1"), (BOB, "b1")]);
        assert!(queue.push(CAROL, "c1").is_none());
        let [first, _] = tickets[..] else { unreachable!("there are two") };
        queue.remove(ALICE, first.unwrap());
        queue.remove(ALICE, first.unwrap());
        assert!(queue.push(CAROL, "c1").is_some());
        assert_eq!(drain(queue), ["b1", "c1"]);
    }

    #[test]
    fn a_queue_without_places_takes_nothing() {
        let (queue, tickets) = queue(0, &[(ALICE, "a1")]);
        assert_eq!((tickets, drain(queue)), (vec![None], vec![]));
    }
}
