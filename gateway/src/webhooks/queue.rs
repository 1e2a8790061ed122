//! The messages that wait for an endpoint.
//!
//! Accounts take turns, and each has a bounded number of places, so that the messages about one delay those about others
//! by one message at a time. A message replaces one that waits about the same subject: only the newest state matters to
//! a receiver.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::Message;
use crate::fair_queue::FairQueue;
use domain::alert::AlertId;

/// The number of messages that may wait for an endpoint.
pub(super) const MAX_WAITING: usize = 1_000;
/// The number of those that may be about one account.
pub(super) const MAX_OF_ACCOUNT: usize = 100;

/// A bounded queue with one reader.
pub(super) struct MessageQueue {
    messages: Mutex<FairQueue<Message>>,
    pushed: Notify,
}

impl MessageQueue {
    /// Creates an empty queue.
    pub(super) fn new() -> Self {
        Self { messages: Mutex::new(FairQueue::new(MAX_WAITING)), pushed: Notify::new() }
    }

    /// Appends a message, or replaces the one about the same subject. Returns the message for which there is no place:
    /// this one, or one of the account that has the most.
    pub(super) fn push(&self, message: Message) -> Option<Message> {
        let (mut messages, account) = (self.lock(), message.account);
        let mut count = 0;
        for older in messages.of_account(account) {
            if older.subject == message.subject {
                *older = message;
                return None;
            }
            count += 1;
        }
        if count >= MAX_OF_ACCOUNT {
            return Some(message);
        }
        let pushed = messages.push(account, message);
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
        self.lock().retain(|message| message.subject.as_ref() != Some(ended));
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
        self.lock().pop()
    }

    /// Returns the number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting()
    }

    fn lock(&self) -> MutexGuard<'_, FairQueue<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
