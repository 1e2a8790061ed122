//! Moves amounts of shared pools between the store and this gateway.
//!
//! One task serves all pools, so that requests for many pools become one transaction. It answers
//! [`Shortages`], asks other gateways to give back what they do not need when the store has too little, answers such
//! recalls, and gives back the parts of pools that are no longer used.
//!
//! An amount is added to memory after the store has granted it, and removed from memory before it is given back, so
//! nothing is used twice. An operation whose answer is lost is repeated under its number, so nothing is stranded.
//!
//! A failover of the database may have lost operations whose answers arrived. After one, all that no request holds is
//! given back, and must be granted again: what the database does not have as granted must not be used. What requests
//! use of limits per minute and on concurrency becomes the allocation of this gateway in one transaction, so that others
//! cannot obtain it meanwhile.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, sleep};
use tokio_util::time::DelayQueue;

use crate::clock::Clock;
use crate::shared_pool::{Correction, LocalPool, PoolPhase, Shortages};
use domain::allocation::{Allocation, AllocationRequest, Pool, Recall, RecallScope};
use store::{Allocations, StoreError};

/// The pauses before what another gateway may have given back is requested again.
const RECALL_PAUSES: [Duration; 6] = [
    Duration::from_millis(15),
    Duration::from_millis(30),
    Duration::from_millis(60),
    Duration::from_millis(120),
    Duration::from_millis(240),
    Duration::from_millis(480),
];
/// The pause after a failure of the store.
const FAILURE_PAUSE: Duration = Duration::from_millis(200);
/// The time for which a pool counts as exhausted although other gateways have parts of it.
const EXHAUSTED_ELSEWHERE: Duration = Duration::from_millis(500);
/// The time for which a pool counts as exhausted of which this gateway has all.
const EXHAUSTED: Duration = Duration::from_secs(2);
/// The interval at which unused parts of pools are looked for.
const SCAN_INTERVAL: Duration = Duration::from_secs(2);
/// The number of scans without use after which a part of a pool is given back.
const QUIET_SCANS: u8 = 3;
/// The maximum number of pools in a transaction.
const MAX_BATCH: usize = 1_000;
/// The maximum number of pools that one transaction locks after a failover, when all gateways do so at once.
const MAX_SET_BATCH: usize = 100;

/// Moves amounts between the store and the pools in memory.
pub struct Allocator {
    store: Arc<dyn Allocations>,
    shortages: Arc<Shortages>,
    clock: Arc<dyn Clock>,
    /// The pools of which this gateway has a part.
    held: HashMap<Pool, Held, RandomState>,
    timers: DelayQueue<Timer>,
    /// The number of operations so far.
    operations: u64,
}

/// A pool of which this gateway has a part.
struct Held {
    pool: Arc<dyn LocalPool>,
    /// The activity at the last scan.
    activity: u64,
    /// The number of scans since the activity changed.
    quiet_scans: u8,
}

/// A pool that lacks something.
struct Lacking {
    pool: Arc<dyn LocalPool>,
    /// What an earlier attempt did not obtain.
    needed: i64,
    /// The number of earlier attempts.
    attempts: usize,
}

enum Timer {
    Retry(Lacking),
    Reopen(Arc<dyn LocalPool>),
}

impl Allocator {
    /// Creates the allocator.
    pub fn new(
        store: Arc<dyn Allocations>,
        shortages: Arc<Shortages>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            store,
            shortages,
            clock,
            held: HashMap::default(),
            timers: DelayQueue::new(),
            operations: 0,
        }
    }

    /// Serves the pools and the `recalls` of other gateways, without an end. `failovers` changes after each failover of
    /// the database.
    pub async fn run(
        mut self,
        mut recalls: mpsc::Receiver<Recall>,
        mut failovers: watch::Receiver<u64>,
    ) {
        let mut scans = interval(SCAN_INTERVAL);
        let mut received = Vec::new();
        loop {
            let lacking = tokio::select! {
                pools = self.shortages.take() => {
                    pools.into_iter().map(|pool| Lacking { pool, needed: 0, attempts: 0 }).collect()
                }
                Some(timer) = self.timers.next(), if !self.timers.is_empty() => {
                    match timer.into_inner() {
                        Timer::Retry(lacking) => vec![lacking],
                        Timer::Reopen(pool) => {
                            pool.reopen();
                            continue;
                        }
                    }
                }
                count = recalls.recv_many(&mut received, MAX_BATCH), if !recalls.is_closed() => {
                    if count > 0 {
                        self.answer(received.drain(..)).await;
                    }
                    continue;
                }
                _ = scans.tick() => {
                    self.give_back_unused().await;
                    continue;
                }
                Ok(()) = failovers.changed() => {
                    self.reduce_to_used().await;
                    continue;
                }
            };
            self.allocate(lacking).await;
        }
    }

    /// Requests what pools lack from the store.
    async fn allocate(&mut self, lacking: Vec<Lacking>) {
        let mut batch = HashMap::<Pool, (Lacking, AllocationRequest), RandomState>::default();
        for mut lacking in lacking {
            let Some(mut request) = lacking.pool.take_request() else { continue };
            request.needed = request.needed.max(lacking.needed);
            lacking.needed = request.needed;
            batch.insert(request.pool.clone(), (lacking, request));
        }
        let mut batch: Vec<_> = batch.into_values().collect();
        while !batch.is_empty() {
            let rest = batch.split_off(batch.len().min(MAX_BATCH));
            let (lacking, requests): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let store = self.store.clone();
            let operation = self.next_operation();
            let allocations = repeat(|| store.allocate(operation, &requests)).await;
            self.add(lacking, requests, allocations).await;
            batch = rest;
        }
    }

    /// Adds what was granted, and recalls what was not.
    async fn add(
        &mut self,
        lacking: Vec<Lacking>,
        requests: Vec<AllocationRequest>,
        allocations: Vec<Allocation>,
    ) {
        let mut recalls = Vec::new();
        for ((lacking, request), found) in lacking.into_iter().zip(requests).zip(allocations) {
            let Lacking { pool, needed: _, attempts } = lacking;
            let needed = request.needed - found.granted;
            if found.available < 0 {
                // The pool was reduced; gateways must not use what it no longer has.
                let (pool, needed) = (request.pool.clone(), -found.available);
                recalls.push(Recall { pool, needed, from: RecallScope::All });
            }
            let pause = RECALL_PAUSES.get(attempts).filter(|_| found.elsewhere > 0);
            match pause {
                _ if needed <= 0 => pool.add(found, PoolPhase::Open),
                Some(pause) => {
                    pool.add(found, PoolPhase::Requested);
                    let from = RecallScope::Others;
                    recalls.push(Recall { pool: request.pool.clone(), needed, from });
                    let lacking = Lacking { pool: pool.clone(), needed, attempts: attempts + 1 };
                    self.timers.insert(Timer::Retry(lacking), *pause);
                }
                None => {
                    pool.add(found, PoolPhase::Exhausted);
                    let pause = if found.elsewhere > 0 { EXHAUSTED_ELSEWHERE } else { EXHAUSTED };
                    self.timers.insert(Timer::Reopen(pool.clone()), pause);
                }
            }
            let held = Held { pool, activity: 0, quiet_scans: 0 };
            self.held.entry(request.pool).or_insert(held).quiet_scans = 0;
        }
        if !recalls.is_empty()
            && let Err(error) = self.store.recall(&recalls).await
        {
            tracing::debug!(%error, "cannot recall parts of shared balances or limits");
        }
    }

    /// Gives back what other gateways lack.
    async fn answer(&mut self, recalls: impl Iterator<Item = Recall>) {
        let now = self.clock.monotonic();
        let mut amounts = HashMap::<Pool, i64, RandomState>::default();
        for Recall { pool, needed, from: _ } in recalls {
            let Some(held) = self.held.get(&pool) else { continue };
            *amounts.entry(pool).or_default() += held.pool.take_unused(Some(needed), now);
        }
        self.give_back(amounts.into_iter().collect()).await;
    }

    /// Gives back the parts of pools that were not used during the last [`QUIET_SCANS`].
    async fn give_back_unused(&mut self) {
        let now = self.clock.monotonic();
        let mut amounts = Vec::new();
        self.held.retain(|pool, held| {
            let activity = held.pool.activity(now);
            let is_quiet = activity == held.activity;
            held.activity = activity;
            held.quiet_scans = if is_quiet { held.quiet_scans.saturating_add(1) } else { 0 };
            if held.quiet_scans < QUIET_SCANS {
                return true;
            }
            amounts.push((pool.clone(), held.pool.take_unused(None, now)));
            !held.pool.is_empty()
        });
        self.give_back(amounts).await;
    }

    /// Gives back everything but what requests use.
    async fn reduce_to_used(&mut self) {
        let now = self.clock.monotonic();
        let (mut unused, mut used) = (Vec::new(), Vec::new());
        for (pool, held) in &self.held {
            match held.pool.reduce_to_used(now) {
                Correction::GiveBack(amount) => unused.push((pool.clone(), amount)),
                Correction::Set(amount) => used.push((pool.clone(), amount)),
            }
        }
        self.give_back(unused).await;
        for amounts in used.chunks(MAX_SET_BATCH) {
            let operation = self.next_operation();
            repeat(|| self.store.set_allocated(operation, amounts)).await;
        }
    }

    async fn give_back(&mut self, mut amounts: Vec<(Pool, i64)>) {
        amounts.retain(|(_, amount)| *amount > 0);
        while !amounts.is_empty() {
            let rest = amounts.split_off(amounts.len().min(MAX_BATCH));
            let operation = self.next_operation();
            repeat(|| self.store.give_back(operation, &amounts)).await;
            amounts = rest;
        }
    }

    fn next_operation(&mut self) -> u64 {
        self.operations += 1;
        self.operations
    }
}

/// Repeats an operation until it succeeds: only then is it known what this gateway has.
async fn repeat<T, F>(operation: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut is_failing = false;
    loop {
        match operation().await {
            Ok(done) => return done,
            Err(error) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        error,
                        "cannot obtain or give back parts of shared balances and limits"
                    );
                }
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
}
