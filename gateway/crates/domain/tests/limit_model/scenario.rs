//! What can happen in a run.

/// The number of steps of time in which a use counts: that of the use and those after it.
pub(crate) const MINUTE: usize = 2;

/// The number of steps of time for which a node serves without having reached the store.
pub(crate) const PATIENCE: u8 = 2;

/// The number of a node.
pub(crate) type NodeIndex = usize;

/// The kind of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    /// It bounds the requests in any minute.
    PerMinute,
    /// It bounds the requests at a time.
    Concurrency,
}

/// A limit, the nodes that share it, and what can happen.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// The kind of the limit.
    pub(crate) kind: LimitKind,
    /// The limit.
    pub(crate) limit: i64,
    /// How often events can happen.
    pub(crate) bounds: Bounds,
    /// The deliberate fault; `None` for the behaviour of the real code.
    pub(crate) bug: Option<Bug>,
}

/// The number of events of each kind that can still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Requests that are admitted.
    pub(crate) admissions: u8,
    /// Allocations that are requested.
    pub(crate) allocations: u8,
    /// Parts that are given back because they were not used.
    pub(crate) unused_returns: u8,
    /// Answers of the store that a node does not await to the end.
    pub(crate) timeouts: u8,
    /// Processes that stop cleanly.
    pub(crate) stops: u8,
    /// Processes that are killed.
    pub(crate) crashes: u8,
    /// Nodes that lose the store.
    pub(crate) silences: u8,
    /// Nodes that are removed.
    pub(crate) removals: u8,
    /// Failovers of the database that lose nothing.
    pub(crate) failovers: u8,
}

/// A deliberate fault. The checker must find the violation of a property for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A part is given back although it was used in the last minute, or is in use.
    GivesBackUsed,
    /// A part is given back in the store before it is removed from memory.
    GivesBackBeforeReduction,
    /// A start and a removal delete parts of a limit per minute at once.
    ReleasesAtOnce,
    /// What an earlier process had counts for less than a minute.
    ExpiresEarly,
    /// What an earlier process had counts for ever.
    NeverExpires,
    /// The parts of earlier processes that count for another minute are not subtracted.
    IgnoresEarlierProcesses,
    /// A start does not refuse transactions of the earlier process.
    JoinsWithoutFence,
    /// A removal does not refuse transactions of the removed node.
    RemovesWithoutFence,
    /// A removal does not wait until the node refuses requests.
    RemovesBeforePatience,
    /// A node without the store never refuses requests.
    ServesWithoutPatience,
    /// An operation whose answer was lost is executed again.
    RepeatsOperation,
    /// A stop does not wait for transactions that it has abandoned.
    ReleasesWithoutWait,
    /// After a failover everything is given back, and what is in use is allocated again.
    GivesBackAllAfterFailover,
}
