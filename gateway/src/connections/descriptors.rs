//! File descriptors: the process's limit, and how many connections it allows.

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::ConnectionLimits;

/// The maximum number of admin connections.
pub const MAX_ADMIN_CONNECTIONS: usize = 256;
/// Descriptors of the store, the journal and the main runtime.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors of a worker's runtime.
const WORKER_DESCRIPTORS: u64 = 4;
/// One address gets at most this fraction of the connections that the descriptors allow.
const ADDRESS_DIVISOR: usize = 4;
/// Descriptors that are kept open to be released when there are no others.
const SPARE_DESCRIPTORS: usize = 8;

/// Descriptors that are kept open for a port that must be reachable when the process has no others.
#[derive(Debug, Default)]
pub struct SpareDescriptors(Vec<File>);

/// Raises the soft limit on open files to the hard limit, and returns it; `None` means no limit.
///
/// # Errors
/// The system does not allow it.
pub fn raise_limit() -> Result<Option<u64>, Errno> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(current);
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    Ok(maximum)
}

/// Returns the limit on open files; `None` means no limit.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lowers the limits of the API to what the process has descriptors for, besides those of the admin plane.
pub fn api_limits(
    configured: ConnectionLimits,
    limit: Option<u64>,
    workers: usize,
) -> ConnectionLimits {
    let Some(possible) = max_api_connections(limit, workers) else {
        return configured;
    };
    if configured.total.is_some_and(|total| total > possible) {
        tracing::warn!(
            max_connections = possible,
            open_files = limit,
            "the limit on open files allows fewer connections than `max_connections`; raise it \
             (`ulimit -n`, systemd's LimitNOFILE)"
        );
    }
    if configured.total.is_some_and(|total| total <= possible) {
        return configured;
    }
    let share = (possible / ADDRESS_DIVISOR).max(1);
    ConnectionLimits {
        total: Some(possible),
        per_address: configured.per_address.map(|limit| limit.min(share)),
    }
}

/// Returns the number of API connections that `limit` descriptors allow: each needs one for the client and
/// one for its upstream, and those of the admin plane and of the `workers` are set aside.
fn max_api_connections(limit: Option<u64>, workers: usize) -> Option<usize> {
    let of_workers = (workers as u64).saturating_mul(WORKER_DESCRIPTORS);
    let reserved = MAX_ADMIN_CONNECTIONS as u64 + OTHER_DESCRIPTORS + of_workers;
    let connections = limit?.saturating_sub(reserved) / 2;
    // A process with very few descriptors serves what it can.
    Some(usize::try_from(connections).unwrap_or(usize::MAX).max(16))
}

/// Returns whether an accept failed for lack of descriptors.
pub(super) fn is_exhausted(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

// === impl SpareDescriptors ===

impl SpareDescriptors {
    /// Reopens missing spare descriptors, as far as the limit allows.
    pub fn refill(&mut self) {
        while self.0.len() < SPARE_DESCRIPTORS
            && let Ok(file) = File::open("/dev/null")
        {
            self.0.push(file);
        }
    }

    /// Closes a spare descriptor; returns `false` if there is none.
    pub fn release(&mut self) -> bool {
        self.0.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_plane_and_upstreams_have_descriptors_that_clients_do_not_take() {
        assert_eq!(max_api_connections(None, 2), None);
        assert_eq!(max_api_connections(Some(1_024), 2), Some(348));
        assert_eq!(max_api_connections(Some(20_000), 2), Some(9_836));
        assert_eq!(max_api_connections(Some(64), 2), Some(16));
    }

    #[test]
    fn spare_descriptors_are_released_one_by_one() {
        let mut spare = SpareDescriptors::default();
        assert!(!spare.release());
        spare.refill();
        for _ in 0..SPARE_DESCRIPTORS {
            assert!(spare.release());
        }
        assert!(!spare.release());
    }

    #[test]
    fn one_address_does_not_take_all_connections_that_there_are_descriptors_for() {
        let api_limits = |configured, limit| api_limits(configured, limit, 2);
        let limits = |total, per_address| ConnectionLimits { total, per_address };
        let configured = limits(Some(8_192), Some(1_024));
        assert_eq!(api_limits(configured, None), configured);
        assert_eq!(api_limits(configured, Some(20_000)), configured);
        assert_eq!(api_limits(configured, Some(1_024)), limits(Some(348), Some(87)));
        assert_eq!(api_limits(limits(None, Some(1_024)), Some(1_024)), limits(Some(348), Some(87)));
        assert_eq!(api_limits(limits(Some(8_192), None), Some(1_024)), limits(Some(348), None));
        let few = limits(Some(9), Some(9));
        assert_eq!(api_limits(few, Some(1_024)), few, "what was set is possible");
    }
}
