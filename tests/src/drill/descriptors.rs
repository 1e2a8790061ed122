//! The open files and the memory of the gateway's process, as reported by the operating system.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::rig::Rig;
use crate::TEST_TIMEOUT;

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

/// Counts the descriptors of the gateway in `rig`.
pub(super) fn of_gateway(rig: &Rig) -> Option<Descriptors> {
    let port = rig.simulator().url.rsplit_once(':')?.1.strip_suffix("/v1")?;
    let gateway = rig.gateway();
    of(gateway.id(), gateway.http.port(), port.parse().ok()?)
}

/// Waits until no client is connected and no more other descriptors are open than in `baseline`. Returns what remains
/// after the timeout.
pub(super) async fn wait_until_closed(rig: &Rig, baseline: Option<Descriptors>) -> Option<String> {
    let baseline = baseline?;
    let is_closed =
        || of_gateway(rig).is_some_and(|now| now.clients == 0 && now.other <= baseline.other);
    let closing = async {
        while !is_closed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let is_late = tokio::time::timeout(TEST_TIMEOUT, closing).await.is_err();
    is_late.then(|| format!("{:?} are open, {baseline:?} at first", of_gateway(rig)))
}

/// Returns the resident memory of a process in MiB; `None` on systems without `/proc`.
pub(super) fn resident_mib(process: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

/// Counts the descriptors of process `id`, which serves on port `http` and connects to upstreams on
/// port `upstream`. Returns `None` on systems without `/proc`.
fn of(id: u32, http: u16, upstream: u16) -> Option<Descriptors> {
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
