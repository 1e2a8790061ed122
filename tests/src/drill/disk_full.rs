//! A disk that fills up under load, and has room again later.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gateway::clock::{Clock, SystemClock};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::process::Command;

use super::client::{Client, Seen, Shape};
use super::load::Load;
use super::rig::{MODEL, Rig};
use super::round::{Drill, Figure, Round};
use crate::process;
use crate::soon;

/// Clients that ask all the while.
const CLIENTS: usize = 16;
/// Answers that come before the disk is full.
const BEFORE: usize = 50;
/// Admission has stopped when so many requests in a row were refused.
const REFUSED: usize = 100;
/// Between two questions whether there is service again.
const PAUSE: Duration = Duration::from_millis(10);
/// As much as a file may hold: what the journal lays out at once.
const FILE_BYTES: u64 = 256 * 1024;

/// What a disk is that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disk {
    /// A file system in memory of so many MiB, mounted where only the gateway sees it, and filled by a file
    /// of ours. Takes the right to make user namespaces.
    Small(u16),
    /// An ordinary one, on which no file may grow.
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
    /// A [small](Self::Small) one with room for many rounds.
    pub const ROOMY: Self = Self::Small(256);

    /// Whether this machine lets us have it.
    pub async fn is_possible(self) -> bool {
        let mut trial = Command::new("unshare");
        trial.args(["-rm", "mount", "-t", "tmpfs", "drill", "/tmp"]).stderr(Stdio::null());
        self == Self::Limited || trial.status().await.is_ok_and(|status| status.success())
    }

    /// Makes the command of a gateway with its data on such a disk, at `data`.
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

    /// Where we see what process `id` has at `data`.
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

    /// Has clients ask, on a disk that nobody fills but the gateway, until so many have their answers.
    pub async fn serve(&mut self, answers: usize) -> Round {
        let customer = self.rig.customer("account").await;
        let mut load = Load::start(&self.rig.client(&customer, MODEL), CLIENTS);
        load.until(|seen| seen.len() >= answers).await;
        let seen = load.stop().await;
        let (verdict, _) = self.rig.judge(&customer, seen).await;
        Round { verdict, figures: Vec::new() }
    }

    /// The gateway, its data and the simulator.
    pub fn rig(&self) -> &Rig {
        &self.rig
    }

    fn ballast(&self) -> PathBuf {
        self.rig.data().join("ballast")
    }

    /// Leaves no room.
    ///
    /// # Panics
    /// The disk cannot be filled.
    pub fn fill(&self) {
        match self.disk {
            Disk::Limited => self.limit(Some(FILE_BYTES)),
            Disk::Small(_) => {
                let mut ballast = File::create(self.ballast()).unwrap();
                for size in [64 * 1024, 4 * 1024] {
                    while ballast.write_all(&vec![1; size]).is_ok() {}
                }
            }
        }
    }

    /// Makes room.
    ///
    /// # Panics
    /// What fills the disk cannot be removed.
    pub fn clear(&self) {
        match self.disk {
            Disk::Limited => self.limit(None),
            Disk::Small(_) => std::fs::remove_file(self.ballast()).unwrap(),
        }
    }

    fn limit(&self, bytes: Option<u64>) {
        let id = Pid::from_raw(self.rig.gateway().id().cast_signed());
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(id, Resource::Fsize, limit).unwrap();
    }
}

impl Drill for DiskFull {
    async fn round(&mut self) -> Round {
        self.rounds += 1;
        let customer = self.rig.customer(&format!("account-{}", self.rounds)).await;
        let client = self.rig.client(&customer, MODEL);
        let mut load = Load::start(&client, CLIENTS);
        load.until(|seen| seen.len() >= BEFORE).await;
        self.fill();
        let full = load.seen().len();
        let refused = |end: &&Seen| end.status == 503;
        load.until(|seen| seen.iter().rev().take_while(refused).count() >= REFUSED).await;
        let answered = load.seen()[full..].iter().filter(|end| end.status == 200).count();
        self.clear();
        let cleared = self.clock.monotonic();
        let mut seen = served_again(&client).await;
        let back = self.clock.monotonic().saturating_sub(cleared);
        seen.extend(load.stop().await);
        let (verdict, _) = self.rig.judge(&customer, seen).await;
        let figures = vec![
            Figure::Count("answered on a full disk", answered),
            Figure::Time("back after", back),
        ];
        Round { verdict, figures }
    }
}

/// Asks until there is an answer, and returns what came.
async fn served_again(client: &Client) -> Vec<Seen> {
    let asking = async {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|end: &Seen| end.status == 503) {
            seen.push(client.ask(Shape::Chat, "room again?", None).await.expect("an answer"));
            tokio::time::sleep(PAUSE).await;
        }
        seen
    };
    soon("service again", asking).await
}
