//! A disk that fills up under load and later has room again.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gateway::clock::{Clock, SystemClock};
use tokio::process::Command;

use super::client::{Client, ObservedResponse, Shape};
use super::load::Load;
use super::rig::{MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::process;
use crate::with_timeout;

/// Clients that send requests throughout.
const CLIENTS: usize = 16;
/// Responses before the disk is full.
const BEFORE: usize = 50;
/// Admission has stopped once this number of successive requests was refused.
const REFUSED: usize = 100;
/// The pause between two checks for recovery.
const PAUSE: Duration = Duration::from_millis(10);
/// The file size limit: the size to which the journal preallocates a segment.
const FILE_BYTES: u64 = 256 * 1024;

/// How a disk runs out of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A tmpfs of this size in MiB, mounted in the gateway's mount namespace and filled with a
    /// file. Needs the right to create user namespaces.
    Small(u16),
    /// An ordinary file system, with a limit on file sizes.
    Limited,
}

/// A gateway whose disk fills up.
pub struct DiskFull {
    rig: Rig,
    disk: Disk,
    clock: SystemClock,
    rounds: usize,
}

impl Disk {
    /// A [small](Self::Small) disk with room for many rounds.
    pub const ROOMY: Self = Self::Small(256);

    /// Returns whether this machine permits it.
    pub async fn is_possible(self) -> bool {
        let mut trial = Command::new("unshare");
        trial.args(["-rm", "mount", "-t", "tmpfs", "drill", "/tmp"]).stderr(Stdio::null());
        self == Self::Limited || trial.status().await.is_ok_and(|status| status.success())
    }

    /// Returns the command of a gateway with its data at `data` on such a disk.
    fn command(self, data: &Path) -> Command {
        let gateway = process::binary("gateway");
        match self {
            Self::Limited => process::command("gateway"),
            Self::Small(mebibytes) => {
                let mount = format!(
                    r#"mkdir "$0" && mount -t tmpfs -o size={mebibytes}m,mode=700 drill "$0" && exec "$@""#
                );
                let mut command = Command::new("unshare");
                command.args(["-rm", "sh", "-c", &mount]).arg(data).arg(gateway);
                command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").kill_on_drop(true);
                command
            }
        }
    }

    /// Returns the path at which the test sees the directory `data` of process `id`.
    fn seen(self, data: &Path, id: u32) -> PathBuf {
        match self {
            Self::Limited => data.to_owned(),
            Self::Small(_) => {
                let inside = data.strip_prefix("/").unwrap_or(data);
                Path::new("/proc").join(id.to_string()).join("root").join(inside)
            }
        }
    }
}

impl DiskFull {
    /// Starts the gateway.
    pub async fn prepare(disk: Disk) -> Self {
        let rig =
            Rig::start_within(|data| disk.command(data), |data, id| disk.seen(data, id)).await;
        Self { rig, disk, clock: SystemClock::new(), rounds: 0 }
    }

    /// Sends requests, on a disk that only the gateway fills, until this number of answers has
    /// arrived.
    pub async fn serve(&mut self, answers: usize) -> Round {
        let customer = self.rig.customer("account").await;
        let mut load = Load::start(&self.rig.client(&customer, MODEL), CLIENTS);
        load.wait_until(|seen| seen.len() >= answers).await;
        let seen = load.stop().await;
        let (verdict, _) = self.rig.reconcile_round(&customer, seen).await;
        Round { verdict, figures: Vec::new() }
    }

    /// Returns the rig: the gateway, its data and the simulator.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    fn ballast(&self) -> PathBuf {
        self.rig.data().join("ballast")
    }

    /// Fills the disk.
    ///
    /// # Panics
    /// If it cannot be filled.
    pub fn fill(&self) {
        match self.disk {
            Disk::Limited => self.rig.gateway().limit_file_size(Some(FILE_BYTES)),
            Disk::Small(_) => {
                let mut ballast = File::create(self.ballast()).unwrap();
                for size in [64 * 1024, 4 * 1024] {
                    while ballast.write_all(&vec![1; size]).is_ok() {}
                }
            }
        }
    }

    /// Frees the disk.
    ///
    /// # Panics
    /// If the ballast cannot be removed.
    pub fn clear(&self) {
        match self.disk {
            Disk::Limited => self.rig.gateway().limit_file_size(None),
            Disk::Small(_) => std::fs::remove_file(self.ballast()).unwrap(),
        }
    }
}

impl Drill for DiskFull {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        let client = self.rig.client(&customer, MODEL);
        let mut load = Load::start(&client, CLIENTS);
        load.wait_until(|seen| seen.len() >= BEFORE).await;
        self.fill();
        let full = load.seen().len();
        let refused = |end: &&ObservedResponse| end.status == 503;
        load.wait_until(|seen| seen.iter().rev().take_while(refused).count() >= REFUSED).await;
        let answered = load.seen()[full..].iter().filter(|end| end.status == 200).count();
        self.clear();
        let cleared = self.clock.monotonic();
        let mut seen = served_again(&client).await;
        let back = self.clock.monotonic().saturating_sub(cleared);
        seen.extend(load.stop().await);
        let (verdict, _) = self.rig.reconcile_round(&customer, seen).await;
        let figures = vec![
            Figure::Count("answered on a full disk", answered),
            Figure::Time("back after", back),
        ];
        Round { verdict, figures }
    }
}

/// Sends requests until one is served. Returns the complete responses.
async fn served_again(client: &Client) -> Vec<ObservedResponse> {
    let asking = async {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|end: &ObservedResponse| end.status == 503) {
            seen.push(
                client.send_request(Shape::Chat, "room again?", None).await.expect("an answer"),
            );
            tokio::time::sleep(PAUSE).await;
        }
        seen
    };
    with_timeout("service again", asking).await
}
