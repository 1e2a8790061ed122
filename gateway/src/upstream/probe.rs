//! Background probes of upstreams whose breaker is open.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::UpstreamClients;
use super::breaker::PROBE_TIMEOUT;
use crate::clock::Clock;
use crate::secrets::ResolvedSecrets;
use domain::upstream::Upstream;

/// The upstreams that must be probed. A breaker queues its upstream once per pause, when a request finds that the
/// pause is over; without requests there are no probes.
pub struct DueProbes(UnboundedReceiver<Arc<Upstream>>);

impl DueProbes {
    pub(super) const fn new(queue: UnboundedReceiver<Arc<Upstream>>) -> Self {
        Self(queue)
    }

    /// Probes upstreams concurrently until the queue is closed, through `clients` and with what `secrets` returns.
    pub async fn run(
        mut self,
        clients: Arc<UpstreamClients>,
        secrets: impl Fn(&Upstream) -> ResolvedSecrets,
        clock: Arc<dyn Clock>,
    ) {
        let mut probes = JoinSet::new();
        while let Some(upstream) = self.0.recv().await {
            while probes.try_join_next().is_some() {}
            // Requests find out for themselves if the entry cannot work; the breaker asks again.
            let client = clients.upstream_client(&upstream, || secrets(&upstream));
            let Ok(client) = client else { continue };
            let clock = clock.clone();
            probes.spawn(async move {
                let credential = client.choose_credential(clock.monotonic());
                let result = client.probe(credential, PROBE_TIMEOUT).await;
                client.record_probe(credential, result, clock.monotonic());
            });
        }
    }
}
