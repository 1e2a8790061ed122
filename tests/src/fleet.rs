//! Several gateways, each in a process, on one PostgreSQL database, and a connection to it that can
//! be cut.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::http::Request;
use crate::process::{self, Gateway};
use crate::{PostgresDatabase, Session, with_timeout};

/// The secrets that gateways of one database share.
const SHARED: [&str; 2] = ["seal.key", "operator.token"];

/// A database with the data directories of its gateways.
pub struct GatewayFleet {
    /// The database.
    pub database: PostgresDatabase,
    /// The setting `store_patience_seconds` of the gateways.
    pub patience_seconds: u64,
    dir: TempDir,
}

/// TCP proxies in front of the servers of a database.
pub struct Link {
    state: watch::Sender<LinkState>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Up,
    Cut,
    Stalled,
}

impl GatewayFleet {
    /// Creates a database, unless there is no server.
    ///
    /// # Panics
    /// If it cannot be created.
    pub async fn create(test: &str, patience_seconds: u64) -> Option<Self> {
        let database = PostgresDatabase::create(test).await?;
        Some(Self::on(database, patience_seconds))
    }

    /// Returns gateways on `database`, none of which is started.
    ///
    /// # Panics
    /// If there is no temporary directory.
    pub fn on(database: PostgresDatabase, patience_seconds: u64) -> Self {
        Self { database, patience_seconds, dir: tempfile::tempdir().unwrap() }
    }

    /// Returns a directory for other files of the test.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the data directory of a gateway.
    pub fn data(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts a gateway with a copy of the secrets of another one, if it has none.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(&self, name: &str) -> Gateway {
        self.start_with(name, |_| {}).await
    }

    /// Like [`start`](Self::start), with another version of the gateway.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_program(&self, name: &str, program: &Path) -> Gateway {
        let data = self.data(name);
        self.share_secrets(&data);
        let command = process::command_of(program);
        Gateway::serve(command, &data, |command| self.configure(command, name)).await
    }

    /// Like [`start`](Self::start), with changes of the command.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_with(&self, name: &str, change: impl FnOnce(&mut Command)) -> Gateway {
        let data = self.data(name);
        self.share_secrets(&data);
        Gateway::start(&data, |command| {
            self.configure(command, name);
            change(command);
        })
        .await
    }

    /// Returns what a gateway that does not start writes to stderr.
    ///
    /// # Panics
    /// If it starts.
    pub async fn refusal(&self, name: &str) -> String {
        let mut command = process::command("gateway");
        command.arg("--data-dir").arg(self.data(name));
        command.args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        self.configure(&mut command, name);
        let output = with_timeout("its end", command.output()).await.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Connects to a gateway as the operator.
    ///
    /// # Panics
    /// If it cannot be reached.
    pub async fn operator(&self, name: &str, gateway: &Gateway) -> Session {
        let token = std::fs::read_to_string(self.data(name).join("operator.token")).unwrap();
        Session::with_token(&gateway.admin, "operator", token.trim()).await
    }

    /// Deletes the database.
    pub async fn remove(self) {
        self.database.remove().await;
    }

    fn configure(&self, command: &mut Command, name: &str) {
        command.env("TOLLGATE_STORE", &self.database.url);
        command.args(["--node-name", name]);
        command.args(["--store-patience-seconds", &self.patience_seconds.to_string()]);
    }

    fn share_secrets(&self, data: &Path) {
        let others = std::fs::read_dir(self.dir.path()).unwrap();
        let mut others = others.map(|entry| entry.unwrap().path());
        let has_secrets = |other: &PathBuf| other != data && other.join(SHARED[0]).exists();
        let Some(other) = others.find(has_secrets) else { return };
        std::fs::create_dir_all(data).unwrap();
        for name in SHARED {
            if !data.join(name).exists() {
                std::fs::copy(other.join(name), data.join(name)).unwrap();
            }
        }
    }
}

/// Waits until each gateway knows a key and a model that it may use.
///
/// # Panics
/// If that takes too long.
pub async fn wait_for_model(gateways: impl IntoIterator<Item = &Gateway>, key: &str, model: &str) {
    let model = format!("\"{model}\"");
    for gateway in gateways {
        let is_known = async {
            let list = || Request::get(gateway.http, "/v1/models").bearer(key).answer();
            while !list().await.text().contains(&model) {}
        };
        with_timeout("a model on every gateway", is_known).await;
    }
}

impl Link {
    /// Starts a proxy to each server of `url`. Returns them with the URL through them.
    ///
    /// # Panics
    /// If it cannot listen, or the URL has no address.
    pub async fn start(url: &str) -> (Self, String) {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, database) = rest.split_once('/').unwrap();
        let (user, servers) = authority.rsplit_once('@').unwrap();
        let (sender, state) = watch::channel(LinkState::Up);
        let (mut tasks, mut addresses) = (JoinSet::new(), Vec::new());
        for server in servers.split(',') {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            addresses.push(listener.local_addr().unwrap().to_string());
            let (server, state) = (server.to_owned(), state.clone());
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    connections.spawn(relay(client, server.clone(), state.clone()));
                }
            });
        }
        let url = format!("{scheme}://{user}@{}/{database}", addresses.join(","));
        (Self { state: sender, _tasks: tasks }, url)
    }

    /// Drops all connections, and those to come.
    pub fn cut(&self) {
        self.state.send_replace(LinkState::Cut);
    }

    /// Keeps all connections and accepts others, and relays nothing.
    pub fn stall(&self) {
        self.state.send_replace(LinkState::Stalled);
    }

    /// Accepts connections again. Those that stalled are dropped.
    pub fn mend(&self) {
        self.state.send_replace(LinkState::Up);
    }
}

/// Relays one connection until it ends or the link is cut. Keeps it while the link stalls.
async fn relay(mut client: TcpStream, server: String, mut state: watch::Receiver<LinkState>) {
    let initial = *state.borrow_and_update();
    if initial == LinkState::Up {
        let Ok(mut upstream) = TcpStream::connect(server).await else { return };
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut upstream) => return,
            () = async { _ = state.wait_for(|state| *state != LinkState::Up).await; } => {}
        }
        _ = state.wait_for(|state| *state != LinkState::Stalled).await;
        // The server's side is kept until here, too.
        drop(upstream);
        return;
    }
    _ = state.wait_for(|state| *state != LinkState::Stalled).await;
}
