//! A bounded queue that is served round-robin between accounts.
//!
//! If it is full, an item takes the place of one of the account that has the most (longest queue drop): a single account
//! may use all places, and cannot keep others from them. Pure: there is no lock and no timer.

use std::collections::VecDeque;

use domain::id::AccountId;

/// The items that wait.
pub(crate) struct FairQueue<T> {
    max_waiting: usize,
    waiting: usize,
    next_ticket: u64,
    /// In the order in which the accounts are served. Invariant: none of them is without items.
    accounts: VecDeque<AccountQueue<T>>,
}

/// The waiting items of an account, the oldest first.
struct AccountQueue<T> {
    /// `None` for what belongs to the gateway itself, such as health checks.
    account: Option<AccountId>,
    items: VecDeque<(Ticket, T)>,
}

/// Identifies an item that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// The place of an item that was pushed.
pub(crate) struct Pushed<T> {
    /// Identifies the item.
    pub(crate) ticket: Ticket,
    /// The item that lost its place to it.
    pub(crate) displaced: Option<T>,
}

// === impl FairQueue ===

impl<T> FairQueue<T> {
    /// Creates a queue with places for `max_waiting` items.
    pub(crate) fn new(max_waiting: usize) -> Self {
        Self { max_waiting, waiting: 0, next_ticket: 0, accounts: VecDeque::new() }
    }

    /// Appends an item of `account`.
    ///
    /// # Errors
    /// Returns the item if there is no place for it.
    pub(crate) fn push(&mut self, account: Option<AccountId>, item: T) -> Result<Pushed<T>, T> {
        let mut displaced = None;
        if self.waiting >= self.max_waiting {
            displaced = self.displace_for(account);
            if displaced.is_none() {
                return Err(item);
            }
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.waiting += 1;
        if let Some(queue) = self.accounts.iter_mut().find(|queue| queue.account == account) {
            queue.items.push_back((ticket, item));
        } else {
            let items = VecDeque::from([(ticket, item)]);
            self.accounts.push_back(AccountQueue { account, items });
        }
        Ok(Pushed { ticket, displaced })
    }

    /// Returns the number of items that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the waiting items of an account, the oldest first.
    pub(crate) fn of_account(
        &mut self,
        account: Option<AccountId>,
    ) -> impl Iterator<Item = &mut T> {
        let queue = self.accounts.iter_mut().find(|queue| queue.account == account);
        queue.into_iter().flat_map(|queue| &mut queue.items).map(|(_, item)| item)
    }

    /// Removes the item that is served next: the oldest one of the account that was served least recently.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let mut queue = self.accounts.pop_front()?;
        let (_, item) = queue.items.pop_front()?;
        self.waiting -= 1;
        if !queue.items.is_empty() {
            self.accounts.push_back(queue);
        }
        Some(item)
    }

    /// Removes an item that does not wait any longer. Has no effect if it was removed before.
    pub(crate) fn remove(&mut self, account: Option<AccountId>, ticket: Ticket) {
        let Some(at) = self.accounts.iter().position(|queue| queue.account == account) else {
            return;
        };
        let items = &mut self.accounts[at].items;
        let before = items.len();
        items.retain(|(other, _)| *other != ticket);
        self.waiting -= before - items.len();
        if items.is_empty() {
            self.accounts.remove(at);
        }
    }

    /// Removes the items that are not to be kept.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for queue in &mut self.accounts {
            queue.items.retain(|(_, item)| keep(item));
        }
        self.accounts.retain(|queue| !queue.items.is_empty());
        self.waiting = self.accounts.iter().map(|queue| queue.items.len()).sum();
    }

    /// Removes the newest item of the account that has the most, if that leaves it at least as many as `account` will
    /// have.
    fn displace_for(&mut self, account: Option<AccountId>) -> Option<T> {
        let own = self.accounts.iter().find(|queue| queue.account == account);
        let own = own.map_or(0, |queue| queue.items.len());
        let longest = self.accounts.iter_mut().max_by_key(|queue| queue.items.len());
        let longest = longest.filter(|queue| queue.items.len() > own + 1)?;
        let (_, displaced) = longest.items.pop_back()?;
        self.waiting -= 1;
        Some(displaced)
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
    ) -> (FairQueue<&'static str>, Vec<Option<Ticket>>) {
        let mut queue = FairQueue::new(max_waiting);
        let tickets = requests
            .iter()
            .map(|&(account, name)| queue.push(account, name).ok().map(|it| it.ticket))
            .collect();
        (queue, tickets)
    }

    fn drain(mut queue: FairQueue<&'static str>) -> Vec<&'static str> {
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
        assert!(queue.push(ALICE, "a4").is_err(), "it has the most");
        assert_eq!(queue.push(CAROL, "c1").ok().unwrap().displaced, Some("a3"));
        assert!(queue.push(CAROL, "c2").is_err(), "that would only turn the places over");
        assert_eq!(drain(queue), ["a1", "b1", "c1", "a2"]);
    }

    #[test]
    fn a_request_that_leaves_frees_its_place() {
        let (mut queue, tickets) = queue(2, &[(ALICE, "a1"), (BOB, "b1")]);
        assert!(queue.push(CAROL, "c1").is_err());
        let [first, _] = tickets[..] else { unreachable!("there are two") };
        queue.remove(ALICE, first.unwrap());
        queue.remove(ALICE, first.unwrap());
        assert!(queue.push(CAROL, "c1").is_ok());
        assert_eq!(drain(queue), ["b1", "c1"]);
    }

    #[test]
    fn items_that_are_not_kept_free_their_places() {
        let (mut queue, _) = queue(3, &[(ALICE, "a1"), (ALICE, "a2"), (BOB, "b1")]);
        queue.retain(|item| *item == "a2");
        assert_eq!(queue.waiting(), 1);
        assert_eq!(queue.of_account(ALICE).count(), 1);
        assert_eq!(drain(queue), ["a2"]);
    }

    #[test]
    fn a_queue_without_places_takes_nothing() {
        let (queue, tickets) = queue(0, &[(ALICE, "a1")]);
        assert_eq!((tickets, drain(queue)), (vec![None], vec![]));
    }
}
