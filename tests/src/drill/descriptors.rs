//! The open files and sockets of the gateway's process, as reported by the operating system.

use std::collections::BTreeMap;
use std::path::Path;

/// The open files and sockets of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Connections from clients of the API.
    pub(super) clients: usize,
    /// Connections to the upstream, including idle ones in the pool.
    pub(super) upstream: usize,
    /// Everything else.
    pub(super) other: usize,
}

/// Counts the descriptors of process `id`, which serves on port `http` and connects to upstreams on
/// port `upstream`. Returns `None` on systems without `/proc`.
pub(super) fn of(id: u32, http: u16, upstream: u16) -> Option<Descriptors> {
    let process = Path::new("/proc").join(id.to_string());
    let table = std::fs::read_to_string(process.join("net/tcp")).ok()?;
    let connections = connections(&table);
    let mut found = Descriptors::default();
    for file in std::fs::read_dir(process.join("fd")).ok()? {
        // a descriptor that is closed meanwhile no longer has a target
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

/// Parses a kernel table of TCP sockets. Returns the local and the remote port of each connected
/// socket, by inode.
fn connections(table: &str) -> BTreeMap<&str, (u16, u16)> {
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let connection = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        Some((*fields.get(9)?, (port(fields[1])?, port(fields[2])?)))
    };
    table.lines().filter_map(connection).filter(|(_, (_, remote))| *remote != 0).collect()
}
