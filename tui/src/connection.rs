//! The one owner of the network: connects, reconnects by itself, and goes on where it was.
//!
//! [`Connection::run`] turns what the gateway says into [`Message`]s. It decides nothing about the
//! screen: what is fetched and followed is the [`Subscription`] that it is given. `session` is one
//! connection from its first answer to its end, `fetch` and `change` are the calls, `call` is how a
//! single one ends, `convert` turns answers into our types, `problem` is the only file that words
//! errors.

mod address;
mod call;
mod change;
mod convert;
mod fetch;
mod problem;
mod schedule;
mod session;
mod streams;

use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;

use std::sync::Arc;
use std::time::Duration;

pub use self::address::Address;
use self::call::{SessionError, with_timeout};
use crate::message::Message;
use crate::model::ConnectionState;
use crate::model::change::Change;
use crate::model::subscription::Subscription;

const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Checks a password and returns the session's token, or what went wrong and what to do.
pub async fn sign_in(
    gateway: &Address,
    name: String,
    password: &SecretString,
) -> Result<SecretString, String> {
    let mut accounts = accounts(gateway, None).await?;
    let request = v1::SignInRequest { name, password: password.expose_secret().to_owned() };
    let answer = with_timeout(accounts.sign_in(request)).await;
    answer
        .map(|answer| SecretString::from(answer.token))
        .map_err(|status| problem::sign_in(&status))
}

/// Creates an account, then does as [`sign_in`].
pub async fn register(
    gateway: &Address,
    name: String,
    password: &SecretString,
    invite_code: String,
) -> Result<SecretString, String> {
    let mut accounts = accounts(gateway, None).await?;
    let password_text = password.expose_secret().to_owned();
    let request = v1::RegisterRequest { name: name.clone(), password: password_text, invite_code };
    with_timeout(accounts.register(request)).await.map_err(|status| problem::register(&status))?;
    sign_in(gateway, name, password).await
}

/// Ends the session that `token` belongs to, as far as the gateway can be reached. The operator
/// token belongs to none and stays valid.
pub async fn sign_out(gateway: &Address, token: &SecretString) {
    if let Ok(mut accounts) = accounts(gateway, Some(token)).await {
        // it is forgotten here whatever the answer is
        let _ = with_timeout(accounts.sign_out(v1::SignOutRequest {})).await;
    }
}

async fn accounts(
    gateway: &Address,
    token: Option<&SecretString>,
) -> Result<AccountServiceClient<client::Connection>, String> {
    let channel = gateway.connect(token).await;
    let unreachable = |error| problem::unreachable(gateway.server(), &error);
    channel.map(AccountServiceClient::new).map_err(unreachable)
}

/// Keeps the model up to date.
#[derive(Debug)]
pub struct Connection {
    gateway: Address,
    token: SecretString,
    messages: mpsc::Sender<Message>,
    subscription: watch::Receiver<Subscription>,
    changes: mpsc::Receiver<Change>,
    refresh: Arc<Notify>,
    log: LogTail,
    /// How many changes were asked for and have no answer yet.
    pending_changes: usize,
    retry_delay: Duration,
}

/// Where the request log goes on after a reconnection.
#[derive(Debug, Default)]
struct LogTail {
    /// The conditions on requests in it.
    filter: String,
    /// After the last record that was handed over; empty before the first.
    cursor: String,
    /// Whether the next answer is its first, because it was not opened after a cursor.
    is_first_batch: bool,
    /// Whether the gateway refused it; it is not asked again before there is another filter.
    is_rejected: bool,
}

// === impl Connection ===

impl Connection {
    /// Returns a connection that has yet to [`run`](Self::run). `refresh` wakes it.
    pub fn new(
        gateway: Address,
        token: SecretString,
        messages: mpsc::Sender<Message>,
        subscription: watch::Receiver<Subscription>,
        changes: mpsc::Receiver<Change>,
        refresh: Arc<Notify>,
    ) -> Self {
        Self {
            gateway,
            token,
            messages,
            subscription,
            changes,
            refresh,
            log: LogTail::default(),
            pending_changes: 0,
            retry_delay: MIN_RETRY_DELAY,
        }
    }

    /// Runs until the token is refused or nobody listens any more.
    pub async fn run(mut self) {
        loop {
            let Err(error) = self.session().await;
            let message = match error {
                SessionError::SignedOut(reason) => Message::SignedOut(reason),
                SessionError::Lost(problem) => {
                    Message::ConnectionChanged(ConnectionState::Reconnecting { problem })
                }
                SessionError::Closed => return,
            };
            let over = matches!(message, Message::SignedOut(_));
            if self.fail_pending_changes().await.is_err()
                || self.send(message).await.is_err()
                || over
                || self.wait_before_retry().await.is_err()
            {
                return;
            }
        }
    }

    /// Answers the changes that were under way: nobody knows what came of them.
    async fn fail_pending_changes(&mut self) -> Result<(), SessionError> {
        while self.pending_changes > 0 {
            self.pending_changes -= 1;
            self.send(Message::Changed(Err(problem::unanswered()))).await?;
        }
        Ok(())
    }

    /// Waits until it is time for the next attempt; until then, no change can be made.
    async fn wait_before_retry(&mut self) -> Result<(), SessionError> {
        let waited = sleep(self.retry_delay);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => {
                    self.retry_delay = (self.retry_delay * 2).min(MAX_RETRY_DELAY);
                    return Ok(());
                }
                () = self.refresh.notified() => {
                    self.retry_delay = MIN_RETRY_DELAY;
                    return Ok(());
                }
                change = self.changes.recv() => {
                    change.ok_or(SessionError::Closed)?;
                    self.send(Message::Changed(Err(problem::not_connected()))).await?;
                }
            }
        }
    }

    /// Hands `message` over; waits while the screen is behind, which slows the gateway's streams.
    async fn send(&self, message: Message) -> Result<(), SessionError> {
        self.messages.send(message).await.map_err(|_| SessionError::Closed)
    }
}
