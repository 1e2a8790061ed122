//! The messages that wait for an endpoint.
//!
//! Accounts take turns, and each has a bounded number of places, so that the messages about one delay those about others
//! by one message at a time. A message replaces one that waits about the same subject: only the newest state matters to
//! a receiver. There is always a place for the message about the ledger, because requests are not recorded then. A
//! message that the endpoint did not accept waits for its next attempt, and keeps no other one from being sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{Message, Subject};
use crate::fair_queue::FairQueue;
use domain::alert::AlertId;

/// The number of messages that may wait for their first attempt, besides the one about the ledger, and the number of
/// those that may wait for another attempt.
pub(super) const MAX_WAITING: usize = 1_000;
/// The number of messages about one account that may wait for their first attempt.
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
    /// Those that the endpoint did not accept, each with the time of its next attempt.
    failed: Vec<(Instant, Message)>,
    /// The subject of the message that the reader has, unless a newer one has come about it or its condition has ended.
    sending: Option<Subject>,
    /// Whether a message that has failed is preferred, so that neither kind has to wait for the end of the other.
    prefers_failed: bool,
}

// === impl MessageQueue ===

impl MessageQueue {
    /// Creates an empty queue.
    pub(super) fn new() -> Self {
        let messages = Messages {
            ledger: None,
            others: FairQueue::new(MAX_WAITING),
            failed: Vec::new(),
            sending: None,
            prefers_failed: false,
        };
        Self { messages: Mutex::new(messages), pushed: Notify::new() }
    }

    /// Appends a message, or replaces the one about the same subject. Returns the message for which there is no place:
    /// this one, or one of the account that has the most.
    pub(super) fn push(&self, message: Message) -> Option<Message> {
        let mut messages = self.lock();
        messages.forget(&message.subject);
        let displaced = messages.push(message);
        drop(messages);
        self.pushed.notify_one();
        displaced
    }

    /// Keeps a message that the reader has taken and the endpoint did not accept until `due`, unless it is out of date
    /// by now. Returns it if there is no place for it.
    pub(super) fn push_failed(&self, message: Message, due: Instant) -> Option<Message> {
        let mut messages = self.lock();
        let is_current = messages.sending.take().is_some_and(|it| it == message.subject);
        if !is_current {
            return None;
        }
        if messages.failed.len() >= MAX_WAITING {
            return Some(message);
        }
        messages.failed.push((due, message));
        None
    }

    /// Removes the message about a condition that does not hold any more.
    pub(super) fn withdraw(&self, ended: &AlertId) {
        let is_ended = |it: &Message| matches!(&it.subject, Subject::Alert(it) if it == ended);
        let mut messages = self.lock();
        messages.others.retain(|message| !is_ended(message));
        messages.forget(&Subject::Alert(ended.clone()));
    }

    /// Waits for the next message.
    ///
    /// # Cancel safety
    /// Cancelling it loses no message.
    pub(super) async fn next(&self) -> Message {
        loop {
            let pushed = self.pushed.notified();
            let due = {
                let mut messages = self.lock();
                if let Some(message) = messages.take(Instant::now()) {
                    return message;
                }
                messages.failed.iter().map(|(due, _)| *due).min()
            };
            match due {
                // Either way, there may be a message now.
                Some(due) => drop(timeout_at(due, pushed).await),
                None => pushed.await,
            }
        }
    }

    /// Removes a message, also one that waits for its next attempt.
    pub(super) fn try_next(&self) -> Option<Message> {
        let mut messages = self.lock();
        let next = messages.ledger.take().or_else(|| messages.others.pop());
        next.or_else(|| messages.failed.pop().map(|(_, message)| message))
    }

    /// Returns the number of messages that wait.
    pub(super) fn waiting(&self) -> usize {
        let messages = self.lock();
        let ledger = usize::from(messages.ledger.is_some());
        messages.others.waiting() + messages.failed.len() + ledger
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Messages ===

impl Messages {
    /// Appends a message, or replaces one that waits for its first attempt. Returns that for which there is no place.
    fn push(&mut self, message: Message) -> Option<Message> {
        let account = message.account;
        if message.subject == Subject::Ledger {
            self.ledger = Some(message);
            return None;
        }
        let mut count = 0;
        for older in self.others.of_account(account) {
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
        match self.others.push(account, message) {
            Ok(pushed) => pushed.displaced,
            Err(message) => Some(message),
        }
    }

    /// Removes the message about `subject` that was sent before, and lets the one that is being sent not be repeated.
    fn forget(&mut self, subject: &Subject) {
        self.failed.retain(|(_, message)| message.subject != *subject);
        self.sending.take_if(|sending| sending == subject);
    }

    /// Removes the message that is sent at `now`.
    fn take(&mut self, now: Instant) -> Option<Message> {
        let message = match self.ledger.take() {
            Some(message) => message,
            None if self.prefers_failed => self.take_due(now).or_else(|| self.others.pop())?,
            None => self.others.pop().or_else(|| self.take_due(now))?,
        };
        self.prefers_failed = !self.prefers_failed;
        self.sending = Some(message.subject.clone());
        Some(message)
    }

    /// Removes the message whose next attempt has been due for the longest time.
    fn take_due(&mut self, now: Instant) -> Option<Message> {
        let due = self.failed.iter().enumerate().filter(|(_, (due, _))| *due <= now);
        let (at, _) = due.min_by_key(|(_, (due, _))| *due)?;
        Some(self.failed.swap_remove(at).1)
    }
}
