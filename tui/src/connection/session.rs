//! A session: one connection from the first response to its end.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use proto::client;
use proto::v1;
use tokio::time::Instant;
use tonic::{Code, Status};

use std::convert::Infallible;
use std::time::Duration;

use super::call::SessionError;
use super::schedule::Schedule;
use super::streams::{self, ServerStream};
use super::{Connection, MIN_RETRY_DELAY, change, convert, fetch, problem, usage};
use crate::message::{Loaded, Message};
use crate::model::ConnectionState;
use crate::model::fetched::FetchState;
use crate::model::record::{LogBatch, OlderPage};
use crate::model::subscription::{Scope, Topic};

/// The delay between a new record and the refetch of the totals. Further records in this period
/// cause no further fetch.
const USAGE_REFRESH_DELAY: Duration = Duration::from_secs(1);
/// The further delay before the number of matching requests is fetched again, which a filter can
/// make expensive: without a sum by hour, it is counted from the records of 30 days.
const MATCHING_REFRESH_DELAY: Duration = Duration::from_secs(4);

impl Connection {
    /// Connects, fetches and streams the subscribed data, and performs changes, until an error ends
    /// the session.
    pub(super) async fn session(&mut self) -> Result<Infallible, SessionError> {
        let channel = self.gateway.connect(Some(&self.token)).await.map_err(|error| {
            SessionError::Lost(problem::unreachable(self.gateway.server(), &error))
        })?;
        // The role of the account decides what the screens subscribe to.
        let mut subscription = self.subscription.borrow_and_update().clone();
        let account = fetch::fetch(channel.clone(), Topic::Account, subscription.clone()).await.1?;
        self.was_accepted = true;
        self.send(Message::Loaded(Box::new(account))).await?;
        // Older gateways do not report the base URL of the API.
        if let Some(url) = fetch::api_url(channel.clone(), self.gateway.server()).await {
            self.send(Message::ApiUrlDiscovered(url)).await?;
        }
        self.send(Message::ConnectionChanged(ConnectionState::Connected)).await?;

        let mut schedule = Schedule::default();
        schedule.set_topics(&subscription.topics, Instant::now());
        let mut fetches = FuturesUnordered::new();
        let mut changes = FuturesUnordered::new();
        let mut log = self.open_log(&channel);
        let mut traffic = open_traffic(&channel, subscription.traffic);
        let mut older = FuturesUnordered::new();
        loop {
            for topic in schedule.take_due(Instant::now()) {
                fetches.push(fetch::fetch(channel.clone(), topic, subscription.clone()));
            }
            if older.is_empty()
                && let Some(token) = self.pages.next(&subscription)
            {
                older.push(usage::older(channel.clone(), subscription.filter.clone(), token));
            }
            tokio::select! {
                Some((topic, answer)) = fetches.next() => {
                    let message = match answer {
                        Ok(loaded) => {
                            schedule.complete(topic, Instant::now());
                            self.retry_delay = MIN_RETRY_DELAY;
                            Message::Loaded(Box::new(loaded))
                        }
                        Err(status) => {
                            schedule.fail(topic, Instant::now());
                            Message::NotLoaded(topic, classify_call_error(status)?)
                        }
                    };
                    self.send(message).await?;
                }
                answer = log.next() => match answer {
                    Ok(answer) => {
                        self.retry_delay = MIN_RETRY_DELAY;
                        if !answer.requests.is_empty() {
                            let due = Instant::now() + USAGE_REFRESH_DELAY;
                            schedule.expedite(&[Topic::Account, Topic::Usage], due);
                            schedule.expedite(&[Topic::Matching], due + MATCHING_REFRESH_DELAY);
                        }
                        self.send_log_batch(answer).await?;
                    }
                    Err(status) => log = self.handle_log_error(&channel, status).await?,
                },
                Some(answer) = older.next() => match answer {
                    Ok((page, next)) => {
                        if self.pages.complete(&page, next) {
                            self.send(Message::OlderReceived(page)).await?;
                        }
                    }
                    Err(status) => {
                        // The token may be forgotten, or the filter wrong: the log has what it has.
                        classify_call_error(status)?;
                        let filter = subscription.filter.clone();
                        let page = OlderPage { filter, records: Vec::new(), is_last: true };
                        if self.pages.complete(&page, None) {
                            self.send(Message::OlderReceived(page)).await?;
                        }
                    }
                },
                answer = traffic.next() => match answer {
                    Ok(answer) => {
                        let loaded = Loaded::Traffic(convert::traffic(answer));
                        self.send(Message::Loaded(Box::new(loaded))).await?;
                    }
                    Err(status) => {
                        traffic = ServerStream::pending();
                        let state = classify_stream_error(status)?;
                        self.send(Message::NotLoaded(Topic::Traffic, state)).await?;
                    }
                },
                change = self.changes.recv() => {
                    let change = change.ok_or(SessionError::Closed)?;
                    changes.push(change::apply(channel.clone(), change));
                    self.pending_changes += 1;
                }
                Some(outcome) = changes.next() => {
                    let outcome = outcome?;
                    self.pending_changes -= 1;
                    schedule.make_all_due(Instant::now());
                    self.send(Message::Changed(outcome)).await?;
                }
                () = schedule.wait_until_due() => {}
                () = self.refresh.notified() => schedule.make_all_due(Instant::now()),
                other = self.subscription.changed() => {
                    other.map_err(|_| SessionError::Closed)?;
                    let before = subscription;
                    subscription = self.subscription.borrow_and_update().clone();
                    schedule.set_topics(&subscription.topics, Instant::now());
                    if (before.range, &before.filter) != (subscription.range, &subscription.filter) {
                        schedule.expedite_usage(Instant::now());
                    }
                    if !before.models_by_time && subscription.models_by_time {
                        schedule.expedite(&[Topic::Usage], Instant::now());
                    }
                    if before.subject != subscription.subject {
                        let topics = [Topic::Audit, Topic::Ledger, Topic::People];
                        schedule.expedite(&topics, Instant::now());
                    }
                    if before.limits_of != subscription.limits_of {
                        let topics = [Topic::Limits, Topic::Suspension];
                        schedule.expedite(&topics, Instant::now());
                    }
                    if before.keys != subscription.keys {
                        schedule.expedite(&[Topic::Keys], Instant::now());
                    }
                    if subscription.traffic != before.traffic {
                        traffic = open_traffic(&channel, subscription.traffic);
                    }
                    let is_other_log = subscription.log_run != self.log.run;
                    if is_other_log || subscription.filter != self.log.filter {
                        log = self.open_log(&channel);
                    }
                }
            }
        }
    }

    /// Opens the request log stream for the subscribed filter; resumes after the cursor if the
    /// filter is unchanged.
    fn open_log(&mut self, channel: &client::Connection) -> ServerStream<v1::TailRequestsResponse> {
        let subscription = self.subscription.borrow();
        if subscription.filter != self.log.filter || subscription.log_run != self.log.run {
            self.log.filter.clone_from(&subscription.filter);
            self.log.run = subscription.log_run;
            self.log.cursor.clear();
            self.log.is_rejected = false;
        }
        if self.log.is_rejected {
            return ServerStream::pending();
        }
        self.log.is_first_batch = self.log.cursor.is_empty();
        streams::log(channel.clone(), &self.log.filter, &self.log.cursor)
    }

    async fn send_log_batch(
        &mut self,
        answer: v1::TailRequestsResponse,
    ) -> Result<(), SessionError> {
        let restarted = std::mem::take(&mut self.log.is_first_batch);
        let records = answer.requests.into_iter().map(convert::record).collect();
        let (dropped, live) = (answer.dropped, answer.live);
        self.send(Message::LogReceived(LogBatch { restarted, records, dropped, live })).await?;
        self.log.cursor = answer.cursor;
        Ok(())
    }

    /// Handles the end of the log stream. If the gateway rejects the cursor, reopens the stream
    /// without it. If it rejects the filter, leaves the stream closed until the filter changes.
    async fn handle_log_error(
        &mut self,
        channel: &client::Connection,
        status: Status,
    ) -> Result<ServerStream<v1::TailRequestsResponse>, SessionError> {
        let forgotten = matches!(status.code(), Code::InvalidArgument | Code::OutOfRange);
        if forgotten && !self.log.cursor.is_empty() {
            self.log.cursor.clear();
            return Ok(self.open_log(channel));
        }
        let state = classify_stream_error(status)?;
        self.log.is_rejected = true;
        self.send(Message::NotLoaded(Topic::Log, state)).await?;
        Ok(ServerStream::pending())
    }
}

fn open_traffic(
    channel: &client::Connection,
    scope: Option<Scope>,
) -> ServerStream<v1::WatchTrafficResponse> {
    scope.map_or_else(ServerStream::pending, |scope| streams::traffic(channel.clone(), scope))
}

/// Returns the load state for an error of a single call, or an error that ends the session.
fn classify_call_error(status: Status) -> Result<FetchState, SessionError> {
    match status.code() {
        Code::Unauthenticated
        | Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Unknown
        | Code::Cancelled => Err(status.into()),
        Code::Unimplemented => Ok(FetchState::Unsupported),
        _ => Ok(FetchState::Failed(problem::call(&status))),
    }
}

/// Returns the load state for a rejected stream, or an error that ends the session.
fn classify_stream_error(status: Status) -> Result<FetchState, SessionError> {
    match status.code() {
        Code::InvalidArgument | Code::PermissionDenied | Code::NotFound => {
            Ok(FetchState::Failed(problem::change(&status)))
        }
        Code::Unimplemented => Ok(FetchState::Unsupported),
        _ => Err(status.into()),
    }
}
