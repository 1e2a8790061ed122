//! The connection to the gateway: connects, reconnects with backoff, and resumes streams.
//!
//! [`Connection::run`] converts responses to [`Message`]s. It fetches and streams what the current
//! [`Subscription`] lists and knows nothing about screens. `session` handles one connection,
//! `fetch`, `usage`, `streams` and `change` contain the calls, `call` limits the duration of a call and
//! classifies its error, `convert` converts generated types to model types, and `problem` contains
//! all error texts.

mod address;
mod call;
mod change;
mod convert;
mod fetch;
mod operations;
mod pages;
mod problem;
mod schedule;
mod session;
mod streams;
mod trial;
mod usage;

use jiff::SignedDuration;
use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep;
use tonic::Code;

use std::sync::Arc;
use std::time::Duration;

pub use self::address::Address;
use self::call::{SessionError, with_timeout};
pub use self::operations::{explain, operate};
use self::pages::Pages;
pub use self::trial::{TrialKey, try_model};
use crate::clock;
use crate::message::Message;
use crate::model::ConnectionState;
use crate::model::change::Change;
use crate::model::sign_in::SignInRefusal;
use crate::model::subscription::Subscription;

/// The interval of attempts to reach the gateway before the sign-in.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
const MIN_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(3);

/// A session that the gateway has opened.
#[derive(Debug)]
pub struct NewSession {
    /// The name of the account.
    pub account: String,
    /// The session token.
    pub token: SecretString,
}

/// Tries to reach the gateway until it answers, and reports each result as
/// [`Message::GatewayChecked`]. Ends when the receiver of messages is dropped.
pub async fn check_until_reached(gateway: Address, messages: mpsc::Sender<Message>) {
    loop {
        let problem = check(&gateway).await.err();
        let is_reached = problem.is_none();
        if messages.send(Message::GatewayChecked(problem)).await.is_err() || is_reached {
            return;
        }
        sleep(CHECK_INTERVAL).await;
    }
}

/// Calls the gateway without a token.
async fn check(gateway: &Address) -> Result<(), String> {
    let mut accounts = accounts(gateway, None).await?;
    match with_timeout(accounts.describe_gateway(v1::DescribeGatewayRequest {})).await {
        Err(status) if matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded) => {
            Err(problem::call(&status))
        }
        // Any other status comes from a gateway.
        _ => Ok(()),
    }
}

/// Verifies a password and opens a session.
///
/// # Errors
/// Returns what went wrong and what to do.
pub async fn sign_in(
    gateway: &Address,
    name: String,
    password: &SecretString,
) -> Result<NewSession, SignInRefusal> {
    let mut accounts = accounts(gateway, None).await.map_err(SignInRefusal::general)?;
    let password = password.expose_secret().to_owned();
    let request = v1::SignInRequest { name: name.clone(), password };
    match with_timeout(accounts.sign_in(request)).await {
        Ok(answer) => Ok(NewSession {
            account: answer.account.map_or(name, |account| account.name),
            token: SecretString::from(answer.token),
        }),
        Err(status) => Err(problem::sign_in(&status)),
    }
}

/// Creates an account and signs in.
///
/// # Errors
/// Returns what went wrong and what to do.
pub async fn register(
    gateway: &Address,
    name: String,
    password: &SecretString,
    invite_code: String,
) -> Result<NewSession, SignInRefusal> {
    let mut accounts = accounts(gateway, None).await.map_err(SignInRefusal::general)?;
    let password_text = password.expose_secret().to_owned();
    let request = v1::RegisterRequest { name: name.clone(), password: password_text, invite_code };
    with_timeout(accounts.register(request)).await.map_err(|status| problem::register(&status))?;
    sign_in(gateway, name, password).await
}

/// Ends the session of `token`, if the gateway is reachable. The operator token belongs to no
/// session and stays valid.
pub async fn sign_out(gateway: &Address, token: &SecretString) {
    if let Ok(mut accounts) = accounts(gateway, Some(token)).await {
        // The client discards the token whatever the response is.
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

/// Keeps the model up to date over one gateway connection at a time.
#[derive(Debug)]
pub struct Connection {
    gateway: Address,
    token: SecretString,
    messages: mpsc::Sender<Message>,
    subscription: watch::Receiver<Subscription>,
    changes: mpsc::Receiver<Change>,
    refresh: Arc<Notify>,
    log: LogTail,
    /// The pages of the log before the stream.
    pages: Pages,
    /// The number of changes that were received and have no result yet.
    pending_changes: usize,
    retry_delay: Duration,
    /// Whether the gateway has accepted the token once.
    was_accepted: bool,
}

/// The state of the request log stream across reconnects.
#[derive(Debug, Default)]
struct LogTail {
    /// The filter expression of the stream.
    filter: String,
    /// The number of times that the log started over.
    run: u64,
    /// The cursor after the last delivered batch; empty before the first.
    cursor: String,
    /// Whether the next batch is the first of a stream opened without a cursor.
    is_first_batch: bool,
    /// Whether the gateway rejected the filter. The stream stays closed until the filter changes.
    is_rejected: bool,
}

// === impl Connection ===

impl Connection {
    /// Returns a connection that starts with [`run`](Self::run). Notifying `refresh` refetches all
    /// topics, or skips the wait before a reconnect.
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
            pages: Pages::default(),
            pending_changes: 0,
            retry_delay: MIN_RETRY_DELAY,
            was_accepted: false,
        }
    }

    /// Runs until the gateway rejects the token or the receiver of messages is dropped.
    pub async fn run(mut self) {
        loop {
            let Err(error) = self.session().await;
            let message = match error {
                SessionError::SignedOut => {
                    Message::SignedOut(problem::signed_out(self.was_accepted).to_owned())
                }
                SessionError::Lost(problem) => {
                    let delay = SignedDuration::try_from(self.retry_delay).unwrap_or_default();
                    let retry_at = clock::now().checked_add(delay).ok();
                    Message::ConnectionChanged(ConnectionState::Reconnecting { problem, retry_at })
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

    /// Reports all pending changes as failed, because their outcome is unknown.
    async fn fail_pending_changes(&mut self) -> Result<(), SessionError> {
        while self.pending_changes > 0 {
            self.pending_changes -= 1;
            self.send(Message::Changed(Err(problem::unanswered()))).await?;
        }
        Ok(())
    }

    /// Waits for the retry delay or a refresh. Rejects changes meanwhile.
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

    /// Sends `message`. Waits while the channel is full, which applies backpressure to the
    /// gateway's streams.
    async fn send(&self, message: Message) -> Result<(), SessionError> {
        self.messages.send(message).await.map_err(|_| SessionError::Closed)
    }
}
