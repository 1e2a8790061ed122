//! Responses that later requests may refer to: kept behind the answer, read in front of the next one.
//!
//! [`State::keep`] never waits. What is on its way to the store is found here in memory, so that a
//! client which goes on at once finds what it just got.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::domain::id::{AccountId, RequestId};
use crate::domain::response::StoredResponse;
use crate::store::{Store, StoreError};

/// Bytes that may wait to be written; past it no request that wants to be kept is admitted.
const BEHIND: u64 = 64 * 1024 * 1024;
const LARGEST_BATCH: usize = 64;
const RETRY: Duration = Duration::from_millis(250);
/// How often responses past their retention are looked for.
const SWEEP: Duration = Duration::from_hours(1);

/// What an operator decides about keeping responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long a chain of responses is kept after it has last gone on.
    pub keep_for: Duration,
    /// How much each account may have stored, in bytes; the oldest responses make room.
    pub account_bytes: u64,
}

/// The responses that are kept.
pub struct State {
    pending: papaya::HashMap<RequestId, Arc<StoredResponse>>,
    waiting_bytes: Arc<AtomicU64>,
    queue: UnboundedSender<Change>,
    store: Arc<dyn Store>,
}

/// The state's background work: run it until it returns.
pub struct StateTask {
    state: Arc<State>,
    queue: UnboundedReceiver<Change>,
    retention: Retention,
    clock: Arc<dyn Clock>,
}

enum Change {
    Keep(Arc<StoredResponse>),
    Remove(AccountId, RequestId, oneshot::Sender<Result<(), StoreError>>),
}

/// Why what a request refers to cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It is not there: never was, was deleted, or is past its retention.
    #[error("response `{}` was not found", crate::domain::response::response_id(*.0))]
    NotFound(RequestId),
    /// It is longer than a request may be.
    #[error("the conversation is longer than {0} bytes")]
    TooLong(u64),
    /// The store does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// === impl State ===

impl State {
    /// Opens the state on `store`.
    pub fn new(
        store: Arc<dyn Store>,
        retention: Retention,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Self>, StateTask) {
        let (sender, queue) = mpsc::unbounded_channel();
        let state = Arc::new(Self {
            pending: papaya::HashMap::new(),
            waiting_bytes: Arc::default(),
            queue: sender,
            store,
        });
        (state.clone(), StateTask { state, queue, retention, clock })
    }

    /// Whether so much waits to be written that nothing more should be kept.
    pub fn is_behind(&self) -> bool {
        self.waiting_bytes.load(Ordering::Relaxed) > BEHIND
    }

    /// Keeps a response.
    pub fn keep(&self, mut response: StoredResponse) {
        response.items = item_ids(&response.input, &response.object);
        let response = Arc::new(response);
        self.pending.pin().insert(response.id, response.clone());
        self.waiting_bytes.fetch_add(response.bytes(), Ordering::Relaxed);
        if self.queue.send(Change::Keep(response)).is_err() {
            // the task ends only after the last request has: see `app::run`
            tracing::error!("a response came after the state's end and is not kept");
        }
    }

    /// Returns one response of `account`.
    ///
    /// # Errors
    /// [`StateError::NotFound`], or the store's.
    pub async fn find(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<StoredResponse, StateError> {
        if let Some(response) = self.find_pending(account, id) {
            return Ok(StoredResponse::clone(&response));
        }
        self.store.find_response(account, id).await?.ok_or(StateError::NotFound(id))
    }

    /// Returns all items of the chain that ends with `last`, oldest first.
    ///
    /// # Errors
    /// [`StateError::NotFound`] for the response that is missing, [`StateError::TooLong`] beyond
    /// `max_bytes`, or the store's.
    pub async fn chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Box<RawValue>>, StateError> {
        let (mut newest, mut next) = (Vec::new(), Some(last));
        while let Some(response) = next.and_then(|id| self.find_pending(account, id)) {
            next = response.previous;
            newest.push(response);
        }
        let mut chain = match next {
            Some(id) => self.store.response_chain(account, id, max_bytes).await?,
            None => Vec::new(),
        };
        chain.extend(newest.iter().rev().map(|response| StoredResponse::clone(response)));
        if chain.iter().map(StoredResponse::bytes).sum::<u64>() > max_bytes {
            return Err(StateError::TooLong(max_bytes));
        }
        match chain.first() {
            None => Err(StateError::NotFound(last)),
            Some(StoredResponse { previous: Some(missing), .. }) => {
                Err(StateError::NotFound(*missing))
            }
            Some(_) => Ok(chain.iter().flat_map(items).collect()),
        }
    }

    /// Returns those of the items `ids` that some response of `account` holds.
    ///
    /// # Errors
    /// The store's.
    pub async fn items(
        &self,
        account: AccountId,
        ids: Vec<String>,
    ) -> Result<HashMap<String, Box<RawValue>>, StateError> {
        let mut found = self.store.responses_with_items(account, ids.clone()).await?;
        let pending = self.pending.pin_owned();
        let here = pending.values().filter(|response| {
            response.account == account && response.items.iter().any(|item| ids.contains(item))
        });
        found.extend(here.map(|response| StoredResponse::clone(response)));
        let mut items_by_id = HashMap::new();
        for item in found.iter().flat_map(items) {
            if let Some(id) = item_id(&item).filter(|id| ids.contains(id)) {
                items_by_id.insert(id, item);
            }
        }
        Ok(items_by_id)
    }

    /// Forgets a response of `account`.
    ///
    /// # Errors
    /// [`StateError::NotFound`], or the store's.
    pub async fn remove(&self, account: AccountId, id: RequestId) -> Result<(), StateError> {
        let (reply, answer) = oneshot::channel();
        // behind whatever is to be kept, the response itself perhaps
        if self.queue.send(Change::Remove(account, id, reply)).is_err() {
            return Err(StateError::NotFound(id));
        }
        match answer.await {
            Ok(Err(StoreError::NotFound)) | Err(_) => Err(StateError::NotFound(id)),
            Ok(outcome) => Ok(outcome?),
        }
    }

    fn find_pending(&self, account: AccountId, id: RequestId) -> Option<Arc<StoredResponse>> {
        let found = self.pending.pin().get(&id).cloned();
        found.filter(|response| response.account == account)
    }
}

// === impl StateTask ===

impl StateTask {
    /// Writes what is kept until `stop` is cancelled and nothing is left to write.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut sweep = tokio::time::interval(SWEEP);
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                biased;
                taken = self.queue.recv_many(&mut changes, LARGEST_BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.apply(std::mem::take(&mut changes)).await;
                }
                _ = sweep.tick() => self.forget().await,
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
            }
        }
    }

    async fn apply(&self, changes: Vec<Change>) {
        let mut kept = Vec::new();
        for change in changes {
            match change {
                Change::Keep(response) => kept.push(response),
                Change::Remove(account, id, reply) => {
                    self.write(std::mem::take(&mut kept)).await;
                    // who asked may be gone; it is done all the same
                    _ = reply.send(self.state.store.remove_response(account, id).await);
                }
            }
        }
        self.write(kept).await;
    }

    /// Writes responses, however long the store takes to come back.
    async fn write(&self, responses: Vec<Arc<StoredResponse>>) {
        if responses.is_empty() {
            return;
        }
        let rows: Vec<_> =
            responses.iter().map(|response| StoredResponse::clone(response)).collect();
        let account_bytes = self.retention.account_bytes;
        while let Err(error) = self.state.store.keep_responses(rows.clone(), account_bytes).await {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(%error, source, responses = rows.len(), "cannot write responses; retrying");
            tokio::time::sleep(RETRY).await;
        }
        let pending = self.state.pending.pin_owned();
        for response in &responses {
            pending.remove(&response.id);
            self.state.waiting_bytes.fetch_sub(response.bytes(), Ordering::Relaxed);
        }
    }

    async fn forget(&self) {
        let keep_for =
            SignedDuration::try_from(self.retention.keep_for).unwrap_or(SignedDuration::MAX);
        let Ok(before) = self.clock.now().checked_sub(keep_for) else { return };
        match self.state.store.forget_responses(before).await {
            Ok(0) => {}
            Ok(responses) => tracing::info!(responses, "forgot responses past their retention"),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot forget responses past their retention");
            }
        }
    }
}

#[derive(Deserialize)]
struct Output {
    output: Vec<Box<RawValue>>,
}

/// All items of a response: what was sent, then what was answered.
fn items(response: &StoredResponse) -> Vec<Box<RawValue>> {
    // both are our own writing
    let mut items: Vec<_> = serde_json::from_str(&response.input).unwrap_or_default();
    let output = serde_json::from_str(&response.object).map(|Output { output }| output);
    items.extend(output.unwrap_or_default());
    items
}

fn item_ids(input: &str, object: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Ids {
        output: Vec<Item>,
    }
    let mut ids: Vec<Item> = serde_json::from_str(input).unwrap_or_default();
    ids.extend(serde_json::from_str(object).map(|Ids { output }| output).unwrap_or_default());
    ids.into_iter().filter_map(|item| item.id).collect()
}

fn item_id(item: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Item {
        id: Option<String>,
    }
    serde_json::from_str::<Item>(item.get()).ok()?.id
}
