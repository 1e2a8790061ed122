//! The state of the model, and what each action does to it.
//!
//! A call is a transaction under way. It is executed at any later time, so that a partition of the
//! network is a call that is not executed for long; a call that its node no longer waits for can be
//! executed late or never, and then nothing receives its answer.

use domain::allocation::give_back;

use super::node::{JournalEntry, Node, Phase};
use super::scenario::{AccountIndex, Bounds, Bug, NodeIndex, RequestIndex, Scenario};
use super::store::{NodeEpoch, Store};

/// A transaction under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    /// The process that started it.
    pub(crate) process: NodeEpoch,
    /// What it does.
    pub(crate) transaction: Transaction,
    /// Whether the process waits for the answer.
    pub(crate) is_awaited: bool,
    /// The first value that an allocation has read; `None` before.
    pub(crate) first_read: Option<i64>,
}

/// What a call does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Transaction {
    /// Moves a part of an account of which requests lack `needed`.
    Allocate { account: AccountIndex, needed: i64 },
    /// Gives back a part of an account.
    GiveBack { account: AccountIndex, amount: i64 },
    /// Writes records with their charges.
    Commit(Vec<(RequestIndex, i64)>),
    /// Gives back everything.
    Release,
}

/// Everything that can differ between two moments of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GatewayFleet {
    /// The store.
    pub(crate) store: Store,
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// The calls, sorted, because their order does not matter.
    pub(crate) calls: Vec<Call>,
    /// What can still happen.
    pub(crate) left: Bounds,
    /// The requests that were admitted, by index.
    pub(crate) admitted: Vec<bool>,
}

impl Call {
    /// Returns whether the transaction has locked the row of its process, so that a join, a removal
    /// and a release wait. A process abandons a call only after it has sent all of it.
    pub(crate) fn has_begun(&self) -> bool {
        !self.is_awaited || self.first_read.is_some()
    }
}

impl GatewayFleet {
    /// Creates the first state: all nodes serve and have nothing.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            store: Store::new(scenario.balances, scenario.nodes),
            nodes: vec![Node::new(); scenario.nodes],
            calls: Vec::new(),
            left: scenario.bounds,
            admitted: vec![false; scenario.requests.len()],
        }
    }

    /// Returns whether a node waits for a call to which `applies`.
    pub(crate) fn awaits(&self, node: NodeIndex, applies: impl Fn(&Transaction) -> bool) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| call.is_awaited && call.process.node == node && applies(&call.transaction))
    }

    /// Returns whether a transaction of a node holds the lock of its process.
    pub(crate) fn has_begun_calls(&self, node: NodeIndex) -> bool {
        self.calls.iter().any(|call| call.process.node == node && call.has_begun())
    }

    /// Adds a call that its node waits for.
    pub(crate) fn send(&mut self, node: NodeIndex, transaction: Transaction) {
        let process = NodeEpoch { node, epoch: self.nodes[node].epoch };
        self.add(Call { process, transaction, is_awaited: true, first_read: None });
    }

    /// Adds a call in the order of the others.
    pub(crate) fn add(&mut self, call: Call) {
        self.calls.push(call);
        self.calls.sort_unstable();
    }

    /// Ends a process. The calls that it waited for are executed late or never.
    pub(crate) fn end(&mut self, node: NodeIndex, phase: Phase, is_torn: bool) {
        self.abandon(|call| call.process.node == node);
        self.nodes[node].end(phase, is_torn);
    }

    /// Lets no process wait for the calls to which `applies`.
    pub(crate) fn abandon(&mut self, applies: impl Fn(&Call) -> bool) {
        for call in &mut self.calls {
            call.is_awaited &= !applies(call);
        }
        self.calls.sort_unstable();
    }

    /// Lets a node give back an amount that is in memory.
    pub(crate) fn give_back(
        &mut self,
        node: NodeIndex,
        account: AccountIndex,
        amount: i64,
        bug: Option<Bug>,
    ) {
        if bug != Some(Bug::GiveBackBeforeReduction) {
            self.nodes[node].spendable[account] -= amount;
        }
        self.send(node, Transaction::GiveBack { account, amount });
    }

    /// Lets a node answer a recall.
    pub(crate) fn answer_recall(
        &mut self,
        node: NodeIndex,
        recall: (AccountIndex, i64),
        bug: Option<Bug>,
    ) {
        let (account, needed) = recall;
        self.nodes[node].recalls.remove(&recall);
        let amount = give_back(self.nodes[node].spendable[account], needed);
        if amount > 0 {
            self.give_back(node, account, amount, bug);
        }
    }

    /// Sends the next transaction of a start, or begins to serve.
    pub(crate) fn start(&mut self, node: NodeIndex, scenario: &Scenario) {
        let is_release_first = scenario.bug == Some(Bug::ReleaseBeforeReplay);
        let transaction = match self.nodes[node].phase {
            Phase::ReplayingClosed => Transaction::Commit(self.nodes[node].closed()),
            Phase::ReplayingOpen => Transaction::Commit(self.charge_open(node, scenario)),
            _ => Transaction::Release,
        };
        let is_empty = matches!(&transaction, Transaction::Commit(batch) if batch.is_empty());
        if is_empty {
            self.complete_start_step(node, is_release_first);
        } else {
            self.send(node, transaction);
        }
    }

    /// Continues a start after a transaction.
    fn complete_start_step(&mut self, node: NodeIndex, is_release_first: bool) {
        let node = &mut self.nodes[node];
        node.phase = match node.phase {
            Phase::Releasing if is_release_first => Phase::ReplayingClosed,
            Phase::ReplayingClosed => Phase::ReplayingOpen,
            Phase::ReplayingOpen if !is_release_first => Phase::Releasing,
            _ => Phase::Serving,
        };
        let is_replayed = matches!(node.phase, Phase::Releasing | Phase::Serving);
        if is_replayed {
            node.journal.clear();
        }
    }

    /// Charges the open requests of a journal that the store does not have, as far as the node has
    /// money in the store.
    fn charge_open(&self, node: NodeIndex, scenario: &Scenario) -> Vec<(RequestIndex, i64)> {
        let mut left: Vec<_> = (0..self.store.balances.len())
            .map(|account| self.store.allocated_to(node, account))
            .collect();
        let missing = |request: &RequestIndex| !self.store.records.contains_key(request);
        let charge = |index: RequestIndex| {
            let request = &scenario.requests[index];
            let left = &mut left[request.account];
            let charge = match scenario.bug {
                Some(Bug::UnboundedReplay) => request.open_cost,
                _ => request.open_cost.min(*left),
            };
            *left -= charge;
            (index, charge)
        };
        self.nodes[node].open().filter(missing).map(charge).collect()
    }

    /// Executes a call that was taken out of [`calls`](Self::calls), and delivers its answer if the
    /// process waits for it.
    pub(crate) fn execute(&mut self, call: Call, scenario: &Scenario) {
        let Call { process, transaction, is_awaited, first_read } = call;
        let (node, bug) = (process.node, scenario.bug);
        if self.store.is_fenced(process, bug) {
            if is_awaited {
                self.end(node, Phase::Ended, false);
            }
            return;
        }
        match transaction {
            Transaction::Allocate { account, needed } => {
                let read = first_read.unwrap_or_default();
                let found = self.store.allocate(process, account, needed, read, bug);
                if !is_awaited {
                    return;
                }
                let expected = if bug == Some(Bug::CreditBeforeGrant) { needed } else { 0 };
                self.nodes[node].spendable[account] += found.granted - expected;
                let lacking = needed - found.granted;
                if lacking > 0 && found.elsewhere > 0 {
                    self.recall(Some(node), account, lacking);
                }
            }
            Transaction::GiveBack { account, amount } => {
                self.store.give_back(process, account, amount);
                if is_awaited && bug == Some(Bug::GiveBackBeforeReduction) {
                    self.nodes[node].spendable[account] -= amount;
                }
            }
            Transaction::Commit(batch) => {
                let account = |request: RequestIndex| scenario.requests[request].account;
                self.store.commit(node, &batch, account, bug);
                if !is_awaited {
                    return;
                }
                for (request, _) in &batch {
                    self.nodes[node].queue.remove(request);
                }
                if matches!(self.nodes[node].phase, Phase::ReplayingClosed | Phase::ReplayingOpen) {
                    self.complete_start_step(node, bug == Some(Bug::ReleaseBeforeReplay));
                }
            }
            Transaction::Release => {
                self.store.release(node);
                match self.nodes[node].phase {
                    Phase::Stopping if is_awaited => self.end(node, Phase::Stopped, false),
                    Phase::Releasing if is_awaited => {
                        self.complete_start_step(node, bug == Some(Bug::ReleaseBeforeReplay));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the requests in a journal that the store does not have.
    pub(crate) fn unrecorded(
        &self,
        node: NodeIndex,
    ) -> impl Iterator<Item = (RequestIndex, JournalEntry)> {
        let entries = self.nodes[node].journal.iter().map(|(request, entry)| (*request, *entry));
        entries.filter(|(request, _)| !self.store.records.contains_key(request))
    }

    /// Credits an account, or debits it and recalls what is allocated of it.
    pub(crate) fn change(&mut self, account: AccountIndex, amount: i64) {
        self.store.change(account, amount);
        if amount < 0 {
            self.recall(None, account, -amount);
        }
    }

    /// Lets the nodes that serve receive a recall, except for its sender. They may answer it late or
    /// never.
    fn recall(&mut self, sender: Option<NodeIndex>, account: AccountIndex, needed: i64) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if Some(index) != sender && node.phase == Phase::Serving {
                node.recalls.insert((account, needed));
            }
        }
    }
}
