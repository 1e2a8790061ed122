//! Stored responses that later requests may reference. They are written behind the answer.
//!
//! [`ResponseStore::keep`] never waits. Responses on their way to the store are found in memory, so that a client can
//! continue at once. Those of other gateways are not in memory: what is not found there is looked up again for a
//! moment ([`WriteDelay`]).

mod response_file;
#[cfg(test)]
mod tests;
mod write_delay;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use serde_json::value::RawValue;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::retention::RetentionSettings;
use crate::write_behind::WriteBehind;
use domain::id::{AccountId, RequestId};
use domain::response::{FoundItems, StoredResponse, Turn, item_id};
use store::{Store, StoreError};

pub(crate) use response_file::ResponseFile;
pub use write_delay::WriteDelay;

/// The bytes that should wait to be written. An account may have half as much as is left of it; beyond that, its requests
/// that store their response are refused.
const WAITING_BYTES: u64 = 64 * 1024 * 1024;
/// The bytes that may wait to be written, of all accounts together: those that have nothing waiting may exceed
/// [`WAITING_BYTES`].
const MAX_WAITING_BYTES: u64 = 256 * 1024 * 1024;
const MAX_BATCH: usize = 64;
/// The items that one request may reference. An agent that stores nothing itself references everything that
/// its model ever said; each item costs the store a search of some microseconds.
const MAX_ITEMS: usize = 4_096;

/// The stored responses.
pub struct ResponseStore {
    pending: papaya::HashMap<RequestId, Arc<StoredResponse>>,
    waiting_bytes: AtomicU64,
    /// The bytes that wait of each account that ever had any.
    waiting_of: papaya::HashMap<AccountId, AtomicU64>,
    queue: UnboundedSender<Change>,
    /// Where responses go once another process has the store.
    file: OnceLock<ResponseFile>,
    store: Arc<dyn Store>,
    /// The clock, if other gateways write to the store.
    clock_of_shared: Option<Arc<dyn Clock>>,
}

/// The background work. Must be run until it returns.
pub struct ResponseStoreTask {
    responses: Arc<ResponseStore>,
    queue: UnboundedReceiver<Change>,
    /// How much each account may store, in bytes; the oldest responses are deleted first.
    retention: Arc<ArcSwap<RetentionSettings>>,
}

enum Change {
    Keep(Arc<StoredResponse>),
    Remove(AccountId, RequestId, oneshot::Sender<Result<(), StoreError>>),
}

/// Why a reference of a request cannot be resolved.
#[derive(Debug, thiserror::Error)]
pub enum ResponseStoreError {
    /// The response was never stored, was deleted, or has expired.
    #[error("response `{}` was not found", domain::response::response_id(*.0))]
    NotFound(RequestId),
    /// The referenced items exceed a limit.
    #[error("the conversation is longer than {0}")]
    TooLong(Limit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A limit on referenced items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The total length, in bytes.
    Bytes(u64),
    /// The number of distinct items that are referenced individually.
    Items(usize),
}

// === impl ResponseStore ===

impl ResponseStore {
    /// Opens the responses in `store`. `retention` says how much each account may store. `clock_of_shared` is the clock if other
    /// gateways write to the store.
    pub fn new(
        store: Arc<dyn Store>,
        retention: Arc<ArcSwap<RetentionSettings>>,
        clock_of_shared: Option<Arc<dyn Clock>>,
    ) -> (Arc<Self>, ResponseStoreTask) {
        let (sender, queue) = mpsc::unbounded_channel();
        let responses = Arc::new(Self {
            pending: papaya::HashMap::new(),
            waiting_bytes: AtomicU64::default(),
            waiting_of: papaya::HashMap::new(),
            queue: sender,
            file: OnceLock::new(),
            store,
            clock_of_shared,
        });
        (responses.clone(), ResponseStoreTask { responses, queue, retention })
    }

    /// Returns whether so much waits to be written that `account` should store no more responses. One account that
    /// stores much does not keep others from it.
    pub fn is_behind(&self, account: AccountId) -> bool {
        let all = self.waiting_bytes.load(Ordering::Relaxed);
        let waiting_of = self.waiting_of.pin();
        let own = waiting_of.get(&account).map_or(0, |bytes| bytes.load(Ordering::Relaxed));
        own > WAITING_BYTES.saturating_sub(all) / 2 || all > MAX_WAITING_BYTES
    }

    fn add_waiting(&self, response: &StoredResponse) {
        self.waiting_bytes.fetch_add(response.bytes(), Ordering::Relaxed);
        let waiting_of = self.waiting_of.pin();
        let own = waiting_of.get_or_insert_with(response.account, AtomicU64::default);
        own.fetch_add(response.bytes(), Ordering::Relaxed);
    }

    fn remove_waiting(&self, response: &StoredResponse) {
        self.waiting_bytes.fetch_sub(response.bytes(), Ordering::Relaxed);
        if let Some(own) = self.waiting_of.pin().get(&response.account) {
            own.fetch_sub(response.bytes(), Ordering::Relaxed);
        }
    }

    /// Stores a response.
    pub fn keep(&self, mut response: StoredResponse) {
        response.items = response.contents().into_iter().filter_map(item_id).collect();
        let response = Arc::new(response);
        self.pending.pin().insert(response.id, response.clone());
        self.add_waiting(&response);
        // Once the task has ended, responses stay pending: see `hand_over` and `write_rest`.
        if self.queue.send(Change::Keep(response.clone())).is_err()
            && let Some(file) = self.file.get()
        {
            append(file, &response);
        }
    }

    /// Writes pending responses, and all later ones, to `file` for the process that has the store now. The task must have
    /// ended.
    pub(crate) fn hand_over(&self, file: ResponseFile) {
        let file = self.file.get_or_init(|| file);
        self.unwritten().iter().for_each(|response| append(file, response));
    }

    /// Writes the responses to the store that were pending when the task ended, or came later.
    pub async fn write_rest(&self) {
        let rest: Vec<_> = self.unwritten().iter().map(|it| StoredResponse::clone(it)).collect();
        let rows = rest.len();
        if rows > 0
            && let Err(error) = self.store.keep_responses(rest, u64::MAX).await
        {
            let error: &dyn std::error::Error = &error;
            tracing::error!(
                event = "rows_not_written",
                error,
                rows,
                "cannot write responses; stopping without them"
            );
        }
    }

    fn unwritten(&self) -> Vec<Arc<StoredResponse>> {
        self.pending.pin().values().cloned().collect()
    }

    /// Returns the delay for response `id`, which is over at once unless another gateway may be writing it.
    pub fn write_delay(&self, id: RequestId) -> WriteDelay {
        match &self.clock_of_shared {
            Some(clock) => WriteDelay::of_response(id, clock.now()),
            None => WriteDelay::over(),
        }
    }

    /// Returns one response of `account`. Callers look again during its [delay](Self::write_delay).
    ///
    /// # Errors
    /// [`ResponseStoreError::NotFound`], or the store's error.
    pub async fn find(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<StoredResponse, ResponseStoreError> {
        if let Some(response) = self.find_pending(account, id) {
            return Ok(StoredResponse::clone(&response));
        }
        self.store.find_response(account, id).await?.ok_or(ResponseStoreError::NotFound(id))
    }

    /// Returns all items of the chain that ends with `last`, oldest first. Waits while another gateway may be
    /// writing it.
    ///
    /// # Errors
    /// [`ResponseStoreError::NotFound`] for a missing response, [`ResponseStoreError::TooLong`] beyond `max_bytes`, or the
    /// store's error.
    pub async fn chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Box<RawValue>>, ResponseStoreError> {
        self.write_delay(last).repeat(|| self.find_chain(account, last, max_bytes)).await
    }

    async fn find_chain(
        &self,
        account: AccountId,
        last: RequestId,
        max_bytes: u64,
    ) -> Result<Vec<Box<RawValue>>, ResponseStoreError> {
        let (mut newest, mut bytes, mut next) = (Vec::new(), 0, Some(last));
        while let Some(response) = next.and_then(|id| self.find_pending(account, id)) {
            let turn = response.turn();
            next = turn.previous;
            bytes += turn.bytes();
            if bytes > max_bytes {
                return Err(ResponseStoreError::TooLong(Limit::Bytes(max_bytes)));
            }
            newest.push(turn);
        }
        let mut chain = match next {
            Some(id) => self.store.response_chain(account, id, max_bytes - bytes).await?,
            None => Vec::new(),
        };
        if bytes + chain.iter().map(Turn::bytes).sum::<u64>() > max_bytes {
            return Err(ResponseStoreError::TooLong(Limit::Bytes(max_bytes)));
        }
        chain.extend(newest.into_iter().rev());
        match chain.first() {
            None => Err(ResponseStoreError::NotFound(last)),
            Some(Turn { previous: Some(missing), .. }) => {
                Err(ResponseStoreError::NotFound(*missing))
            }
            Some(_) => Ok(chain.into_iter().flat_map(|turn| turn.items).collect()),
        }
    }

    /// Returns the items among `ids` that a response of `account` contains. Waits for those that are missing while
    /// another gateway may be writing them.
    ///
    /// # Errors
    /// [`ResponseStoreError::TooLong`] for too many items or more than `max_bytes`, or the store's error.
    pub async fn items(
        &self,
        account: AccountId,
        ids: Vec<String>,
        max_bytes: u64,
    ) -> Result<HashMap<String, Box<RawValue>>, ResponseStoreError> {
        let mut wanted: HashSet<String> = ids.into_iter().collect();
        if wanted.len() > MAX_ITEMS {
            return Err(ResponseStoreError::TooLong(Limit::Items(MAX_ITEMS)));
        }
        // Memory is read before the store: an item that has left it is in the store by then.
        let mut found = self.find_pending_items(account, &wanted);
        // The ids of items do not tell their age.
        let mut delay =
            if self.clock_of_shared.is_some() { WriteDelay::whole() } else { WriteDelay::over() };
        loop {
            wanted.retain(|id| !found.has(id));
            if found.bytes() > max_bytes || wanted.is_empty() {
                break;
            }
            let left = max_bytes - found.bytes();
            found.extend(self.store.find_items(account, wanted.clone(), left).await?);
            if wanted.iter().all(|id| found.has(id)) || !delay.wait().await {
                break;
            }
        }
        if found.bytes() > max_bytes {
            return Err(ResponseStoreError::TooLong(Limit::Bytes(max_bytes)));
        }
        Ok(found.into_map())
    }

    /// Deletes a response of `account`. Waits while another gateway may be writing it.
    ///
    /// # Errors
    /// [`ResponseStoreError::NotFound`], or the store's error.
    pub async fn remove(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<(), ResponseStoreError> {
        self.write_delay(id).repeat(|| self.try_remove(account, id)).await
    }

    async fn try_remove(
        &self,
        account: AccountId,
        id: RequestId,
    ) -> Result<(), ResponseStoreError> {
        let (reply, answer) = oneshot::channel();
        // The deletion is queued behind pending writes, which may include the response.
        _ = self.queue.send(Change::Remove(account, id, reply));
        match answer.await {
            Ok(Err(StoreError::NotFound)) => Err(ResponseStoreError::NotFound(id)),
            Ok(outcome) => Ok(outcome?),
            // The task has ended; another process has the response.
            Err(ended) => Err(ResponseStoreError::Store(StoreError::Unavailable(ended.into()))),
        }
    }

    fn find_pending(&self, account: AccountId, id: RequestId) -> Option<Arc<StoredResponse>> {
        let found = self.pending.pin().get(&id).cloned();
        found.filter(|response| response.account == account)
    }

    fn find_pending_items(&self, account: AccountId, wanted: &HashSet<String>) -> FoundItems {
        let pending = self.pending.pin();
        let mut holders: Vec<_> = pending
            .values()
            .filter(|response| response.account == account)
            .filter(|response| response.items.iter().any(|item| wanted.contains(item)))
            .collect();
        holders.sort_unstable_by_key(|response| response.id);
        let mut found = FoundItems::default();
        for response in holders {
            found.take(response, wanted);
        }
        found
    }
}

// === impl ResponseStoreTask ===

impl ResponseStoreTask {
    /// Writes responses until `stop` is cancelled and nothing is left to write.
    pub async fn run(mut self, stop: CancellationToken) {
        let writer = WriteBehind::new("responses", stop.clone());
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                biased;
                taken = self.queue.recv_many(&mut changes, MAX_BATCH) => {
                    if taken == 0 || self.apply(&writer, std::mem::take(&mut changes)).await.is_none() {
                        return;
                    }
                }
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
            }
        }
    }

    /// Applies changes in their order; `None` if the writer gives up.
    async fn apply(&self, writer: &WriteBehind, changes: Vec<Change>) -> Option<()> {
        let mut responses = Vec::new();
        for change in changes {
            match change {
                Change::Keep(response) => responses.push(response),
                Change::Remove(account, id, reply) => {
                    self.write(writer, std::mem::take(&mut responses)).await?;
                    // The caller may have gone; the deletion happens all the same.
                    _ = reply.send(self.responses.store.remove_response(account, id).await);
                }
            }
        }
        self.write(writer, responses).await
    }

    async fn write(&self, writer: &WriteBehind, responses: Vec<Arc<StoredResponse>>) -> Option<()> {
        if responses.is_empty() {
            return Some(());
        }
        let rows: Vec<_> =
            responses.iter().map(|response| StoredResponse::clone(response)).collect();
        let keep = self.retention.load().responses;
        let account_bytes = keep.map_or(u64::MAX, |keep| keep.account_bytes);
        let attempt = || self.responses.store.keep_responses(rows.clone(), account_bytes);
        writer.write(rows.len(), attempt, |_| {}).await?;
        let pending = self.responses.pending.pin_owned();
        for response in &responses {
            pending.remove(&response.id);
            self.responses.remove_waiting(response);
        }
        Some(())
    }
}

/// Appends a response to a file, or logs that it is lost.
fn append(file: &ResponseFile, response: &StoredResponse) {
    if let Err(error) = file.append(response) {
        tracing::error!(event = "rows_not_written", %error, rows = 1, "cannot write a response for the process that has the database now");
    }
}

// === impl Limit ===

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Self::Items(count) => write!(f, "{count} references to items"),
        }
    }
}
