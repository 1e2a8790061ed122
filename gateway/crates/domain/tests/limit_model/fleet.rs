//! The state of the model, and the steps of nodes.

use domain::allocation::give_back;

use super::scenario::{Bounds, Bug, LimitKind, MINUTE, NodeIndex, PATIENCE, Scenario};
use super::store::{Answer, Operation, Process, Store};

/// What the process of a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It gives back what the earlier process had.
    Starting,
    /// It serves requests.
    Serving,
    /// It serves without the store. Contains the ticks since its last contact, at most [`PATIENCE`].
    Silent(u8),
    /// It has stopped cleanly.
    Stopped,
    /// It was killed, or has stopped because it was fenced.
    Ended,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// What the process does.
    pub(crate) phase: Phase,
    /// The number of the process.
    pub(crate) epoch: u8,
    /// The part of the limit that is in memory, used ones included.
    pub(crate) granted: i64,
    /// The requests that the process has admitted in this step of time and in earlier ones of the minute.
    pub(crate) admitted: [u8; MINUTE],
    /// The requests in progress.
    pub(crate) in_flight: u8,
    /// The number of operations of the process.
    pub(crate) operations: u8,
    /// The amount that others lack and have recalled.
    pub(crate) recalled: Option<i64>,
    /// Whether the database failed over since the node last corrected its part.
    pub(crate) has_failed_over: bool,
}

/// An operation under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    /// The process that sent it.
    pub(crate) process: Process,
    /// The number of the operation.
    pub(crate) number: u8,
    /// What it does.
    pub(crate) operation: Operation,
    /// Whether the process waits for the answer.
    pub(crate) is_awaited: bool,
    /// The answer, once it was executed.
    pub(crate) answer: Option<Answer>,
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
    /// The requests that all nodes have admitted, in this step of time and in earlier ones of the minute.
    pub(crate) admitted: [u8; MINUTE],
    /// What can still happen.
    pub(crate) left: Bounds,
}

impl Node {
    /// Creates a process that has nothing.
    pub(crate) fn new(phase: Phase, epoch: u8) -> Self {
        Self {
            phase,
            epoch,
            granted: 0,
            admitted: [0; MINUTE],
            in_flight: 0,
            operations: 0,
            recalled: None,
            has_failed_over: false,
        }
    }

    /// Returns whether a process runs.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Stopped | Phase::Ended)
    }

    /// Returns whether it admits requests.
    pub(crate) fn admits(&self, bug: Option<Bug>) -> bool {
        match self.phase {
            Phase::Serving => true,
            Phase::Silent(steps) => steps < PATIENCE || bug == Some(Bug::ServesWithoutPatience),
            Phase::Starting | Phase::Stopped | Phase::Ended => false,
        }
    }

    /// Returns what is in use of the limit.
    pub(crate) fn used(&self, kind: LimitKind) -> i64 {
        match kind {
            LimitKind::PerMinute => self.admitted.iter().copied().map(i64::from).sum(),
            LimitKind::Concurrency => self.in_flight.into(),
        }
    }

    /// Returns what is not in use.
    pub(crate) fn unused(&self, scenario: &Scenario) -> i64 {
        let used = self.used(scenario.kind);
        self.granted - if scenario.bug == Some(Bug::GivesBackUsed) { 0 } else { used }
    }
}

impl GatewayFleet {
    /// Creates the first state: all nodes serve and have nothing.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            store: Store::new(scenario.nodes),
            nodes: vec![Node::new(Phase::Serving, 1); scenario.nodes],
            calls: Vec::new(),
            admitted: [0; MINUTE],
            left: scenario.bounds,
        }
    }

    /// Returns whether the allocator of a node waits for the store. It sends one operation at a time.
    pub(crate) fn awaits(&self, node: NodeIndex) -> bool {
        self.calls.iter().any(|call| call.is_awaited && call.process.node == node)
    }

    /// Returns whether an operation of a node may still be executed.
    pub(crate) fn has_calls(&self, node: NodeIndex) -> bool {
        self.calls.iter().any(|call| call.process.node == node)
    }

    /// Sends the next operation of a node.
    pub(crate) fn send(&mut self, node: NodeIndex, operation: Operation) {
        self.nodes[node].operations += 1;
        let Node { epoch, operations: number, .. } = self.nodes[node];
        let process = Process { node, epoch };
        self.add(Call { process, number, operation, is_awaited: true, answer: None });
    }

    fn add(&mut self, call: Call) {
        self.calls.push(call);
        self.calls.sort_unstable();
    }

    /// Lets a node give back an amount.
    pub(crate) fn give_back(&mut self, node: NodeIndex, amount: i64, bug: Option<Bug>) {
        if bug != Some(Bug::GivesBackBeforeReduction) {
            self.nodes[node].granted -= amount;
        }
        self.send(node, Operation::GiveBack(amount));
    }

    /// Lets a node answer a recall.
    pub(crate) fn answer_recall(&mut self, node: NodeIndex, needed: i64, scenario: &Scenario) {
        self.nodes[node].recalled = None;
        let amount = give_back(self.nodes[node].unused(scenario), needed);
        if amount > 0 {
            self.give_back(node, amount, scenario.bug);
        }
    }

    /// Lets the database fail over. Nodes that have requested parts will correct them.
    pub(crate) fn fail_over(&mut self) {
        for node in &mut self.nodes {
            node.has_failed_over |= node.operations > 0;
        }
    }

    /// Lets a node reduce its part to what is in use, after a failover.
    pub(crate) fn reduce_to_used(&mut self, index: NodeIndex, scenario: &Scenario) {
        let node = &mut self.nodes[index];
        node.has_failed_over = false;
        let granted = node.granted;
        if scenario.bug == Some(Bug::GivesBackAllAfterFailover) {
            node.granted = 0;
            self.send(index, Operation::GiveBack(granted));
        } else {
            node.granted = granted.min(node.used(scenario.kind));
            let used = node.granted;
            self.send(index, Operation::Set(used));
        }
    }

    /// Executes a call, whose answer is then under way if the process waits for it.
    pub(crate) fn execute(&mut self, index: usize, scenario: &Scenario) {
        let mut call = self.calls.remove(index);
        if self.store.is_fenced(call.process, scenario.bug) {
            if call.is_awaited {
                self.end(call.process.node, Phase::Ended);
            }
            return;
        }
        call.answer = self.store.execute(call.process, (call.number, call.operation), scenario);
        if call.is_awaited && call.answer.is_some() {
            self.add(call);
        }
    }

    /// Delivers the answer to a call.
    pub(crate) fn deliver(&mut self, index: usize, answer: Answer, bug: Option<Bug>) {
        let Call { process, operation, .. } = self.calls.remove(index);
        let node = &mut self.nodes[process.node];
        match operation {
            Operation::Allocate(needed) => {
                node.granted += answer.granted;
                let lacking = needed - answer.granted;
                if lacking > 0 && answer.is_elsewhere {
                    self.recall(process.node, lacking);
                }
            }
            Operation::GiveBack(amount) if bug == Some(Bug::GivesBackBeforeReduction) => {
                node.granted -= amount;
            }
            Operation::GiveBack(_) | Operation::Set(_) => {}
        }
    }

    fn recall(&mut self, sender: NodeIndex, needed: i64) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if index != sender && node.phase == Phase::Serving {
                node.recalled = node.recalled.max(Some(needed));
            }
        }
    }

    /// Lets a node repeat an operation whose answer did not arrive in time.
    pub(crate) fn time_out(&mut self, index: usize) {
        let call = self.calls.remove(index);
        if call.answer.is_none() {
            // It may still be executed.
            self.add(Call { is_awaited: false, ..call.clone() });
        }
        self.add(Call { answer: None, ..call });
    }

    /// Ends a process, whose memory is lost. The operations that it has sent may still be executed.
    pub(crate) fn end(&mut self, node: NodeIndex, phase: Phase) {
        self.calls.retain(|call| call.process.node != node || call.answer.is_none());
        for call in &mut self.calls {
            call.is_awaited &= call.process.node != node;
        }
        self.calls.sort_unstable();
        self.calls.dedup();
        let ended = &mut self.nodes[node];
        *ended = Node::new(phase, ended.epoch);
    }

    /// Lets a step of time pass.
    pub(crate) fn tick(&mut self) {
        self.store.tick();
        let pass = |counts: &mut [u8; MINUTE]| {
            counts.rotate_right(1);
            counts[0] = 0;
        };
        pass(&mut self.admitted);
        for node in &mut self.nodes {
            pass(&mut node.admitted);
            if let Phase::Silent(steps) = &mut node.phase {
                *steps = (*steps + 1).min(PATIENCE);
            }
        }
    }
}
