//! One screen as text or as a picture, without a terminal.
//!
//! [`load`] signs in with the token and waits for the data of the open screen, [`draw`] draws it.

pub mod svg;

use anyhow::{Result, bail};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Span;
use tokio::sync::mpsc;
use tokio::time::timeout;

use std::time::Duration;

use crate::effect::{Effect, Runner};
use crate::message::{Loaded, Message};
use crate::model::fetched::FetchState;
use crate::model::subscription::{Subscription, Topic};
use crate::model::{ConnectionState, Model, Notice};
use crate::options::Format;
use crate::update::update;
use crate::view;

/// The time within which all data has to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The data that has arrived for the current subscription.
#[derive(Debug, Default)]
struct Progress {
    subscription: Subscription,
    arrived: Vec<Topic>,
    /// The topics that the gateway refused, and why. They count as arrived until all others have,
    /// because names that arrive may still change the filter.
    refused: Vec<(Topic, String)>,
}

/// Signs in with the token among the `first` messages and waits until the data of the open screen
/// has arrived.
///
/// # Errors
/// Returns an error without a token, if the gateway cannot be reached or refuses the token, the filter
/// or other data of the screen, and if data is missing for too long.
pub async fn load(
    model: &mut Model,
    first: Vec<Message>,
    mut runner: Runner,
    mut messages: mpsc::Receiver<Message>,
) -> Result<()> {
    let mut progress = Progress::default();
    for message in first {
        if let Message::SignInFailed(refusal) = message {
            bail!("{}", refusal.text);
        }
        let is_signed_out = matches!(message, Message::NoToken);
        apply(model, message, &mut progress, &mut runner);
        if is_signed_out {
            // Without a gateway, there is nothing to sign in to.
            if let Ok(Some(Message::GatewayChecked(Some(problem)))) =
                timeout(TIMEOUT, messages.recv()).await
            {
                bail!("{problem}");
            }
            bail!("not signed in: run `ctl login NAME`, or name a --token-file");
        }
    }
    let finished = timeout(TIMEOUT, async {
        while !progress.is_complete() {
            let Some(message) = messages.recv().await else { break };
            match &message {
                Message::SignedOut(reason) => bail!("{reason}"),
                Message::ConnectionChanged(ConnectionState::Reconnecting { problem, .. }) => {
                    bail!("{problem}")
                }
                _ => apply(model, message, &mut progress, &mut runner),
            }
        }
        Ok(())
    });
    match finished.await {
        Ok(result) => result?,
        Err(_) => bail!("the gateway did not send {:?} in time", progress.missing()),
    }
    if let Some((_, problem)) = progress.refused.first() {
        bail!("{problem}");
    }
    match &model.notice {
        Some(Notice::Problem(problem)) => bail!("{problem}"),
        _ => Ok(()),
    }
}

fn apply(model: &mut Model, message: Message, progress: &mut Progress, runner: &mut Runner) {
    progress.note(&message);
    for effect in update(model, message) {
        if let Effect::Subscribe(subscription) = &effect {
            progress.subscribe(subscription.clone());
        }
        // Effects on a terminal have no meaning here.
        let _ = runner.run(effect);
    }
}

/// Draws the open screen in the size of the model.
pub fn draw(model: &Model, format: Format) -> String {
    let area = Rect::new(0, 0, model.size.0, model.size.1);
    let mut buffer = Buffer::empty(area);
    view::render(model, &mut buffer, area);
    match format {
        Format::Text => text(&buffer),
        Format::Svg => svg::svg(&buffer, model.theme),
    }
}

/// Returns the rows without spaces at their ends.
fn text(buffer: &Buffer) -> String {
    let rows = buffer.area.rows().map(|row| {
        let mut line = String::new();
        let mut covered = 0;
        for column in row.columns() {
            let symbol = buffer[(column.x, column.y)].symbol();
            // A wide character covers the cells after it.
            if covered == 0 {
                line.push_str(symbol);
                covered = Span::raw(symbol).width();
            }
            covered = covered.saturating_sub(1);
        }
        line.trim_end().to_owned() + "\n"
    });
    rows.collect()
}

// === impl Progress ===

impl Progress {
    /// Replaces the subscription. What arrived for another filter, range or account is missing again.
    fn subscribe(&mut self, subscription: Subscription) {
        let before = std::mem::replace(&mut self.subscription, subscription);
        let now = &self.subscription;
        let is_other_filter = (&before.filter, before.log_run) != (&now.filter, now.log_run);
        let is_other_range = before.range != now.range;
        let mut outdated = Vec::new();
        if is_other_filter || is_other_range {
            outdated.extend([Topic::Usage, Topic::UsageBefore, Topic::Matching]);
        }
        if is_other_filter {
            outdated.push(Topic::Log);
        }
        if before.keys != now.keys {
            outdated.push(Topic::Keys);
        }
        if before.traffic != now.traffic {
            outdated.push(Topic::Traffic);
        }
        self.arrived.retain(|topic| !outdated.contains(topic));
        self.refused.retain(|(topic, _)| !outdated.contains(topic));
    }

    /// Notes what a message delivers, or why it does not.
    fn note(&mut self, message: &Message) {
        let topic = match message {
            Message::Loaded(loaded) if self.is_outdated(loaded) => return,
            Message::Loaded(loaded) => loaded.topic(),
            Message::NotLoaded(topic, FetchState::Failed(problem)) => {
                self.refused.push((*topic, problem.clone()));
                *topic
            }
            Message::NotLoaded(topic, _) => *topic,
            Message::LogReceived(batch) if batch.live => Topic::Log,
            _ => return,
        };
        if !matches!(message, Message::NotLoaded(..)) {
            self.refused.retain(|(refused, _)| *refused != topic);
        }
        self.arrived.push(topic);
    }

    /// Returns whether the totals are those of an earlier filter or range.
    fn is_outdated(&self, loaded: &Loaded) -> bool {
        let now = &self.subscription;
        match loaded {
            Loaded::Usage { range, filter, .. } | Loaded::UsageBefore { range, filter, .. } => {
                (*range, filter) != (now.range, &now.filter)
            }
            Loaded::Matching { filter, .. } => *filter != now.filter,
            _ => false,
        }
    }

    /// Returns the topics that have not arrived.
    fn missing(&self) -> Vec<Topic> {
        let streams = self.subscription.traffic.map(|_| Topic::Traffic);
        let topics = self.subscription.topics.iter().copied();
        let topics = topics.chain(streams).chain([Topic::Account, Topic::Log]);
        topics.filter(|topic| !self.arrived.contains(topic)).collect()
    }

    fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::record::LogBatch;
    use crate::model::usage::{Range, Usage};

    fn loaded(loaded: Loaded) -> Message {
        Message::Loaded(Box::new(loaded))
    }

    fn usage(filter: &str) -> Message {
        let (filter, usage) = (filter.to_owned(), Usage::default());
        loaded(Loaded::Usage { range: Range::Month, filter, usage })
    }

    fn log() -> Message {
        let records = Vec::new();
        Message::LogReceived(LogBatch { restarted: true, records, dropped: 0, live: true })
    }

    #[test]
    fn what_arrived_for_another_filter_is_missing() {
        let topics = vec![Topic::Usage, Topic::Keys];
        let mut progress = Progress::default();
        let typed = Subscription { topics, filter: "key:lap".to_owned(), ..Default::default() };
        progress.subscribe(typed.clone());
        let failed = |topic| Message::NotLoaded(topic, FetchState::Failed("no key".to_owned()));
        for message in [usage("key:lap"), failed(Topic::Log), loaded(Loaded::Keys(Vec::new()))] {
            progress.note(&message);
        }
        assert_eq!((progress.missing(), progress.refused.len()), (vec![Topic::Account], 1));
        let translated = Subscription { filter: "key:k1".to_owned(), log_run: 1, ..typed };
        progress.subscribe(translated);
        let missing = vec![Topic::Usage, Topic::Account, Topic::Log];
        progress.note(&usage("key:lap"));
        assert_eq!((progress.missing(), progress.refused.len()), (missing, 0));
        progress.note(&usage("key:k1"));
        progress.note(&log());
        assert_eq!(progress.missing(), [Topic::Account]);
    }
}
