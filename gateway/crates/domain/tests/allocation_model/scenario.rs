//! The bounds of a run, and the faults that are put into the model on purpose.

/// The number of accounts.
pub(crate) const ACCOUNTS: usize = 2;

/// The index of an account.
pub(crate) type AccountIndex = usize;
/// The index of a node.
pub(crate) type NodeIndex = usize;
/// The index of a request in [`Scenario::requests`].
pub(crate) type RequestIndex = usize;

/// A request that can arrive once.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The node that receives it.
    pub(crate) node: NodeIndex,
    /// The account that pays for it.
    pub(crate) account: AccountIndex,
    /// The amount that is held for it.
    pub(crate) hold: i64,
    /// The cost that is known at its end; more than the hold is an overrun.
    pub(crate) cost: i64,
    /// The cost that a replay assumes if the journal does not have its end.
    pub(crate) open_cost: i64,
}

/// What can happen in a run, and how often, so that there are finitely many states.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The number of nodes.
    pub(crate) nodes: usize,
    /// The first credit of each account.
    pub(crate) balances: [i64; ACCOUNTS],
    /// The requests.
    pub(crate) requests: Vec<Request>,
    /// What remains of the events that are bounded.
    pub(crate) bounds: Bounds,
    /// The account and the amounts of possible credits and debits.
    pub(crate) changes: Vec<(AccountIndex, i64)>,
    /// The deliberate fault; `None` for the behaviour of the real code.
    pub(crate) bug: Option<Bug>,
}

/// The number of events of each kind that can still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// Allocations that are requested.
    pub(crate) allocations: u8,
    /// Parts that are given back because they were not used.
    pub(crate) quiet: u8,
    /// Calls of the store that a node gives up, although the store may still execute them.
    pub(crate) timeouts: u8,
    /// Processes that are killed.
    pub(crate) crashes: u8,
    /// Nodes that are removed.
    pub(crate) removals: u8,
    /// Credits and debits.
    pub(crate) changes: u8,
}

/// A deliberate fault. The checker must find the violation of a property for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// An amount is added to memory before the store has granted it.
    CreditBeforeGrant,
    /// An amount is given back in the store before it is removed from memory.
    GiveBackBeforeReduction,
    /// A commit does not take its charges from the allocation.
    CommitKeepsAllocation,
    /// A batch that is delivered again reduces the allocation again.
    SecondDeliveryReduces,
    /// A commit does not skip records that the store has.
    RecordWrittenTwice,
    /// Open requests are charged at replay regardless of what is allocated.
    UnboundedReplay,
    /// A start gives everything back before it replays the journal.
    ReleaseBeforeReplay,
    /// A start neither waits for nor refuses transactions of the earlier process.
    JoinWithoutFence,
    /// A removal neither waits for nor refuses transactions of the removed node.
    RemovalWithoutFence,
    /// An allocation reads the balance before the allocations.
    BalanceReadFirst,
    /// A part is given back again if the answer of the store was lost.
    GiveBackRepeated,
    /// A stop gives everything back although records wait in the journal.
    ReleaseWithWaitingRecords,
    /// A stop does not wait for transactions that it has abandoned.
    ReleaseWithoutWait,
    /// The journal forgets records before the store has them.
    JournalTrimmedEarly,
}
