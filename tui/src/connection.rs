//! The one owner of the network: connects, reconnects by itself, and goes on where it was.
//!
//! [`Connection::run`] turns what the gateway says into [`Message`]s. It decides nothing about the
//! screen. `call` is how a single call ends, `convert` turns answers into our types, `problem` is the
//! only file that words errors.

mod call;
mod convert;
mod problem;

use proto::client;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::plan_service_client::PlanServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Code;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use self::call::{Ended, timed};
use crate::message::Message;
use crate::model::Link;
use crate::model::overview::LOG_LENGTH;
use crate::model::record::{Snapshot, Tailed};

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(10);
/// Sums are fetched so long after a new record; more records until then cost no more calls.
const SETTLE: Duration = Duration::from_secs(1);
/// Without news they are fetched so often: a balance can change without a request.
const IDLE: Duration = Duration::from_secs(30);

/// Checks a password and returns the session's token, or what went wrong and what to do.
pub async fn sign_in(
    server: &str,
    name: String,
    password: &SecretString,
) -> Result<SecretString, String> {
    let channel = client::connect(server, None)
        .await
        .map_err(|error| problem::unreachable(server, &error))?;
    let request = v1::SignInRequest { name, password: password.expose_secret().to_owned() };
    let answer = timed(AccountServiceClient::new(channel).sign_in(request)).await;
    answer
        .map(|answer| SecretString::from(answer.token))
        .map_err(|status| problem::sign_in(&status))
}

/// Keeps the model up to date.
#[derive(Debug)]
pub struct Connection {
    server: String,
    token: SecretString,
    messages: mpsc::Sender<Message>,
    refresh: Arc<Notify>,
    /// After the last record that was handed over; empty before the first.
    cursor: String,
    retry: Duration,
}

// === impl Connection ===

impl Connection {
    /// Returns a connection that has yet to [`run`](Self::run). `refresh` wakes it.
    pub fn new(
        server: String,
        token: SecretString,
        messages: mpsc::Sender<Message>,
        refresh: Arc<Notify>,
    ) -> Self {
        Self { server, token, messages, refresh, cursor: String::new(), retry: FIRST_RETRY }
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
            if self.tell(message).await.is_err() || over {
                return;
            }
            tokio::select! {
                () = sleep(self.retry) => self.retry = (self.retry * 2).min(LAST_RETRY),
                () = self.refresh.notified() => self.retry = FIRST_RETRY,
            }
        }
    }

    async fn session(&mut self) -> Result<Infallible, Ended> {
        let channel = client::connect(&self.server, Some(&self.token))
            .await
            .map_err(|error| Ended::Lost(problem::unreachable(&self.server, &error)))?;
        self.load(&channel).await?;
        let (mut tail, mut restarted) = self.tail(&channel).await?;
        self.tell(Message::LinkChanged(Link::Live)).await?;

        let mut due = Instant::now() + IDLE;
        loop {
            tokio::select! {
                answer = tail.message() => {
                    let Some(answer) = answer? else {
                        return Err(Ended::Lost(problem::closed(&self.server)));
                    };
                    self.retry = FIRST_RETRY;
                    if !answer.requests.is_empty() {
                        due = due.min(Instant::now() + SETTLE);
                    }
                    let records = answer.requests.into_iter().map(convert::record).collect();
                    let (dropped, live) = (answer.dropped, answer.live);
                    let tailed = Tailed { restarted, records, dropped, live };
                    self.tell(Message::Tailed(tailed)).await?;
                    self.cursor = answer.cursor;
                    restarted = false;
                }
                () = sleep_until(due) => {
                    self.load(&channel).await?;
                    due = Instant::now() + IDLE;
                }
                () = self.refresh.notified() => {
                    self.load(&channel).await?;
                    due = Instant::now() + IDLE;
                }
            }
        }
    }

    /// Opens the tail after the cursor, or anew if the gateway does not know the cursor (any more).
    async fn tail(
        &mut self,
        channel: &client::Connection,
    ) -> Result<(tonic::Streaming<v1::TailRequestsResponse>, bool), Ended> {
        loop {
            let request = v1::TailRequestsRequest {
                filter: None,
                cursor: self.cursor.clone(),
                history: u32::try_from(LOG_LENGTH).unwrap_or(u32::MAX),
            };
            match timed(UsageServiceClient::new(channel.clone()).tail_requests(request)).await {
                Ok(tail) => return Ok((tail, self.cursor.is_empty())),
                Err(status)
                    if !self.cursor.is_empty()
                        && matches!(status.code(), Code::InvalidArgument | Code::OutOfRange) =>
                {
                    self.cursor.clear();
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    async fn load(&self, channel: &client::Connection) -> Result<(), Ended> {
        let mut accounts = AccountServiceClient::new(channel.clone());
        let mut usage = UsageServiceClient::new(channel.clone());
        let (account, usage) = tokio::try_join!(
            timed(accounts.who_am_i(v1::WhoAmIRequest {})),
            timed(usage.summarize_usage(v1::SummarizeUsageRequest::default())),
        )?;
        let account = convert::account(account.account.unwrap_or_default());
        let limits = match account.plan.clone() {
            Some(name) => {
                let mut plans = PlanServiceClient::new(channel.clone());
                match timed(plans.get_plan(v1::GetPlanRequest { name })).await {
                    Ok(answer) => answer.plan.as_ref().map(convert::limits),
                    Err(status) if status.code() == Code::NotFound => None,
                    Err(status) => return Err(status.into()),
                }
            }
            None => None,
        };
        let snapshot = Snapshot { account, limits, usage: convert::usage(usage) };
        self.tell(Message::Loaded(Box::new(snapshot))).await
    }

    /// Hands `message` over; waits while the screen is behind, which slows the gateway's stream.
    async fn tell(&self, message: Message) -> Result<(), Ended> {
        self.messages.send(message).await.map_err(|_| Ended::Closed)
    }
}
