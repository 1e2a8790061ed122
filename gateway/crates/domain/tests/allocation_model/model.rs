//! The actions of the model: which are possible in a state, and the state after each.

use stateright::{Model, Property};

use super::fleet::{GatewayFleet, Transaction};
use super::node::Phase;
use super::properties;
use super::scenario::{AccountIndex, Bug, NodeIndex, RequestIndex, Scenario};

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A request is admitted.
    Admit(RequestIndex),
    /// A request ends.
    Settle(RequestIndex),
    /// A node requests what a request lacks.
    Request(RequestIndex),
    /// A node gives back what it has not used for some time.
    GiveBackUnused(NodeIndex, AccountIndex),
    /// A node answers a recall of an amount.
    AnswerRecall(NodeIndex, AccountIndex, i64),
    /// The recorder of a node sends its queue.
    Write(NodeIndex),
    /// A node begins to stop.
    Stop(NodeIndex),
    /// The recorder of a stopping node gives up, because the store fails.
    GiveUp(NodeIndex),
    /// A stopping node gives everything back, or ends without, if records wait.
    Leave(NodeIndex),
    /// A process is killed. The journal may lack the ends of its last requests.
    Crash { node: NodeIndex, is_torn: bool },
    /// A process starts.
    Join(NodeIndex),
    /// A start proceeds.
    Start(NodeIndex),
    /// An allocation locks its account and reads for the first time.
    Read(usize),
    /// A call is executed to its end, and answered.
    Execute(usize),
    /// An abandoned call is rolled back.
    RollBack(usize),
    /// A node no longer waits for a call.
    TimeOut(usize),
    /// An operator removes a node.
    Remove(NodeIndex),
    /// An operator credits or debits an account, by the index of the change.
    Change(usize),
}

impl Model for Scenario {
    type State = GatewayFleet;
    type Action = Action;

    fn init_states(&self) -> Vec<GatewayFleet> {
        vec![GatewayFleet::new(self)]
    }

    fn actions(&self, fleet: &GatewayFleet, actions: &mut Vec<Action>) {
        for (index, request) in self.requests.iter().enumerate() {
            let node = &fleet.nodes[request.node];
            if node.held.contains(&index) {
                actions.push(Action::Settle(index));
            }
            if node.phase != Phase::Serving || fleet.admitted[index] {
                continue;
            }
            if node.spendable[request.account] >= request.hold {
                actions.push(Action::Admit(index));
            } else if fleet.left.allocations > 0 && !allocator_waits(fleet, request.node) {
                actions.push(Action::Request(index));
            }
        }
        for node in 0..self.nodes {
            self.node_actions(fleet, node, actions);
        }
        for (index, call) in fleet.calls.iter().enumerate() {
            let must_read = matches!(call.transaction, Transaction::Allocate { .. })
                && call.first_read.is_none();
            if self.is_blocked(fleet, index) {
            } else if must_read {
                actions.push(Action::Read(index));
            } else {
                actions.push(Action::Execute(index));
            }
            if !call.is_awaited {
                actions.push(Action::RollBack(index));
            } else if fleet.left.timeouts > 0 {
                actions.push(Action::TimeOut(index));
            }
        }
        if fleet.left.changes > 0 {
            actions.extend((0..self.changes.len()).map(Action::Change));
        }
    }

    fn next_state(&self, fleet: &GatewayFleet, action: Action) -> Option<GatewayFleet> {
        let mut next = fleet.clone();
        match action {
            Action::Admit(index) => {
                let request = &self.requests[index];
                next.nodes[request.node].admit(index, request);
                next.admitted[index] = true;
            }
            Action::Settle(index) => {
                let request = &self.requests[index];
                next.nodes[request.node].settle(index, request);
            }
            Action::Request(index) => {
                let request = &self.requests[index];
                let (node, account) = (request.node, request.account);
                let needed = request.hold - next.nodes[node].spendable[account];
                if self.bug == Some(Bug::CreditBeforeGrant) {
                    next.nodes[node].spendable[account] += needed;
                }
                next.left.allocations -= 1;
                next.send(node, Transaction::Allocate { account, needed });
            }
            Action::GiveBackUnused(node, account) => {
                next.left.quiet -= 1;
                let amount = next.nodes[node].spendable[account];
                next.give_back(node, account, amount, self.bug);
            }
            Action::AnswerRecall(node, account, needed) => {
                next.answer_recall(node, (account, needed), self.bug);
            }
            Action::Write(node) => {
                let batch: Vec<_> =
                    next.nodes[node].queue.iter().map(|(id, charge)| (*id, *charge)).collect();
                if self.bug == Some(Bug::JournalTrimmedEarly) {
                    next.nodes[node]
                        .journal
                        .retain(|id, _| !fleet.nodes[node].queue.contains_key(id));
                }
                next.send(node, Transaction::Commit(batch));
            }
            Action::Stop(node) => {
                next.nodes[node].phase = Phase::Stopping;
                next.nodes[node].recalls.clear();
            }
            Action::GiveUp(node) => {
                next.left.timeouts -= 1;
                next.nodes[node].has_given_up = true;
                next.abandon(|call| call.process.node == node);
            }
            Action::Leave(node) => {
                // The allocator ends first, without the answer that it may wait for.
                next.abandon(|call| call.process.node == node);
                let has_records = !next.nodes[node].queue.is_empty();
                if has_records && self.bug != Some(Bug::ReleaseWithWaitingRecords) {
                    next.end(node, Phase::Ended, false);
                } else {
                    next.send(node, Transaction::Release);
                }
            }
            Action::Crash { node, is_torn } => {
                next.left.crashes -= 1;
                next.end(node, Phase::Ended, is_torn);
            }
            Action::Join(node) => {
                next.nodes[node].epoch = next.store.join(node)?;
                next.nodes[node].phase = match self.bug {
                    Some(Bug::ReleaseBeforeReplay) => Phase::Releasing,
                    _ => Phase::ReplayingClosed,
                };
            }
            Action::Start(node) => next.start(node, self),
            Action::Read(index) => {
                let mut call = next.calls.remove(index);
                if let Transaction::Allocate { account, .. } = call.transaction
                    && !next.store.is_fenced(call.process, self.bug)
                {
                    call.first_read = Some(next.store.first_read(account, self.bug));
                    next.add(call);
                } else {
                    next.execute(call, self);
                }
            }
            Action::Execute(index) => {
                let call = next.calls.remove(index);
                next.execute(call, self);
            }
            Action::RollBack(index) => _ = next.calls.remove(index),
            Action::TimeOut(index) => self.time_out(&mut next, index),
            Action::Remove(node) => {
                next.left.removals -= 1;
                next.store.remove(node);
            }
            Action::Change(index) => {
                next.left.changes -= 1;
                let (account, amount) = self.changes[index];
                next.change(account, amount);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self.bounds)
    }
}

impl Scenario {
    /// Adds the actions of one node that belong to no request.
    fn node_actions(&self, fleet: &GatewayFleet, index: NodeIndex, actions: &mut Vec<Action>) {
        let (node, row) = (&fleet.nodes[index], &fleet.store.nodes[index]);
        let can_give_back = !allocator_waits(fleet, index);
        let can_write = !node.has_given_up
            && !node.queue.is_empty()
            && !fleet.awaits(index, |call| matches!(call, Transaction::Commit(_)));
        match node.phase {
            Phase::Serving => {
                if can_give_back {
                    let recalls = node.recalls.iter();
                    actions
                        .extend(recalls.map(|&(account, needed)| {
                            Action::AnswerRecall(index, account, needed)
                        }));
                    if fleet.left.quiet > 0 {
                        let amounts = node.spendable.iter().enumerate();
                        let unused = amounts.filter(|(_, amount)| **amount > 0);
                        actions.extend(
                            unused.map(|(account, _)| Action::GiveBackUnused(index, account)),
                        );
                    }
                }
                actions.push(Action::Stop(index));
            }
            Phase::Stopping => {
                let is_leaving = fleet.awaits(index, |call| *call == Transaction::Release);
                let has_ended =
                    node.held.is_empty() && (node.queue.is_empty() || node.has_given_up);
                if has_ended && !is_leaving {
                    actions.push(Action::Leave(index));
                }
                let may_give_up = node.held.is_empty() && !node.has_given_up && !is_leaving;
                if may_give_up && !node.queue.is_empty() && fleet.left.timeouts > 0 {
                    actions.push(Action::GiveUp(index));
                }
            }
            Phase::ReplayingClosed | Phase::ReplayingOpen | Phase::Releasing => {
                if !fleet.awaits(index, |_| true) {
                    actions.push(Action::Start(index));
                }
            }
            Phase::Stopped | Phase::Ended => {
                let has_work = node.phase == Phase::Ended || fleet.unrecorded(index).count() > 0;
                if has_work
                    && !row.is_removed
                    && !self.must_wait(fleet, index, Bug::JoinWithoutFence)
                {
                    actions.push(Action::Join(index));
                }
            }
        }
        if matches!(node.phase, Phase::Serving | Phase::Stopping) && can_write {
            actions.push(Action::Write(index));
        }
        if node.is_running() && fleet.left.crashes > 0 {
            actions.push(Action::Crash { node: index, is_torn: false });
            if !node.queue.is_empty() {
                actions.push(Action::Crash { node: index, is_torn: true });
            }
        }
        let may_remove = fleet.left.removals > 0 && !row.is_removed;
        if may_remove && !self.must_wait(fleet, index, Bug::RemovalWithoutFence) {
            actions.push(Action::Remove(index));
        }
    }

    /// Returns whether a transaction that changes the key of a node's row waits for others.
    fn must_wait(&self, fleet: &GatewayFleet, node: NodeIndex, without: Bug) -> bool {
        self.bug != Some(without) && fleet.has_begun_calls(node)
    }

    /// Returns whether a call waits for a lock of another one.
    fn is_blocked(&self, fleet: &GatewayFleet, index: usize) -> bool {
        let call = &fleet.calls[index];
        let others = || {
            let others = fleet.calls.iter().enumerate();
            others.filter(move |(other, _)| *other != index).map(|(_, call)| call)
        };
        // Allocations of an account wait for each other. Own changes of an existing row wait, too.
        let has_row = |account| fleet.store.allocations.contains_key(&(account, call.process));
        let locked = |account: AccountIndex, is_same_node_only: bool| {
            others().any(|other| {
                let is_same_node = other.process == call.process;
                other.first_read.is_some()
                    && (is_same_node || !is_same_node_only)
                    && matches!(other.transaction, Transaction::Allocate { account: of, .. } if of == account)
            })
        };
        match &call.transaction {
            Transaction::Allocate { account, .. } => {
                call.first_read.is_none() && locked(*account, false)
            }
            Transaction::GiveBack { account, .. } => has_row(*account) && locked(*account, true),
            Transaction::Commit(batch) => batch.iter().any(|(request, _)| {
                let account = self.requests[*request].account;
                has_row(account) && locked(account, true)
            }),
            Transaction::Release => {
                self.bug != Some(Bug::ReleaseWithoutWait)
                    && others().any(|other| other.process == call.process && other.has_begun())
            }
        }
    }

    /// Lets a node treat a call as failed.
    fn time_out(&self, fleet: &mut GatewayFleet, index: usize) {
        fleet.left.timeouts -= 1;
        let mut call = fleet.calls.remove(index);
        let node = call.process.node;
        let ends = match (fleet.nodes[node].phase, &call.transaction) {
            (_, Transaction::Release) => true,
            (Phase::Serving | Phase::Stopping, _) => false,
            _ => true,
        };
        if self.bug == Some(Bug::GiveBackRepeated)
            && matches!(call.transaction, Transaction::GiveBack { .. })
        {
            fleet.add(call.clone());
        }
        call.is_awaited = false;
        if !fleet.store.is_fenced(call.process, self.bug) {
            fleet.add(call);
        }
        if ends {
            fleet.end(node, Phase::Ended, false);
        }
    }
}

/// Returns whether the allocator of a node waits for the store. It sends one call at a time.
fn allocator_waits(fleet: &GatewayFleet, node: NodeIndex) -> bool {
    let is_its = |call: &Transaction| {
        matches!(call, Transaction::Allocate { .. } | Transaction::GiveBack { .. })
    };
    fleet.awaits(node, is_its)
}
