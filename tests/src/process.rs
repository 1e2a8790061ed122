//! The real binaries, as processes.
//!
//! Cargo names binaries only to the tests of their own package, so they are looked for beside this
//! test's executable: `cargo test --workspace` builds them there.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::soon;

/// A running `gateway`. Killed when it is dropped.
pub struct Gateway {
    /// Where its API is.
    pub http: std::net::SocketAddr,
    /// Where its admin plane is, as `http://…`.
    pub admin: String,
    process: Process,
}

/// A running `gateway simulator`. Killed when it is dropped.
pub struct Simulator {
    /// Where it is, as the URL of an upstream.
    pub url: String,
    _process: Process,
}

/// A child, and what it logs.
struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinSet<()>,
}

/// Finds a binary of the workspace.
///
/// # Panics
/// It was not built.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().skip(1).take(3).map(|dir| dir.join(name)).find(|at| at.is_file());
    found.unwrap_or_else(|| {
        panic!(
            "no `{name}` beside {}: run `cargo test --workspace`, or `cargo build -p {name}` first",
            test.display()
        )
    })
}

/// Prepares to run a binary of the workspace, with nothing of our environment.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(binary(name));
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command
}

impl Gateway {
    /// Starts one on `data_dir` and free ports, and waits until it serves.
    ///
    /// # Panics
    /// It does not.
    pub async fn start(data_dir: &Path, change: impl FnOnce(&mut Command)) -> Self {
        Self::serve(command("gateway"), data_dir, change).await
    }

    /// Does the same with a `command` that ends in running the binary with the arguments that are added.
    ///
    /// # Panics
    /// It does not serve.
    pub async fn serve(
        mut command: Command,
        data_dir: &Path,
        change: impl FnOnce(&mut Command),
    ) -> Self {
        command.arg("serve").arg("--data-dir").arg(data_dir);
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.env("NO_COLOR", "1").stderr(Stdio::piped());
        change(&mut command);
        let (process, [http, admin]) =
            Process::start(command, ["http=", "admin="], "serving").await;
        Self { http: http.parse().unwrap(), admin: format!("http://{admin}"), process }
    }

    /// Its process id.
    ///
    /// # Panics
    /// It has ended.
    pub fn id(&self) -> u32 {
        self.process.child.id().unwrap()
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Panics
    /// It cannot be killed.
    pub async fn kill(mut self) {
        self.process.child.kill().await.unwrap();
    }

    /// Asks it to stop, waits until it has, and returns all that it logged.
    ///
    /// # Panics
    /// It does not end well.
    pub async fn stop(mut self) -> String {
        let id = self.id().to_string();
        let Process { child, log, reader } = &mut self.process;
        let asked = Command::new("sh").args(["-c", "kill $0", &id]).status().await.unwrap();
        assert!(asked.success());
        let status = soon("the gateway's end", child.wait()).await.unwrap();
        while reader.join_next().await.is_some() {}
        assert!(status.success(), "{status}");
        text(log)
    }

    /// All that it has logged so far.
    pub fn log(&self) -> String {
        text(&self.process.log)
    }
}

impl Simulator {
    /// Starts one on a free port that keeps its truth log in the file `truth`.
    ///
    /// # Panics
    /// It does not start.
    pub async fn start(truth: &Path) -> Self {
        let mut command = command("gateway");
        command.args(["simulator", "--listen", "127.0.0.1:0", "--truth-log"]).arg(truth);
        command.env("NO_COLOR", "1").stderr(Stdio::piped());
        let (process, [listen]) = Process::start(command, ["listen="], "simulating").await;
        Self { url: format!("http://{listen}/v1"), _process: process }
    }
}

impl Process {
    /// Starts `command`, and waits for the line of its log that has `word` and all `fields`.
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
                if line.contains(word) && fields.iter().all(|name| line.contains(name)) {
                    found.send_replace(Some(fields.map(|name| field(&line, name))));
                }
                let mut log = written.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        let values = soon("a process's addresses", finding.wait_for(Option::is_some)).await;
        let Ok(Some(values)) = values.as_deref().cloned() else {
            panic!("it did not start: {}", text(&log))
        };
        (Self { child, log, reader }, values)
    }
}

fn field(line: &str, name: &str) -> String {
    let rest = line.split_once(name).map_or("", |(_, rest)| rest);
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

fn text(log: &Mutex<String>) -> String {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
