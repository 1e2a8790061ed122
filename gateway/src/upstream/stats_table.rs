//! The statistics of all upstreams.

use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use papaya::{Compute, Operation};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::breaker::Permission;
use super::probe::DueProbes;
use super::stats::UpstreamStats;
use domain::id::UpstreamName;
use domain::upstream::Upstream;

/// The statistics of all upstreams, which all workers share. They begin anew when a catalogue entry changes.
pub struct StatsTable {
    entries: papaya::HashMap<UpstreamName, StatsEntry, RandomState>,
    due_probes: UnboundedSender<Arc<Upstream>>,
}

struct StatsEntry {
    upstream: Arc<Upstream>,
    stats: Arc<UpstreamStats>,
}

// === impl StatsTable ===

impl StatsTable {
    /// Creates an empty table, and the queue of the probes that become due.
    pub fn new() -> (Self, DueProbes) {
        let (due_probes, queue) = mpsc::unbounded_channel();
        (Self { entries: papaya::HashMap::default(), due_probes }, DueProbes::new(queue))
    }

    /// Returns whether a request at `now` should go to this upstream before others. Queues the background probe of
    /// an open breaker if it is due. Must be called at most once per request.
    pub(super) fn permits(&self, upstream: &Arc<Upstream>, now: Duration) -> bool {
        match self.read(upstream, |stats| stats.permit(now)) {
            None | Some(Permission::Granted) => true,
            Some(Permission::Denied) => false,
            Some(Permission::ProbeDue) => {
                // The prober is gone only when the gateway stops.
                _ = self.due_probes.send(upstream.clone());
                false
            }
        }
    }

    /// Returns the result of `read` for the statistics of exactly this catalogue entry; `None` if it has none yet.
    pub(super) fn read<T>(
        &self,
        upstream: &Arc<Upstream>,
        read: impl FnOnce(&Arc<UpstreamStats>) -> T,
    ) -> Option<T> {
        let entries = self.entries.pin();
        let entry = entries.get(&upstream.name)?;
        Arc::ptr_eq(&entry.upstream, upstream).then(|| read(&entry.stats))
    }

    /// Returns the statistics of exactly this catalogue entry, and creates them if necessary.
    pub(super) fn get_or_create(&self, upstream: &Arc<Upstream>) -> Arc<UpstreamStats> {
        let entries = self.entries.pin();
        let created = Arc::new(UpstreamStats::new(upstream.credentials.len()));
        let found = entries.compute(upstream.name.clone(), |found| match found {
            Some((_, entry)) if Arc::ptr_eq(&entry.upstream, upstream) => {
                Operation::Abort(entry.stats.clone())
            }
            _ => {
                Operation::Insert(StatsEntry { upstream: upstream.clone(), stats: created.clone() })
            }
        });
        match found {
            Compute::Aborted(stats) => stats,
            _ => created,
        }
    }
}
