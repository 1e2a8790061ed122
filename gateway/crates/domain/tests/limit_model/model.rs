//! The actions of the model: which are possible in a state, and the state after each.

use stateright::{Model, Property};

use super::fleet::{GatewayFleet, Node, Phase};
use super::properties;
use super::scenario::{Bug, LimitKind, NodeIndex, PATIENCE, Scenario};
use super::store::Operation;

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A step of time passes.
    Tick,
    /// A node admits a request.
    Admit(NodeIndex),
    /// A request ends.
    Complete(NodeIndex),
    /// A node requests what a request lacks.
    Request(NodeIndex),
    /// A node answers a recall of an amount.
    AnswerRecall(NodeIndex, i64),
    /// A node gives back what it has not used for some time.
    GiveBackUnused(NodeIndex, i64),
    /// A call is executed.
    Execute(usize),
    /// The answer to a call arrives.
    Deliver(usize),
    /// A node repeats an operation, because its answer did not arrive in time.
    TimeOut(usize),
    /// A call that nothing waits for is rolled back.
    RollBack(usize),
    /// A process that has no requests stops: it gives everything back.
    Stop(NodeIndex),
    /// A process is killed.
    Crash(NodeIndex),
    /// A process starts.
    Join(NodeIndex),
    /// A start gives back what the earlier process had.
    Release(NodeIndex),
    /// A node loses the store.
    Silence(NodeIndex),
    /// A node reaches the store again, and is stopped if it was removed.
    Return(NodeIndex),
    /// An operator removes a node that is silent or does not run.
    Remove(NodeIndex),
    /// The database fails over, and loses nothing.
    FailOver,
    /// A node that has noticed a failover reduces its part to what is in use.
    ReduceToUsed(NodeIndex),
}

impl Model for Scenario {
    type State = GatewayFleet;
    type Action = Action;

    fn init_states(&self) -> Vec<GatewayFleet> {
        vec![GatewayFleet::new(self)]
    }

    fn actions(&self, fleet: &GatewayFleet, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if fleet.left.failovers > 0 {
            actions.push(Action::FailOver);
        }
        for node in 0..self.nodes {
            self.requests(fleet, node, actions);
            self.faults(fleet, node, actions);
        }
        for (index, call) in fleet.calls.iter().enumerate() {
            actions.push(match call.answer {
                Some(_) => Action::Deliver(index),
                None => Action::Execute(index),
            });
            if !call.is_awaited {
                actions.push(Action::RollBack(index));
            } else if fleet.left.timeouts > 0 {
                actions.push(Action::TimeOut(index));
            }
        }
    }

    fn next_state(&self, fleet: &GatewayFleet, action: Action) -> Option<GatewayFleet> {
        let mut next = fleet.clone();
        match action {
            Action::Tick => next.tick(),
            Action::Admit(node) => {
                next.left.admissions -= 1;
                match self.kind {
                    LimitKind::PerMinute => {
                        next.nodes[node].admitted[0] += 1;
                        next.admitted[0] += 1;
                    }
                    LimitKind::Concurrency => next.nodes[node].in_flight += 1,
                }
            }
            Action::Complete(node) => next.nodes[node].in_flight -= 1,
            Action::Request(node) => {
                next.left.allocations -= 1;
                let lacking = next.nodes[node].used(self.kind) + 1 - next.nodes[node].granted;
                next.send(node, Operation::Allocate(lacking));
            }
            Action::AnswerRecall(node, needed) => next.answer_recall(node, needed, self),
            Action::GiveBackUnused(node, amount) => {
                next.left.unused_returns -= 1;
                next.give_back(node, amount, self.bug);
            }
            Action::Execute(index) => next.execute(index, self),
            Action::Deliver(index) => {
                let answer = next.calls[index].answer?;
                next.deliver(index, answer, self.bug);
            }
            Action::TimeOut(index) => {
                next.left.timeouts -= 1;
                next.time_out(index);
            }
            Action::RollBack(index) => _ = next.calls.remove(index),
            Action::Stop(node) => {
                next.left.stops -= 1;
                next.end(node, Phase::Stopped);
                next.store.release(node, self);
            }
            Action::Crash(node) => {
                next.left.crashes -= 1;
                next.end(node, Phase::Ended);
            }
            Action::Join(node) => {
                let epoch = next.store.join(node);
                next.nodes[node] = Node::new(Phase::Starting, epoch);
            }
            Action::Release(node) => {
                next.store.release(node, self);
                next.nodes[node].phase = Phase::Serving;
            }
            Action::Silence(node) => {
                next.left.silences -= 1;
                next.nodes[node].phase = Phase::Silent(0);
            }
            Action::Return(node) => {
                if next.store.nodes[node].is_removed {
                    next.end(node, Phase::Ended);
                } else {
                    next.nodes[node].phase = Phase::Serving;
                }
            }
            Action::Remove(node) => {
                next.left.removals -= 1;
                next.store.remove(node, self);
            }
            Action::FailOver => {
                next.left.failovers -= 1;
                next.fail_over();
            }
            Action::ReduceToUsed(node) => next.reduce_to_used(node, self),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}

impl Scenario {
    /// Adds what a node does for its requests.
    fn requests(&self, fleet: &GatewayFleet, index: NodeIndex, actions: &mut Vec<Action>) {
        let node = &fleet.nodes[index];
        let used = node.used(self.kind);
        if node.in_flight > 0 {
            actions.push(Action::Complete(index));
        }
        if node.admits(self.bug) && fleet.left.admissions > 0 && used < node.granted {
            actions.push(Action::Admit(index));
        }
        let is_serving = matches!(node.phase, Phase::Serving | Phase::Silent(_));
        if !is_serving || fleet.awaits(index) {
            return;
        }
        let may_obtain = used >= node.granted && used < self.limit;
        if node.admits(self.bug) && fleet.left.allocations > 0 && may_obtain {
            actions.push(Action::Request(index));
        }
        if node.has_failed_over && node.phase == Phase::Serving {
            actions.push(Action::ReduceToUsed(index));
        }
        actions.extend(node.recalled.map(|needed| Action::AnswerRecall(index, needed)));
        let amount = node.unused(self) - used / 2;
        if fleet.left.unused_returns > 0 && amount > 0 {
            actions.push(Action::GiveBackUnused(index, amount));
        }
    }

    /// Adds what happens to a node.
    fn faults(&self, fleet: &GatewayFleet, index: NodeIndex, actions: &mut Vec<Action>) {
        let (node, left) = (&fleet.nodes[index], &fleet.left);
        let is_removed = fleet.store.nodes[index].is_removed;
        match node.phase {
            Phase::Starting if !is_removed => actions.push(Action::Release(index)),
            Phase::Serving => {
                // A release waits for the transactions of its process.
                let abandoned =
                    fleet.has_calls(index) && self.bug != Some(Bug::ReleasesWithoutWait);
                if left.stops > 0 && node.in_flight == 0 && !abandoned && !is_removed {
                    actions.push(Action::Stop(index));
                }
                if left.silences > 0 {
                    actions.push(Action::Silence(index));
                }
            }
            Phase::Silent(_) => actions.push(Action::Return(index)),
            Phase::Stopped | Phase::Ended if !is_removed => actions.push(Action::Join(index)),
            Phase::Starting | Phase::Stopped | Phase::Ended => {}
        }
        if node.is_running() && left.crashes > 0 {
            actions.push(Action::Crash(index));
        }
        let may_remove = match node.phase {
            Phase::Silent(steps) => {
                steps >= PATIENCE || self.bug == Some(Bug::RemovesBeforePatience)
            }
            phase => matches!(phase, Phase::Stopped | Phase::Ended),
        };
        if left.removals > 0 && !is_removed && may_remove {
            actions.push(Action::Remove(index));
        }
    }
}
