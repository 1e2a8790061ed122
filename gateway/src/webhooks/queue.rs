//! The messages that wait for an endpoint.
//!
//! Accounts take turns, and each has a bounded number of places, so that the messages about one delay those about others
//! by one message at a time. A message replaces one that waits about the same subject: only the newest state matters to
//! a receiver. The message about the ledger has a place of its own, because it tells that requests are not recorded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{Message, Subject};
use crate::fair_queue::FairQueue;
use domain::alert::AlertId;

/// The number of messages that may wait for an endpoint, besides the one about the ledger.
pub(super) const MAX_WAITING: usize = 1_000;
/// The number of those that may be about one account.
pub(super) const MAX_OF_ACCOUNT: usize = 100;

/// A bounded queue with one reader.
pub(super) struct MessageQueue {
    messages: Mutex<Messages>,
    pushed: Notify,
}

struct Messages {
    /// The newest about the ledger, which is sent first.
    ledger: Option<Message>,
    others: FairQueue<Message>,
}

impl MessageQueue {
    /// Creates an empty queue.
    pub(super) fn new() -> Self {
        let messages = Messages { ledger: None, others: FairQueue::new(MAX_WAITING) };
        Self { messages: Mutex::new(messages), pushed: Notify::new() }
    }

    /// Appends a message, or replaces the one about the same subject. Returns the message for which there is no place:
    /// this one, or one of the account that has the most.
    pub(super) fn push(&self, message: Message) -> Option<Message> {
        let (mut messages, account) = (self.lock(), message.account);
        if message.subject == Subject::Ledger {
            messages.ledger = Some(message);
            drop(messages);
            self.pushed.notify_one();
            return None;
        }
        let mut count = 0;
        for older in messages.others.of_account(account) {
            if older.subject == message.subject {
                *older = message;
                return None;
            }
            count += 1;
        }
        // Upstreams belong to no account, and there is one message about each.
        if account.is_some() && count >= MAX_OF_ACCOUNT {
            return Some(message);
        }
        let pushed = messages.others.push(account, message);
        drop(messages);
        match pushed {
            Ok(pushed) => {
                self.pushed.notify_one();
                pushed.displaced
            }
            Err(message) => Some(message),
        }
    }

    /// Removes the message about a condition that does not hold any more.
    pub(super) fn withdraw(&self, ended: &AlertId) {
        let is_ended = |it: &Message| matches!(&it.subject, Subject::Alert(it) if it == ended);
        self.lock().others.retain(|message| !is_ended(message));
    }

    /// Waits for the next message.
    ///
    /// # Cancel safety
    /// Cancelling it loses no message.
    pub(super) async fn next(&self) -> Message {
        loop {
            if let Some(message) = self.try_next() {
                return message;
            }
            self.pushed.notified().await;
        }
    }

    /// Removes the next message, if any waits.
    pub(super) fn try_next(&self) -> Option<Message> {
        let mut messages = self.lock();
        messages.ledger.take().or_else(|| messages.others.pop())
    }

    /// Returns the number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        let messages = self.lock();
        messages.others.waiting() + usize::from(messages.ledger.is_some())
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
