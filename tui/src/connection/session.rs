//! One connection, from its first answer to its end.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use proto::client;
use proto::v1;
use tokio::time::Instant;
use tonic::{Code, Status};

use std::convert::Infallible;
use std::time::Duration;

use super::call::Ended;
use super::schedule::Schedule;
use super::streams::{self, Feed};
use super::{Connection, FIRST_RETRY, change, convert, fetch, problem};
use crate::message::{Loaded, Message};
use crate::model::Link;
use crate::model::interest::{Reach, Topic};
use crate::model::record::Tailed;
use crate::model::remote::Fetch;

/// Sums are fetched so long after a new record; more records until then cost no more calls.
const SETTLE: Duration = Duration::from_secs(1);

impl Connection {
    /// Connects, fetches and follows what is of interest, and makes changes, until something ends it.
    pub(super) async fn session(&mut self) -> Result<Infallible, Ended> {
        let channel =
            self.gateway.connect(Some(&self.token)).await.map_err(|error| {
                Ended::Lost(problem::unreachable(self.gateway.server(), &error))
            })?;
        // who it is decides what else there is to know
        let range = self.interest.borrow_and_update().range;
        let account = fetch::fetch(channel.clone(), Topic::Account, range).await.1?;
        self.tell(Message::Loaded(Box::new(account))).await?;
        // A gateway of an earlier version does not say where its API is.
        if let Some(url) = fetch::api_url(channel.clone(), self.gateway.server()).await {
            self.tell(Message::ApiFound(url)).await?;
        }
        self.tell(Message::LinkChanged(Link::Live)).await?;

        let mut schedule = Schedule::default();
        schedule.choose(self.interest.borrow().topics, Instant::now());
        let mut fetches = FuturesUnordered::new();
        let mut changes = FuturesUnordered::new();
        let mut log = self.open_log(&channel);
        let mut reach = self.interest.borrow().traffic;
        let mut traffic = open_traffic(&channel, reach);
        loop {
            let range = self.interest.borrow().range;
            for topic in schedule.take(Instant::now()) {
                fetches.push(fetch::fetch(channel.clone(), topic, range));
            }
            tokio::select! {
                Some((topic, answer)) = fetches.next() => {
                    schedule.done(topic, Instant::now());
                    let message = match answer {
                        Ok(loaded) => {
                            self.retry = FIRST_RETRY;
                            Message::Loaded(Box::new(loaded))
                        }
                        Err(status) => Message::NotLoaded(topic, failure(status)?),
                    };
                    self.tell(message).await?;
                }
                answer = log.next() => match answer {
                    Ok(answer) => {
                        self.retry = FIRST_RETRY;
                        if !answer.requests.is_empty() {
                            schedule.hasten(&[Topic::Account, Topic::Usage], Instant::now() + SETTLE);
                        }
                        self.tell_log(answer).await?;
                    }
                    Err(status) => log = self.log_ended(&channel, status).await?,
                },
                answer = traffic.next() => match answer {
                    Ok(answer) => {
                        let loaded = Loaded::Traffic(convert::traffic(answer));
                        self.tell(Message::Loaded(Box::new(loaded))).await?;
                    }
                    Err(status) => {
                        traffic = Feed::none();
                        self.tell(Message::NotLoaded(Topic::Traffic, refusal(status)?)).await?;
                    }
                },
                change = self.changes.recv() => {
                    changes.push(change::make(channel.clone(), change.ok_or(Ended::Closed)?));
                    self.unanswered += 1;
                }
                Some(outcome) = changes.next() => {
                    let outcome = outcome?;
                    self.unanswered -= 1;
                    schedule.all(Instant::now());
                    self.tell(Message::Changed(outcome)).await?;
                }
                () = schedule.ready() => {}
                () = self.refresh.notified() => schedule.all(Instant::now()),
                other = self.interest.changed() => {
                    other.map_err(|_| Ended::Closed)?;
                    let interest = self.interest.borrow_and_update().clone();
                    schedule.choose(interest.topics, Instant::now());
                    if interest.traffic != reach {
                        reach = interest.traffic;
                        traffic = open_traffic(&channel, reach);
                    }
                    if interest.filter != self.log.filter {
                        log = self.open_log(&channel);
                    }
                }
            }
        }
    }

    /// Opens the log that is of interest: after the cursor, if it is the one that was open.
    fn open_log(&mut self, channel: &client::Connection) -> Feed<v1::TailRequestsResponse> {
        let filter = &self.interest.borrow().filter;
        if *filter != self.log.filter {
            self.log.filter.clone_from(filter);
            self.log.cursor.clear();
            self.log.refused = false;
        }
        if self.log.refused {
            return Feed::none();
        }
        self.log.fresh = self.log.cursor.is_empty();
        streams::log(channel.clone(), &self.log.filter, &self.log.cursor)
    }

    async fn tell_log(&mut self, answer: v1::TailRequestsResponse) -> Result<(), Ended> {
        let restarted = std::mem::take(&mut self.log.fresh);
        let records = answer.requests.into_iter().map(convert::record).collect();
        let (dropped, live) = (answer.dropped, answer.live);
        self.tell(Message::Tailed(Tailed { restarted, records, dropped, live })).await?;
        self.log.cursor = answer.cursor;
        Ok(())
    }

    /// Opens the log anew if the gateway does not know the cursor (any more); leaves it closed if it
    /// does not understand the filter, until there is another.
    async fn log_ended(
        &mut self,
        channel: &client::Connection,
        status: Status,
    ) -> Result<Feed<v1::TailRequestsResponse>, Ended> {
        let forgotten = matches!(status.code(), Code::InvalidArgument | Code::OutOfRange);
        if forgotten && !self.log.cursor.is_empty() {
            self.log.cursor.clear();
            return Ok(self.open_log(channel));
        }
        let refusal = refusal(status)?;
        self.log.refused = true;
        self.tell(Message::NotLoaded(Topic::Log, refusal)).await?;
        Ok(Feed::none())
    }
}

fn open_traffic(
    channel: &client::Connection,
    reach: Option<Reach>,
) -> Feed<v1::WatchTrafficResponse> {
    reach.map_or_else(Feed::none, |reach| streams::traffic(channel.clone(), reach))
}

/// Tells what is wrong with one answer from what is wrong with the connection.
fn failure(status: Status) -> Result<Fetch, Ended> {
    match status.code() {
        Code::Unauthenticated
        | Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Unknown
        | Code::Cancelled => Err(status.into()),
        Code::Unimplemented => Ok(Fetch::Missing),
        _ => Ok(Fetch::Failed(problem::call(&status))),
    }
}

/// Tells a stream that will not be given from one that broke.
fn refusal(status: Status) -> Result<Fetch, Ended> {
    match status.code() {
        Code::InvalidArgument | Code::PermissionDenied | Code::NotFound => {
            Ok(Fetch::Failed(problem::change(&status)))
        }
        Code::Unimplemented => Ok(Fetch::Missing),
        _ => Err(status.into()),
    }
}
