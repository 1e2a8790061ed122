//! Clients that ask one request after the other, in all shapes.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Client, Seen, Shape};
use crate::soon;

/// One client of so many asks for what takes long, and the others do not wait for it.
const SLOW: usize = 4;
/// After a refusal for want of room a client waits so long.
const PAUSE: Duration = Duration::from_millis(10);

/// Clients under way, and the ends that they saw so far.
pub(super) struct Load {
    clients: JoinSet<()>,
    ends: mpsc::UnboundedReceiver<Seen>,
    seen: Vec<Seen>,
}

impl Load {
    /// Starts `count` clients like this one.
    pub(super) fn start(client: &Client, count: usize) -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for number in 0..count {
            clients.spawn(ask_on(client.clone(), number, sender.clone()));
        }
        Self { clients, ends, seen: Vec::new() }
    }

    /// The ends that were seen, in the order of their coming.
    pub(super) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Waits until these ends are `enough`, or the clients are gone.
    pub(super) async fn until(&mut self, enough: impl Fn(&[Seen]) -> bool) {
        while !enough(&self.seen)
            && let Some(end) = soon("the end of an answer", self.ends.recv()).await
        {
            self.seen.push(end);
        }
    }

    /// Waits until the clients have found that there is no gateway, and returns all that they saw.
    ///
    /// # Panics
    /// One of them panicked.
    pub(super) async fn give_up(mut self) -> Vec<Seen> {
        while let Some(client) = soon("the clients' end", self.clients.join_next()).await {
            client.unwrap();
        }
        self.until(|_| false).await;
        self.seen
    }

    /// Lets each client have the answer that it waits for, and returns what they saw before.
    pub(super) async fn stop(mut self) -> Vec<Seen> {
        self.ends.close();
        self.give_up().await
    }
}

/// Asks until the gateway is gone, or nobody wants to know of the ends.
async fn ask_on(client: Client, number: usize, ends: mpsc::UnboundedSender<Seen>) {
    let is_slow = number.is_multiple_of(SLOW);
    let shapes = if is_slow { &Shape::SLOW[..] } else { &Shape::QUICK[..] };
    for (request, shape) in shapes.iter().cycle().skip(number).enumerate() {
        let text = format!("client {number}, request {request}");
        let Some(seen) = client.ask(*shape, &text, None).await else { return };
        let is_refused = seen.status == 503;
        if ends.send(seen).is_err() {
            return;
        }
        if is_refused {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
