//! The store of the model: one method per transaction of the real one.
//!
//! A transaction is atomic, except that an allocation reads twice and other transactions can commit
//! between its reads, as under `READ COMMITTED`.

use std::collections::BTreeMap;

use domain::allocation::{Allocation, grant};

use super::scenario::{ACCOUNTS, AccountIndex, Bug, NodeIndex, RequestIndex};

/// A node and one process of it, as the real store fences them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeEpoch {
    /// The node.
    pub(crate) node: NodeIndex,
    /// The number of the process.
    pub(crate) epoch: u8,
}

/// A row of `nodes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeRow {
    /// The number of the latest process.
    pub(crate) epoch: u8,
    /// Whether an operator removed the node.
    pub(crate) is_removed: bool,
}

/// A row of `requests`, and how often it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StoredRecord {
    /// The amount that the account paid.
    pub(crate) charge: i64,
    /// The number of commits that wrote the record; more than one is a fault.
    pub(crate) times: u8,
}

/// The content of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The sum of the entries of each account.
    pub(crate) balances: [i64; ACCOUNTS],
    /// The credits minus the debits of each account. The real store does not have this sum.
    pub(crate) deposits: [i64; ACCOUNTS],
    /// What debits took beyond what was available. The real store does not have this sum.
    pub(crate) shortfalls: [i64; ACCOUNTS],
    /// The amounts by account and process.
    pub(crate) allocations: BTreeMap<(AccountIndex, NodeEpoch), i64>,
    /// The records by request.
    pub(crate) records: BTreeMap<RequestIndex, StoredRecord>,
    /// The nodes.
    pub(crate) nodes: Vec<NodeRow>,
}

impl Store {
    /// Creates a store with accounts that were credited with `balances`, and running nodes.
    pub(crate) fn new(balances: [i64; ACCOUNTS], nodes: usize) -> Self {
        Self {
            balances,
            deposits: balances,
            shortfalls: [0; ACCOUNTS],
            allocations: BTreeMap::new(),
            records: BTreeMap::new(),
            nodes: vec![NodeRow { epoch: 1, is_removed: false }; nodes],
        }
    }

    /// Returns whether transactions of this process are refused.
    pub(crate) fn is_fenced(&self, process: NodeEpoch, bug: Option<Bug>) -> bool {
        let row = &self.nodes[process.node];
        let is_superseded = row.epoch != process.epoch && bug != Some(Bug::JoinWithoutFence);
        if row.is_removed { bug != Some(Bug::RemovalWithoutFence) } else { is_superseded }
    }

    /// Returns the sum of all allocations of an account.
    pub(crate) fn allocated(&self, account: AccountIndex) -> i64 {
        self.sum(|of, _| of == account)
    }

    /// Returns what a node, whatever its process, has of an account.
    pub(crate) fn allocated_to(&self, node: NodeIndex, account: AccountIndex) -> i64 {
        self.sum(|of, process| of == account && process.node == node)
    }

    /// Returns what can be allocated; negative if a debit took what was allocated.
    pub(crate) fn available(&self, account: AccountIndex) -> i64 {
        self.balances[account] - self.allocated(account)
    }

    /// Returns the first of the two values that an allocation reads.
    pub(crate) fn first_read(&self, account: AccountIndex, bug: Option<Bug>) -> i64 {
        if bug == Some(Bug::BalanceReadFirst) {
            self.balances[account]
        } else {
            self.allocated(account)
        }
    }

    /// Reads the second value and moves an amount to a process.
    pub(crate) fn allocate(
        &mut self,
        process: NodeEpoch,
        account: AccountIndex,
        needed: i64,
        first_read: i64,
        bug: Option<Bug>,
    ) -> Allocation {
        let available = if bug == Some(Bug::BalanceReadFirst) {
            first_read - self.allocated(account)
        } else {
            self.balances[account] - first_read
        };
        let granted = grant(available, needed);
        if granted > 0 {
            *self.allocations.entry((account, process)).or_default() += granted;
        }
        let elsewhere = self.sum(|of, other| of == account && other != process);
        Allocation { granted, available: available - granted, elsewhere }
    }

    /// Gives back an amount of a process.
    pub(crate) fn give_back(&mut self, process: NodeEpoch, account: AccountIndex, amount: i64) {
        self.reduce(amount, |of, other| of == account && other == process);
    }

    /// Gives back everything that a node has.
    pub(crate) fn release(&mut self, node: NodeIndex) {
        self.allocations.retain(|(_, process), _| process.node != node);
    }

    /// Writes a batch of a node, skipping existing records. `account` returns the account of a
    /// request.
    pub(crate) fn commit(
        &mut self,
        node: NodeIndex,
        batch: &[(RequestIndex, i64)],
        account: impl Fn(RequestIndex) -> AccountIndex,
        bug: Option<Bug>,
    ) {
        for &(request, charge) in batch {
            let account = account(request);
            let is_known = self.records.contains_key(&request);
            if !is_known || bug == Some(Bug::RecordWrittenTwice) {
                let record = self.records.entry(request);
                record.or_insert(StoredRecord { charge, times: 0 }).times += 1;
                self.balances[account] -= charge;
            }
            let reduces = match bug {
                Some(Bug::CommitKeepsAllocation) => false,
                Some(Bug::SecondDeliveryReduces) => true,
                _ => !is_known,
            };
            if reduces {
                self.reduce(charge, |of, process| of == account && process.node == node);
            }
        }
    }

    /// Adds a credit, or a debit if `amount` is negative.
    pub(crate) fn change(&mut self, account: AccountIndex, amount: i64) {
        let beyond = -amount - self.available(account).max(0);
        self.shortfalls[account] += beyond.max(0);
        self.balances[account] += amount;
        self.deposits[account] += amount;
    }

    /// Starts a later process of a node. Returns its number; `None` if the node was removed.
    pub(crate) fn join(&mut self, node: NodeIndex) -> Option<u8> {
        let row = &mut self.nodes[node];
        row.epoch += u8::from(!row.is_removed);
        (!row.is_removed).then_some(row.epoch)
    }

    /// Removes a node and gives back what it has.
    pub(crate) fn remove(&mut self, node: NodeIndex) {
        self.nodes[node].is_removed = true;
        self.release(node);
    }

    fn sum(&self, applies: impl Fn(AccountIndex, NodeEpoch) -> bool) -> i64 {
        let rows = self.allocations.iter();
        rows.filter(|((account, process), _)| applies(*account, *process)).map(|(_, sum)| sum).sum()
    }

    /// Reduces rows, not below zero, and deletes those that become empty.
    fn reduce(&mut self, by: i64, applies: impl Fn(AccountIndex, NodeEpoch) -> bool) {
        self.allocations.retain(|(account, process), amount| {
            if applies(*account, *process) {
                *amount = (*amount - by).max(0);
            }
            *amount > 0
        });
    }
}
