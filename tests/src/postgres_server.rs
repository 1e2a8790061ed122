//! PostgreSQL servers that a test starts, crashes and replicates.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_postgres::NoTls;

use crate::{ClockShift, with_timeout};

/// The account of the operating system that runs servers for root.
const ACCOUNT: &str = "postgres";

/// The programs of one version of PostgreSQL.
#[derive(Clone, Debug)]
pub struct PostgresPrograms {
    dir: PathBuf,
}

/// A server on a port of the loopback interface, with the superuser `tollgate` and without
/// passwords. Stopped on drop.
pub struct PostgresServer {
    programs: PostgresPrograms,
    data: PathBuf,
    port: u16,
}

// === impl PostgresPrograms ===

impl PostgresPrograms {
    /// Returns the programs in `dir`, by default those of the newest version where Debian installs
    /// them. `None` if there are none.
    pub fn find(dir: Option<&Path>) -> Option<Self> {
        let version = |dir: &Path| {
            let name = dir.parent()?.file_name()?.to_str()?;
            name.parse::<u32>().ok()
        };
        let installed = || {
            let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
            let dirs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
            dirs.max_by_key(|dir| version(dir))
        };
        let dir = dir.map(Path::to_owned).or_else(installed)?;
        dir.join("initdb").is_file().then_some(Self { dir })
    }

    /// Returns a command of a program, as another account if this one is root: the server refuses
    /// root. Its output is discarded, because the server that `pg_ctl` starts inherits it, and a pipe
    /// would never end.
    fn command(&self, program: &str) -> std::process::Command {
        let path = self.dir.join(program);
        let mut command =
            std::process::Command::new(if is_root() { "runuser".into() } else { path.clone() });
        if is_root() {
            command.args(["-u", ACCOUNT, "--"]).arg(path);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/");
        command
    }

    /// Runs a program to its end.
    async fn run(&self, program: &str, change: impl FnOnce(&mut std::process::Command)) {
        let mut command = self.command(program);
        change(&mut command);
        let status = with_timeout(program, Command::from(command).status()).await.unwrap();
        assert!(status.success(), "{program}: {status}");
    }

    /// Creates an empty directory for a server, in a directory of the test.
    async fn create_dir(&self, dir: &Path) {
        let mut command = Command::new("install");
        command.arg("-d").args(["-m", "700"]);
        if is_root() {
            let parent = dir.parent().unwrap();
            std::fs::set_permissions(parent, Permissions::from_mode(0o711)).unwrap();
            command.args(["-o", ACCOUNT]);
        }
        assert!(command.arg(dir).status().await.unwrap().success());
    }
}

/// Returns two ports of the loopback interface that are free.
///
/// # Panics
/// If there are none.
pub async fn free_ports() -> [u16; 2] {
    let bind = || async { TcpListener::bind("127.0.0.1:0").await.unwrap() };
    let listeners = [bind().await, bind().await];
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

/// Returns whether this process runs as root: its files in `/proc` belong to its account.
fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

// === impl PostgresServer ===

impl PostgresServer {
    /// Creates a server with its data in `data`, whose parent belongs to the test alone, and starts
    /// it.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn create(programs: PostgresPrograms, data: PathBuf, port: u16) -> Self {
        programs.create_dir(&data).await;
        let initialize = |command: &mut std::process::Command| {
            command.arg("-D").arg(&data).args(["--auth", "trust", "--username", "tollgate"]);
        };
        programs.run("initdb", initialize).await;
        let server = Self { programs, data, port };
        server.start().await;
        server
    }

    /// Creates a standby of this server, and starts it. This server does not wait for it.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn create_standby(&self, data: PathBuf, port: u16) -> Self {
        let programs = self.programs.clone();
        programs.create_dir(&data).await;
        let source =
            format!("host=127.0.0.1 port={} user=tollgate application_name=standby", self.port);
        let copy = |command: &mut std::process::Command| {
            command.arg("-D").arg(&data).args(["-R", "-X", "stream", "--checkpoint=fast"]);
            command.args(["--dbname", &source]);
        };
        programs.run("pg_basebackup", copy).await;
        let standby = Self { programs, data, port };
        standby.start().await;
        standby
    }

    /// Creates a standby of this server, starts it, and lets this server commit only what the
    /// standby has.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn create_synchronous_standby(&self, data: PathBuf, port: u16) -> Self {
        let standby = self.create_standby(data, port).await;
        // Set after the copy, so that the promoted standby has no such setting.
        self.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await;
        self.execute("SELECT pg_reload_conf()").await;
        let sql =
            "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
        with_timeout("synchronous replication", async { while self.execute(sql).await == 0 {} })
            .await;
        standby
    }

    /// Lets a standby have all that `primary` has committed, and nothing that it commits later.
    ///
    /// # Panics
    /// If it does not follow `primary`.
    pub async fn stop_following(&self, primary: &Self) {
        let sent = "SELECT 1 FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()";
        let all = async { while primary.execute(sent).await == 0 {} };
        with_timeout("replication of all commits", all).await;
        self.execute("ALTER SYSTEM SET primary_conninfo = ''").await;
        self.execute("SELECT pg_reload_conf()").await;
        let receiving = "SELECT 1 FROM pg_stat_wal_receiver";
        let ending = async { while self.execute(receiving).await > 0 {} };
        with_timeout("the end of the replication", ending).await;
    }

    /// Starts the server, and waits until it accepts connections.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(&self) {
        self.start_with(|_| {}).await;
    }

    /// Restarts the server with a wall clock that differs by some seconds.
    ///
    /// # Panics
    /// If it does not run, or does not start.
    pub async fn shift_clock(&self, shift: &ClockShift, seconds: i64) {
        self.crash().await;
        self.start_with(|command| shift.apply(command, seconds)).await;
    }

    async fn start_with(&self, change: impl FnOnce(&mut std::process::Command)) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= \
            -c max_connections=200 -c fsync=off",
            self.port
        );
        let start = |command: &mut std::process::Command| {
            command.arg("-D").arg(&self.data).args(["--wait", "--silent", "--options", &options]);
            command.arg("--log").arg(self.data.join("log")).arg("start");
            change(command);
        };
        self.programs.run("pg_ctl", start).await;
    }

    /// Ends all processes of the server at once, as a crash does.
    ///
    /// # Panics
    /// If it does not run.
    pub async fn crash(&self) {
        let stop = |command: &mut std::process::Command| {
            command.arg("-D").arg(&self.data).args(["--mode", "immediate", "--silent", "stop"]);
        };
        self.programs.run("pg_ctl", stop).await;
    }

    /// Lets a standby accept writes, and waits until it does.
    ///
    /// # Panics
    /// If it is not a standby.
    pub async fn promote(&self) {
        let promote = |command: &mut std::process::Command| {
            command.arg("-D").arg(&self.data).args(["--wait", "--silent", "promote"]);
        };
        self.programs.run("pg_ctl", promote).await;
    }

    /// Returns the id of the process that all others of the server belong to.
    ///
    /// # Panics
    /// If it does not run.
    pub fn process_id(&self) -> u32 {
        let text = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap();
        text.lines().next().unwrap().parse().unwrap()
    }

    /// Returns the URL of the database that every server has.
    pub fn url(&self) -> String {
        format!("postgres://tollgate@127.0.0.1:{}/postgres", self.port)
    }

    /// Executes one statement on a new connection. Returns the number of its rows.
    async fn execute(&self, sql: &str) -> u64 {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.unwrap();
        tokio::select! {
            executed = client.execute(sql, &[]) => executed.unwrap(),
            ended = connection => panic!("the server closed a connection: {ended:?}"),
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // Without a check: it may have crashed.
        let mut command = self.programs.command("pg_ctl");
        command.arg("-D").arg(&self.data).args(["--mode", "immediate", "--silent", "stop"]);
        _ = command.stderr(Stdio::null()).status();
    }
}
