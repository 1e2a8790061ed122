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
use crate::message::Message;
use crate::model::subscription::{Subscription, Topic};
use crate::model::{ConnectionState, Model, Notice};
use crate::options::Format;
use crate::update::update;
use crate::view;

/// The time within which all data has to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The data that has arrived for the current subscription.
#[derive(Debug, Default)]
pub struct Progress {
    subscription: Subscription,
    arrived: Vec<Topic>,
}

/// Signs in with the token among the `first` messages and waits until the data of the open screen
/// has arrived.
///
/// # Errors
/// Returns an error without a token, if the gateway cannot be reached or refuses the token, and if
/// data is missing for too long.
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
        if matches!(message, Message::NoToken) {
            bail!("not signed in: run `ctl login NAME`, or name a --token-file");
        }
        apply(model, message, &mut progress, &mut runner);
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
    match &model.notice {
        Some(Notice::Problem(problem)) => bail!("{problem}"),
        _ => Ok(()),
    }
}

fn apply(model: &mut Model, message: Message, progress: &mut Progress, runner: &mut Runner) {
    progress.note(&message);
    for effect in update(model, message) {
        if let Effect::Subscribe(subscription) = &effect {
            progress.subscription = subscription.clone();
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
    /// Notes what a message delivers, or why it does not.
    fn note(&mut self, message: &Message) {
        let topic = match message {
            Message::Loaded(loaded) => loaded.topic(),
            Message::NotLoaded(topic, _) => *topic,
            Message::LogReceived(batch) if batch.live => Topic::Log,
            _ => return,
        };
        self.arrived.push(topic);
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
