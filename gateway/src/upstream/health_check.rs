//! Health checks: requests in the background, once per interval for all workers, that find out whether an upstream can
//! serve. They continue while the journal cannot be written and no request is admitted: a check has no body to flush the
//! journal for and costs nothing, and its result must be current when requests are admitted again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::UpstreamClients;
use crate::clock::Clock;
use crate::secrets::ResolvedSecrets;
use domain::upstream::{HealthCheck, Upstream};

/// The longest time that a check may take.
const MAX_CHECK_TIME: Duration = Duration::from_secs(10);
/// The time until a failed check is repeated, if the interval is longer. Two checks in a row must fail before an upstream
/// gets fewer requests.
const RECHECK_AFTER: Duration = Duration::from_millis(500);

/// Checks the upstreams that have a health check.
pub struct HealthChecks<S> {
    /// The clients that send the checks.
    pub clients: Arc<UpstreamClients>,
    /// Returns the secrets of an upstream.
    pub secrets: S,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl<S> HealthChecks<S>
where
    S: Fn(&Upstream) -> ResolvedSecrets + Clone + Send + 'static,
{
    /// Checks what `upstreams` returns, and asks it again whenever `changes` notifies of a change, until its sender is
    /// dropped. An upstream whose entry changes is checked at once.
    pub async fn run(
        self,
        upstreams: impl Fn() -> Vec<Arc<Upstream>>,
        mut changes: watch::Receiver<()>,
    ) {
        // Dropping it ends all checks.
        let mut tasks = JoinSet::new();
        let mut running = BTreeMap::<_, (Arc<Upstream>, AbortHandle)>::new();
        loop {
            let mut current: BTreeMap<_, _> =
                upstreams().into_iter().map(|upstream| (upstream.name.clone(), upstream)).collect();
            running.retain(|name, (checked, task)| {
                let is_current = current.get(name).is_some_and(|it| Arc::ptr_eq(it, checked));
                if is_current {
                    current.remove(name);
                } else {
                    task.abort();
                }
                is_current
            });
            for (name, upstream) in current {
                let Some(check) = upstream.health_check.clone() else { continue };
                let task = tasks.spawn(self.check_repeatedly(upstream.clone(), check));
                running.insert(name, (upstream, task));
            }
            while tasks.try_join_next().is_some() {}
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn check_repeatedly(
        &self,
        upstream: Arc<Upstream>,
        check: HealthCheck,
    ) -> impl Future<Output = ()> + Send + use<S> {
        let (clients, secrets, clock) =
            (self.clients.clone(), self.secrets.clone(), self.clock.clone());
        async move {
            let check_timeout = check.interval.min(MAX_CHECK_TIME);
            loop {
                let client = clients.upstream_client(&upstream, || secrets(&upstream));
                let is_first_failure = match client {
                    Ok(client) => {
                        let credential = client.choose_credential(clock.monotonic());
                        let result = client.check(&check.path, credential, check_timeout).await;
                        client.record_check(credential, result, clock.now(), clock.monotonic())
                    }
                    // Requests find out for themselves that the entry cannot work.
                    Err(_) => false,
                };
                let pause = if is_first_failure { RECHECK_AFTER } else { check.interval };
                sleep(pause.min(check.interval)).await;
            }
        }
    }
}
