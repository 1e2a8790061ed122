//! The store of the model: one method per transaction of the real one, each atomic.

use std::collections::BTreeMap;

use domain::allocation::grant;

use super::scenario::{Bug, LimitKind, MINUTE, NodeIndex, Scenario};

/// A node and one process of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process {
    /// The node.
    pub(crate) node: NodeIndex,
    /// The number of the process.
    pub(crate) epoch: u8,
}

/// A row of `allocations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    /// The amount.
    pub(crate) amount: i64,
    /// The steps of time for which it still counts; `None` while its process has it.
    pub(crate) expires_in: Option<usize>,
}

/// A row of `nodes`, with that of `allocation_operations`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeRow {
    /// The number of the latest process.
    pub(crate) epoch: u8,
    /// Whether an operator removed the node.
    pub(crate) is_removed: bool,
    /// The last operation, and what it granted and left to others.
    pub(crate) last: Option<(u8, Answer)>,
}

/// The answer to an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Answer {
    /// The amount that was granted.
    pub(crate) granted: i64,
    /// Whether others have parts.
    pub(crate) is_elsewhere: bool,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Moves a part to the node, whose requests lack this amount.
    Allocate(i64),
    /// Gives back an amount.
    GiveBack(i64),
    /// Sets the part of the node, although less may be available.
    Set(i64),
}

/// The content of the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The parts by process.
    pub(crate) parts: BTreeMap<Process, Part>,
    /// The nodes.
    pub(crate) nodes: Vec<NodeRow>,
}

impl Store {
    /// Creates a store with running nodes that have nothing.
    pub(crate) fn new(nodes: usize) -> Self {
        let row = NodeRow { epoch: 1, is_removed: false, last: None };
        Self { parts: BTreeMap::new(), nodes: vec![row; nodes] }
    }

    /// Returns whether transactions of this process are refused.
    pub(crate) fn is_fenced(&self, process: Process, bug: Option<Bug>) -> bool {
        let row = &self.nodes[process.node];
        let is_superseded = row.epoch != process.epoch && bug != Some(Bug::JoinsWithoutFence);
        if row.is_removed { bug != Some(Bug::RemovesWithoutFence) } else { is_superseded }
    }

    /// Executes an operation, unless it was executed already. `None` if a later one was.
    pub(crate) fn execute(
        &mut self,
        process: Process,
        (number, operation): (u8, Operation),
        scenario: &Scenario,
    ) -> Option<Answer> {
        if scenario.bug != Some(Bug::RepeatsOperation) {
            match self.nodes[process.node].last {
                Some((last, answer)) if last == number => return Some(answer),
                Some((last, _)) if last > number => return None,
                _ => {}
            }
        }
        let answer = match operation {
            Operation::Allocate(needed) => self.allocate(process, needed, scenario),
            Operation::GiveBack(amount) => {
                if let Some(part) = self.parts.get_mut(&process) {
                    part.amount = (part.amount - amount).max(0);
                }
                self.parts.retain(|_, part| part.amount > 0);
                Answer::default()
            }
            Operation::Set(amount) => {
                self.parts.insert(process, Part { amount, expires_in: None });
                self.parts.retain(|_, part| part.amount > 0);
                Answer::default()
            }
        };
        self.nodes[process.node].last = Some((number, answer));
        Some(answer)
    }

    fn allocate(&mut self, process: Process, needed: i64, scenario: &Scenario) -> Answer {
        let counts = |part: &&Part| {
            part.expires_in.is_none() || scenario.bug != Some(Bug::IgnoresEarlierProcesses)
        };
        let allocated: i64 = self.parts.values().filter(counts).map(|part| part.amount).sum();
        let available = scenario.limit - allocated;
        let granted = grant(available, needed);
        let part = Part { amount: 0, expires_in: None };
        let own = self.parts.entry(process).or_insert(part);
        own.amount += granted;
        let is_elsewhere = self.parts.keys().any(|other| *other != process);
        self.parts.retain(|_, part| part.amount > 0);
        Answer { granted, is_elsewhere }
    }

    /// Starts a later process of a node. Returns its number.
    pub(crate) fn join(&mut self, node: NodeIndex) -> u8 {
        let row = &mut self.nodes[node];
        row.epoch += 1;
        row.last = None;
        row.epoch
    }

    /// Gives back everything that a node has. What it may have used of a limit per minute counts for another minute.
    pub(crate) fn release(&mut self, node: NodeIndex, scenario: &Scenario) {
        let expires_in = match scenario.bug {
            Some(Bug::ExpiresEarly) => MINUTE - 1,
            _ => MINUTE,
        };
        let is_deleted =
            scenario.kind == LimitKind::Concurrency || scenario.bug == Some(Bug::ReleasesAtOnce);
        self.parts.retain(|process, part| {
            if process.node == node && scenario.bug != Some(Bug::NeverExpires) {
                part.expires_in.get_or_insert(expires_in);
            }
            process.node != node || !is_deleted
        });
    }

    /// Removes a node.
    pub(crate) fn remove(&mut self, node: NodeIndex, scenario: &Scenario) {
        self.nodes[node].is_removed = true;
        self.release(node, scenario);
    }

    /// Lets a step of time pass.
    pub(crate) fn tick(&mut self) {
        self.parts.retain(|_, part| {
            part.expires_in = part.expires_in.map(|left| left.saturating_sub(1));
            part.expires_in != Some(0)
        });
    }
}
