//! Claims idempotency keys in the database, so that one of several gateways serves a request.
//!
//! One task writes all claims, so that those of many requests become one transaction, and a client
//! that disconnects interrupts no statement. It also releases the claims of requests that ended
//! without a complete answer. `answers.rs` stores complete ones, which other gateways replay.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use domain::idempotency::{Claim, ClaimOutcome};
use store::{IdempotencyClaims, StoreError};

/// The maximum number of changes in a transaction.
const MAX_BATCH: usize = 512;
/// The pause before claims are released again after a failure of the store.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The claims of this gateway's requests.
pub struct Claims {
    queue: UnboundedSender<Change>,
}

/// The background work. Must be run until it returns.
pub struct ClaimsTask {
    queue: UnboundedReceiver<Change>,
    store: Arc<dyn IdempotencyClaims>,
    /// How long a claim remains in force after its request was answered.
    window: Duration,
    /// Claims whose requests ended without a complete answer.
    ended: Vec<Claim>,
    is_failing: bool,
}

enum Change {
    /// The sender is dropped if the store fails.
    Claim(Claim, oneshot::Sender<ClaimOutcome>),
    Release(Claim),
}

// === impl Claims ===

impl Claims {
    /// Creates the claims, which remain in force for `window` after their requests were answered.
    pub fn new(store: Arc<dyn IdempotencyClaims>, window: Duration) -> (Self, ClaimsTask) {
        let (sender, queue) = mpsc::unbounded_channel();
        let task = ClaimsTask { queue, store, window, ended: Vec::new(), is_failing: false };
        (Self { queue: sender }, task)
    }

    /// Makes a claim. This process must have no other request in progress with its key. Returns
    /// `None` if the database cannot be reached. A [claimed](ClaimOutcome::Claimed) one must be
    /// [released](Self::release) unless its request is answered completely.
    ///
    /// # Cancel safety
    /// If the future is dropped, the claim is released.
    pub async fn claim(&self, claim: Claim) -> Option<ClaimOutcome> {
        let (reply, outcome) = oneshot::channel();
        self.queue.send(Change::Claim(claim, reply)).ok()?;
        outcome.await.ok()
    }

    /// Releases a claim whose request ended without a complete answer.
    pub fn release(&self, claim: Claim) {
        // The task ends only after the last request: see `app::run`.
        _ = self.queue.send(Change::Release(claim));
    }
}

// === impl ClaimsTask ===

impl ClaimsTask {
    /// Writes claims until `stop` is cancelled and nothing is left to write.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut changes = Vec::new();
        loop {
            tokio::select! {
                biased;
                taken = self.queue.recv_many(&mut changes, MAX_BATCH) => {
                    if taken == 0 {
                        break;
                    }
                    self.apply(&mut changes).await;
                }
                () = stop.cancelled(), if !self.queue.is_closed() => self.queue.close(),
                () = sleep(RETRY_PAUSE), if !self.ended.is_empty() => {
                    // Those that are left are released later.
                    _ = self.release().await;
                }
            }
        }
        // If this fails, the next start in the data directory releases the rest.
        _ = self.release().await;
    }

    async fn apply(&mut self, changes: &mut Vec<Change>) {
        let (mut claims, mut replies) = (Vec::new(), Vec::new());
        for change in changes.drain(..) {
            match change {
                Change::Release(claim) => self.ended.push(claim),
                // Its client has disconnected. The next claim of the key may be in this batch.
                Change::Claim(_, reply) if reply.is_closed() => {}
                Change::Claim(claim, reply) => {
                    claims.push(claim);
                    replies.push(reply);
                }
            }
        }
        // If this fails, the claims are refused without another attempt.
        if self.release().await.is_err() || claims.is_empty() {
            return;
        }
        match self.store.claim(&claims, self.window).await {
            Ok(outcomes) => {
                self.is_failing = false;
                for ((claim, reply), outcome) in claims.into_iter().zip(replies).zip(outcomes) {
                    if reply.send(outcome).is_err() && outcome == ClaimOutcome::Claimed {
                        self.ended.push(claim);
                    }
                }
            }
            Err(error) => {
                self.log_failure(&error);
                // The database may have them all the same.
                self.ended.extend(claims);
            }
        }
    }

    /// Releases the claims of ended requests. Those that are left after a failure are released later.
    async fn release(&mut self) -> Result<(), StoreError> {
        while !self.ended.is_empty() {
            let count = self.ended.len().min(MAX_BATCH);
            let released = self.store.release_claims(&self.ended[..count]).await;
            released.inspect_err(|error| self.log_failure(error))?;
            self.ended.drain(..count);
        }
        Ok(())
    }

    /// Logs the first of several failures.
    fn log_failure(&mut self, error: &StoreError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            let error: &dyn std::error::Error = error;
            tracing::warn!(error, "cannot claim idempotency keys; requests with one are refused");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory_claims::{Memory, claim};
    use super::*;

    const WINDOW: Duration = Duration::from_mins(10);

    #[tokio::test(start_paused = true)]
    async fn a_claim_whose_client_disconnects_is_released() {
        let store = Memory::new(0);
        let (claims, task) = Claims::new(store.clone(), WINDOW);
        let stop = CancellationToken::new();
        let ended = stop.clone();
        let serving = async {
            {
                let claiming = claims.claim(claim(1));
                tokio::pin!(claiming);
                assert!(tokio::time::timeout(Duration::from_secs(1), claiming).await.is_err());
            }
            assert_eq!(store.holder(), Some(claim(1).request));
            store.permits.add_permits(9);
            assert_eq!(claims.claim(claim(2)).await, Some(ClaimOutcome::Claimed));
            assert_eq!(store.holder(), Some(claim(2).request), "the second one is not released");
            claims.release(claim(2));
            ended.cancel();
        };
        tokio::join!(task.run(stop), serving);
        assert_eq!(store.holder(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_of_unknown_outcome_is_released_once_the_store_works() {
        let store = Memory::new(9);
        let (claims, task) = Claims::new(store.clone(), WINDOW);
        let stop = CancellationToken::new();
        *store.is_failing.lock().unwrap() = true;
        let serving = async {
            assert_eq!(claims.claim(claim(1)).await, None);
            assert_eq!(store.holder(), Some(claim(1).request));
            *store.is_failing.lock().unwrap() = false;
            sleep(RETRY_PAUSE * 2).await;
            assert_eq!(store.holder(), None);
            stop.cancel();
        };
        tokio::join!(task.run(stop.clone()), serving);
    }
}
