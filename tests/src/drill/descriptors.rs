//! What the gateway's process has open, as the operating system tells.

use std::collections::BTreeMap;
use std::path::Path;

/// The files and sockets of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Connections that clients of the API made.
    pub(super) clients: usize,
    /// Connections to the upstream; those that rest are kept for a while.
    pub(super) upstream: usize,
    /// All else.
    pub(super) other: usize,
}

/// Counts what process `id` has open, which serves on port `http` and asks upstreams on port `upstream`.
/// `None` where the system does not tell.
pub(super) fn of(id: u32, http: u16, upstream: u16) -> Option<Descriptors> {
    let process = Path::new("/proc").join(id.to_string());
    let table = std::fs::read_to_string(process.join("net/tcp")).ok()?;
    let connections = connections(&table);
    let mut found = Descriptors::default();
    for file in std::fs::read_dir(process.join("fd")).ok()? {
        // one that is closed as we look is not there
        let Ok(target) = std::fs::read_link(file.ok()?.path()) else { continue };
        let inode = target.to_str().and_then(|it| it.strip_prefix("socket:[")?.strip_suffix(']'));
        match inode.and_then(|inode| connections.get(inode)) {
            Some((local, _)) if *local == http => found.clients += 1,
            Some((_, remote)) if *remote == upstream => found.upstream += 1,
            _ => found.other += 1,
        }
    }
    Some(found)
}

/// Reads a table of the kernel's TCP sockets: by inode, the local and the remote port of each that is
/// connected.
fn connections(table: &str) -> BTreeMap<&str, (u16, u16)> {
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let connection = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        Some((*fields.get(9)?, (port(fields[1])?, port(fields[2])?)))
    };
    table.lines().filter_map(connection).filter(|(_, (_, remote))| *remote != 0).collect()
}
