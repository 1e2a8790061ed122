//! The one owner of the network: connects, reconnects by itself, and goes on where it was.
//!
//! [`Connection::run`] turns what the gateway says into [`Message`]s. It decides nothing about the
//! screen: what is fetched and followed is the [`Interest`] that it is given. `session` is one
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
use self::call::{Ended, timed};
use crate::message::Message;
use crate::model::Link;
use crate::model::change::Change;
use crate::model::interest::Interest;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);

/// Checks a password and returns the session's token, or what went wrong and what to do.
pub async fn sign_in(
    gateway: &Address,
    name: String,
    password: &SecretString,
) -> Result<SecretString, String> {
    let mut accounts = accounts(gateway, None).await?;
    let request = v1::SignInRequest { name, password: password.expose_secret().to_owned() };
    let answer = timed(accounts.sign_in(request)).await;
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
    timed(accounts.register(request)).await.map_err(|status| problem::register(&status))?;
    sign_in(gateway, name, password).await
}

/// Ends the session that `token` belongs to, as far as the gateway can be reached. The operator
/// token belongs to none and stays valid.
pub async fn sign_out(gateway: &Address, token: &SecretString) {
    if let Ok(mut accounts) = accounts(gateway, Some(token)).await {
        // it is forgotten here whatever the answer is
        let _ = timed(accounts.sign_out(v1::SignOutRequest {})).await;
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
    interest: watch::Receiver<Interest>,
    changes: mpsc::Receiver<Change>,
    refresh: Arc<Notify>,
    log: LogPlace,
    /// How many changes were asked for and have no answer yet.
    unanswered: usize,
    retry: Duration,
}

/// Where the request log goes on after a reconnection.
#[derive(Debug, Default)]
struct LogPlace {
    /// The conditions on requests in it.
    filter: String,
    /// After the last record that was handed over; empty before the first.
    cursor: String,
    /// Whether the next answer is its first, because it was not opened after a cursor.
    fresh: bool,
    /// Whether the gateway refused it; it is not asked again before there is another filter.
    refused: bool,
}

// === impl Connection ===

impl Connection {
    /// Returns a connection that has yet to [`run`](Self::run). `refresh` wakes it.
    pub fn new(
        gateway: Address,
        token: SecretString,
        messages: mpsc::Sender<Message>,
        interest: watch::Receiver<Interest>,
        changes: mpsc::Receiver<Change>,
        refresh: Arc<Notify>,
    ) -> Self {
        Self {
            gateway,
            token,
            messages,
            interest,
            changes,
            refresh,
            log: LogPlace::default(),
            unanswered: 0,
            retry: FIRST_RETRY,
        }
    }

    /// Runs until the token is refused or nobody listens any more.
    pub async fn run(mut self) {
        loop {
            let Err(ended) = self.session().await;
            let message = match ended {
                Ended::SignedOut(reason) => Message::SignedOut(reason),
                Ended::Lost(problem) => Message::LinkChanged(Link::Reconnecting { problem }),
                Ended::Closed => return,
            };
            let over = matches!(message, Message::SignedOut(_));
            if self.give_up().await.is_err()
                || self.tell(message).await.is_err()
                || over
                || self.pause().await.is_err()
            {
                return;
            }
        }
    }

    /// Answers the changes that were under way: nobody knows what came of them.
    async fn give_up(&mut self) -> Result<(), Ended> {
        while self.unanswered > 0 {
            self.unanswered -= 1;
            self.tell(Message::Changed(Err(problem::unanswered()))).await?;
        }
        Ok(())
    }

    /// Waits until it is time for the next attempt; until then, no change can be made.
    async fn pause(&mut self) -> Result<(), Ended> {
        let waited = sleep(self.retry);
        tokio::pin!(waited);
        loop {
            tokio::select! {
                () = &mut waited => {
                    self.retry = (self.retry * 2).min(LAST_RETRY);
                    return Ok(());
                }
                () = self.refresh.notified() => {
                    self.retry = FIRST_RETRY;
                    return Ok(());
                }
                change = self.changes.recv() => {
                    change.ok_or(Ended::Closed)?;
                    self.tell(Message::Changed(Err(problem::not_connected()))).await?;
                }
            }
        }
    }

    /// Hands `message` over; waits while the screen is behind, which slows the gateway's streams.
    async fn tell(&self, message: Message) -> Result<(), Ended> {
        self.messages.send(message).await.map_err(|_| Ended::Closed)
    }
}
