//! Load: clients that send one request after another, in all shapes.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::{Client, ObservedResponse, Shape};
use crate::with_timeout;

/// One client in this number sends slow requests, which do not delay the others.
const SLOW: usize = 4;
/// The pause of a client after a refusal.
const PAUSE: Duration = Duration::from_millis(10);

/// Running clients and the complete responses so far.
pub(super) struct Load {
    clients: JoinSet<()>,
    ends: mpsc::UnboundedReceiver<ObservedResponse>,
    seen: Vec<ObservedResponse>,
}

impl Load {
    /// Starts `count` clients like this one, which send the next request once one is answered.
    pub(super) fn start(client: &Client, count: usize) -> Self {
        Self::start_paced(client, count, Duration::ZERO)
    }

    /// Starts `count` clients like this one, which pause for `pause` after each answer.
    pub(super) fn start_paced(client: &Client, count: usize, pause: Duration) -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for number in 0..count {
            clients.spawn(ask_on(client.clone(), number, pause, sender.clone()));
        }
        Self { clients, ends, seen: Vec::new() }
    }

    /// Returns the complete responses in the order of their arrival.
    pub(super) fn seen(&self) -> &[ObservedResponse] {
        &self.seen
    }

    /// Waits until the responses satisfy `enough`, or all clients have ended.
    pub(super) async fn wait_until(&mut self, enough: impl Fn(&[ObservedResponse]) -> bool) {
        while !enough(&self.seen)
            && let Some(end) = with_timeout("the end of an answer", self.ends.recv()).await
        {
            self.seen.push(end);
        }
    }

    /// Returns how many clients have ended because an answer was incomplete.
    ///
    /// # Panics
    /// If a client panicked.
    pub(super) fn ended_clients(&mut self) -> usize {
        let ended = std::iter::from_fn(|| self.clients.try_join_next());
        ended.map(|client| client.unwrap()).count()
    }

    /// Waits until the clients notice that the gateway is gone. Returns all complete responses.
    ///
    /// # Panics
    /// If a client panicked.
    pub(super) async fn join(mut self) -> Vec<ObservedResponse> {
        while let Some(client) = with_timeout("the end of a client", self.clients.join_next()).await
        {
            client.unwrap();
        }
        self.wait_until(|_| false).await;
        self.seen
    }

    /// Lets each client finish its current request. Returns all complete responses before that.
    pub(super) async fn stop(mut self) -> Vec<ObservedResponse> {
        self.ends.close();
        self.join().await
    }
}

/// Sends requests until the gateway or the receiver of `ends` is gone.
async fn ask_on(
    client: Client,
    number: usize,
    pause: Duration,
    ends: mpsc::UnboundedSender<ObservedResponse>,
) {
    let is_slow = number.is_multiple_of(SLOW);
    let shapes = if is_slow { &Shape::SLOW[..] } else { &Shape::QUICK[..] };
    for (request, shape) in shapes.iter().cycle().skip(number).enumerate() {
        let text = format!("client {number}, request {request}");
        let Some(seen) = client.send_request(*shape, &text, None).await else { return };
        let is_refused = seen.status == 503;
        if ends.send(seen).is_err() {
            return;
        }
        let pause = if is_refused { pause.max(PAUSE) } else { pause };
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}
