//! File descriptors: how many the process may have, and what they leave for connections.

use std::fs::File;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most connections of the admin plane at a time.
pub const MAX_ADMIN_CONNECTIONS: usize = 256;
/// Descriptors that are neither clients' nor upstreams': the store's, the journal's, the runtime's.
const OTHER_DESCRIPTORS: u64 = 64;
/// Descriptors that are kept open to be closed when there are no others.
const SPARE_DESCRIPTORS: usize = 8;

/// Descriptors that are kept open for a port that must be reachable when the process has no others.
#[derive(Debug, Default)]
pub struct SpareDescriptors(Vec<File>);

/// Raises the limit on open files to what the process may have, and returns it; `None` is "no limit".
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

/// Returns how many files the process may have open; `None` is "no limit".
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns how many connections of the API the process has descriptors for, if it may have `limit` open: one
/// for each client and one for its upstream, beside those of the admin plane.
pub fn max_api_connections(limit: Option<u64>) -> Option<usize> {
    let reserved = MAX_ADMIN_CONNECTIONS as u64 + OTHER_DESCRIPTORS;
    let connections = limit?.saturating_sub(reserved) / 2;
    // a process with next to no descriptors serves what it can
    Some(usize::try_from(connections).unwrap_or(usize::MAX).max(16))
}

/// Whether an accept failed for want of descriptors.
pub(super) fn is_exhausted(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

// === impl SpareDescriptors ===

impl SpareDescriptors {
    /// Opens what is missing of the spare descriptors, as far as there are any left.
    pub fn refill(&mut self) {
        while self.0.len() < SPARE_DESCRIPTORS
            && let Ok(file) = File::open("/dev/null")
        {
            self.0.push(file);
        }
    }

    /// Closes one; `false` if there is none.
    pub fn release(&mut self) -> bool {
        self.0.pop().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_plane_and_upstreams_have_descriptors_that_clients_do_not_take() {
        assert_eq!(max_api_connections(None), None);
        assert_eq!(max_api_connections(Some(1_024)), Some(352));
        assert_eq!(max_api_connections(Some(20_000)), Some(9_840));
        assert_eq!(max_api_connections(Some(64)), Some(16));
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
}
