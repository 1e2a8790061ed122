//! A node of the model: its memory, its journal, and the steps that need no store.

use std::collections::{BTreeMap, BTreeSet};

use super::scenario::{ACCOUNTS, AccountIndex, Request, RequestIndex};

/// What the process of a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It replays the requests that had ended.
    ReplayingClosed,
    /// It replays the requests that had not ended.
    ReplayingOpen,
    /// It gives back what the earlier process had.
    Releasing,
    /// It serves requests.
    Serving,
    /// It admits no more requests and lets the others end.
    Stopping,
    /// It has stopped cleanly.
    Stopped,
    /// It was killed, failed to start, or could not stop cleanly.
    Ended,
}

/// What the journal has of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JournalEntry {
    /// The request went upstream.
    Open,
    /// The request ended and was charged this amount.
    Closed(i64),
}

/// A node. The memory is empty unless a process runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// What the process does.
    pub(crate) phase: Phase,
    /// The number of the process.
    pub(crate) epoch: u8,
    /// The part of each account that is in memory and not held.
    pub(crate) spendable: [i64; ACCOUNTS],
    /// The requests that were admitted and have not ended.
    pub(crate) held: BTreeSet<RequestIndex>,
    /// The charges of requests that have ended and whose commit was not acknowledged.
    pub(crate) queue: BTreeMap<RequestIndex, i64>,
    /// Whether the recorder has given up the queue at a stop.
    pub(crate) has_given_up: bool,
    /// The recalls that were received and not answered.
    pub(crate) recalls: BTreeSet<(AccountIndex, i64)>,
    /// The entries of the journal, which a crash does not lose.
    pub(crate) journal: BTreeMap<RequestIndex, JournalEntry>,
}

impl Node {
    /// Creates a node that serves, with nothing in memory.
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Serving,
            epoch: 1,
            spendable: [0; ACCOUNTS],
            held: BTreeSet::new(),
            queue: BTreeMap::new(),
            has_given_up: false,
            recalls: BTreeSet::new(),
            journal: BTreeMap::new(),
        }
    }

    /// Returns whether a process runs.
    pub(crate) fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Stopped | Phase::Ended)
    }

    /// Holds the possible cost of a request and adds it to the journal.
    pub(crate) fn admit(&mut self, index: RequestIndex, request: &Request) {
        self.spendable[request.account] -= request.hold;
        self.held.insert(index);
        self.journal.insert(index, JournalEntry::Open);
    }

    /// Pays a request as `Balance::settle` does: from its hold, then from what is spendable.
    pub(crate) fn settle(&mut self, index: RequestIndex, request: &Request) {
        let spendable = &mut self.spendable[request.account];
        let beyond = (request.cost - request.hold).max(0);
        let taken = beyond.min((*spendable).max(0));
        *spendable += (request.hold - request.cost).max(0) - taken;
        let charge = request.cost - (beyond - taken);
        self.held.remove(&index);
        self.journal.insert(index, JournalEntry::Closed(charge));
        self.queue.insert(index, charge);
    }

    /// Ends the process; its memory is lost. If `is_torn`, the last entries of the journal were not
    /// written: requests whose commit was not acknowledged are open in it.
    pub(crate) fn end(&mut self, phase: Phase, is_torn: bool) {
        if is_torn {
            for request in self.queue.keys() {
                self.journal.insert(*request, JournalEntry::Open);
            }
        }
        let journal = std::mem::take(&mut self.journal);
        *self = Self { phase, epoch: self.epoch, journal, ..Self::new() };
    }

    /// Returns the requests whose end is in the journal, with their charges.
    pub(crate) fn closed(&self) -> Vec<(RequestIndex, i64)> {
        let charge = |(request, entry): (&RequestIndex, &JournalEntry)| match entry {
            JournalEntry::Open => None,
            JournalEntry::Closed(charge) => Some((*request, *charge)),
        };
        self.journal.iter().filter_map(charge).collect()
    }

    /// Returns the requests that are open in the journal.
    pub(crate) fn open(&self) -> impl Iterator<Item = RequestIndex> {
        let entries = self.journal.iter();
        entries.filter(|(_, entry)| **entry == JournalEntry::Open).map(|(request, _)| *request)
    }
}
