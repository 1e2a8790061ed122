//! Runs the real binaries as child processes.
//!
//! Cargo sets `CARGO_BIN_EXE_*` only for tests in the package of the binary. This module looks in the
//! directory of the test executable, where `cargo test --workspace` puts the binaries.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::with_timeout;

/// A running `gateway`. Killed on drop.
pub struct Gateway {
    /// The address of its API.
    pub http: std::net::SocketAddr,
    /// The address of its admin plane, as `http://…`.
    pub admin: String,
    process: Process,
}

/// A running `gateway simulator`. Killed on drop.
pub struct Simulator {
    /// Its base URL, for an upstream in the catalogue.
    pub url: String,
    _process: Process,
}

/// A child process and its log.
struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinSet<()>,
}

/// Returns the path of a binary of the workspace. `TOLLGATE_TEST_GATEWAY` names another one in place of `gateway`, such
/// as a release build for a measurement.
///
/// # Panics
/// If it was not built.
#[expect(clippy::disallowed_methods, reason = "the other gateway is a setting of the tests only")]
pub fn binary(name: &str) -> PathBuf {
    if name == "gateway"
        && let Some(path) = std::env::var_os("TOLLGATE_TEST_GATEWAY")
    {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().skip(1).take(3).map(|dir| dir.join(name)).find(|at| at.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no `{name}` beside {}: run `cargo test --workspace`, or `cargo build -p {name}` first",
            test.display()
        )
    })
}

/// Returns a command that runs a binary of the workspace with an empty environment.
pub fn command(name: &str) -> Command {
    command_of(&binary(name))
}

/// Returns the path of an older gateway, if a test has one. Otherwise says so, because the caller passes without a
/// test.
#[expect(clippy::disallowed_methods, reason = "the older gateway is a setting of the tests only")]
pub fn older_gateway() -> Option<PathBuf> {
    let path = std::env::var_os("TOLLGATE_TEST_OLDER_GATEWAY").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped, because TOLLGATE_TEST_OLDER_GATEWAY is not set");
    }
    path
}

/// Returns a command that runs `program` with an empty environment.
pub fn command_of(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    // Tests read the log as text.
    command.env("TOLLGATE_LOG_FORMAT", "human");
    command
}

impl Gateway {
    /// Starts a gateway on `data_dir` and free ports, and waits until it serves.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(data_dir: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::serve(command("gateway"), data_dir, change).await
    }

    /// Like [`start`](Self::start), with a `command` that runs the binary with the arguments
    /// appended to it.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn serve(
        mut command: Command,
        data_dir: &Path,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        command.arg("serve").arg("--data-dir").arg(data_dir);
        // Flags take precedence over these.
        command.env("TOLLGATE_LISTEN", "127.0.0.1:0").env("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0");
        command.env("NO_COLOR", "1").stderr(Stdio::piped());
        change(&mut command);
        let (process, [http, admin]) = Process::start(command, ["http", "admin"], "serving").await;
        Self { http: http.parse().unwrap(), admin: format!("http://{admin}"), process }
    }

    /// Returns the process id.
    ///
    /// # Panics
    /// If it has exited.
    pub fn id(&self) -> u32 {
        self.process.child.id().unwrap()
    }

    /// Limits the size of the files that the process can write, which stands for a full disk; `None` for no limit.
    ///
    /// # Panics
    /// If it has exited.
    pub fn limit_file_size(&self, bytes: Option<u64>) {
        let id = Pid::from_raw(self.id().cast_signed());
        prlimit(id, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
    }

    /// Kills the process with `SIGKILL`.
    ///
    /// # Panics
    /// If it cannot be killed.
    pub async fn kill(mut self) {
        self.process.child.kill().await.unwrap();
    }

    /// Sends `SIGTERM`, waits for the process to exit, and returns its log.
    ///
    /// # Panics
    /// If it exits with an error.
    pub async fn stop(self) -> String {
        let id = self.id().to_string();
        let asked = Command::new("sh").args(["-c", "kill $0", &id]).status().await.unwrap();
        assert!(asked.success());
        let (log, status) = self.wait().await;
        assert!(status.success(), "{status}");
        log
    }

    /// Waits for the process to exit by itself, and returns its log and its exit status.
    ///
    /// # Panics
    /// If it does not exit in time.
    pub async fn wait(mut self) -> (String, ExitStatus) {
        let Process { child, log, reader } = &mut self.process;
        let status = with_timeout("the gateway's end", child.wait()).await.unwrap();
        while reader.join_next().await.is_some() {}
        (text(log), status)
    }

    /// Returns the address of its metrics.
    ///
    /// # Panics
    /// If it was started without one.
    pub fn metrics(&self) -> std::net::SocketAddr {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("serving metrics")).unwrap();
        field(line, "listen").unwrap().parse().unwrap()
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        text(&self.process.log)
    }
}

impl Simulator {
    /// Starts a simulator on a free port that writes its truth log to the file `truth`.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(truth: &Path) -> Self {
        let mut command = command("gateway");
        command.args(["simulator", "--listen", "127.0.0.1:0", "--truth-log"]).arg(truth);
        command.env("NO_COLOR", "1").stderr(Stdio::piped());
        let (process, [listen]) = Process::start(command, ["listen"], "simulating").await;
        Self { url: format!("http://{listen}/v1"), _process: process }
    }
}

impl Process {
    /// Starts `command` and waits for the log line that contains `word` and all `fields`.
    async fn start<const N: usize>(
        mut command: Command,
        fields: [&'static str; N],
        word: &'static str,
    ) -> (Self, [String; N]) {
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let (found, mut finding) = watch::channel(None);
        let mut reader = JoinSet::new();
        let written = log.clone();
        reader.spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains(word) && fields.iter().all(|name| field(&line, name).is_some()) {
                    let values = fields.map(|name| field(&line, name).unwrap_or_default());
                    found.send_replace(Some(values));
                }
                let mut log = written.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let values = with_timeout("a process's addresses", finding.wait_for(Option::is_some)).await;
        let Ok(Some(values)) = values.as_deref().cloned() else {
            panic!("it did not start: {}", text(&log))
        };
        (Self { child, log, reader }, values)
    }
}

/// Returns the value of a field in a line of the log, in any format.
fn field(line: &str, name: &str) -> Option<String> {
    let line = line.split_once('>').filter(|(it, _)| it.starts_with('<')).map_or(line, |it| it.1);
    if let Ok(event) = serde_json::from_str::<serde_json::Value>(line) {
        return event.get(name)?.as_str().map(str::to_owned);
    }
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    rest.split_whitespace().next().map(str::to_owned)
}

fn text(log: &Mutex<String>) -> String {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
