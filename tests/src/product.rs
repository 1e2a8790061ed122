//! A gateway in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use gateway::app::{self, Listeners, Seams};
use gateway::clock::{Clock, SystemClock, SystemEntropy};
use gateway::config::{Config, Settings};
use gateway::workers::WorkerRuntime;
use proto::v1;
use simulator::{self, Simulator, TruthLog};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::http::Request;
use crate::session::Session;
use crate::{question, with_timeout};

/// What a test may configure before a gateway starts.
#[derive(Clone)]
pub struct Setup {
    /// The configuration; the harness sets the data directory.
    pub config: Config,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The simulator behind `sim:`.
    pub simulator: Simulator,
    /// Where the workers run. A test that pauses time needs [`WorkerRuntime::Current`].
    pub worker_runtime: WorkerRuntime,
}

/// A data directory on which a gateway can be started and restarted.
#[derive(Clone)]
pub struct Home {
    dir: Arc<TempDir>,
    /// The setup of the gateways started on it.
    pub setup: Setup,
}

/// A running gateway.
pub struct Product {
    /// The address of its API.
    pub http: SocketAddr,
    /// The address of its admin plane, as `http://…` or `unix:…`.
    pub admin: String,
    /// Its data directory.
    pub home: Home,
    /// Starts the shutdown when cancelled.
    pub shutdown: CancellationToken,
    running: JoinSet<anyhow::Result<()>>,
}

// === impl Home ===

impl Home {
    /// Creates an empty data directory.
    ///
    /// # Panics
    /// If no temporary directory can be created.
    pub fn new(change: impl FnOnce(&mut Setup)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let settings = Settings {
            data_dir: Some(dir.path().join("data")),
            listen: Some(any),
            admin_listen: Some(any.into()),
            // all accounts of a test register from one address
            registrations_per_hour: Some(0),
            workers: Some(2),
            ..Settings::default()
        };
        let settings_of_simulator = simulator::Settings { seed: 1, truth: TruthLog::memory() };
        let mut setup = Setup {
            config: settings.resolve().unwrap(),
            clock: Arc::new(SystemClock::new()),
            simulator: Simulator::new(settings_of_simulator),
            worker_runtime: WorkerRuntime::Threads,
        };
        change(&mut setup);
        Self { dir: Arc::new(dir), setup }
    }

    /// Returns the path of the data directory.
    pub fn data_dir(&self) -> &Path {
        &self.setup.config.data_dir
    }

    /// Returns a directory for files that do not belong to the gateway.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    /// Reads the operator token.
    ///
    /// # Panics
    /// If there is none.
    pub fn operator_token(&self) -> String {
        let text = std::fs::read_to_string(self.data_dir().join("operator.token")).unwrap();
        text.trim().to_owned()
    }

    /// Starts a gateway that stops at once, and returns its result.
    ///
    /// # Errors
    /// If the gateway refuses to start.
    pub async fn start_and_stop(&self) -> anyhow::Result<()> {
        let config = &self.setup.config;
        let listeners = Listeners::bind(config.listen, config.admin_listen.clone()).await?;
        let shutdown = CancellationToken::new();
        shutdown.cancel();
        app::run(config, listeners, self.seams(), shutdown).await
    }

    fn seams(&self) -> Seams {
        Seams {
            clock: self.setup.clock.clone(),
            entropy: Arc::new(SystemEntropy),
            simulator: self.setup.simulator.clone(),
            worker_runtime: self.setup.worker_runtime,
        }
    }

    /// Starts a gateway and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(&self) -> Product {
        let config = self.setup.config.clone();
        let listeners = Listeners::bind(config.listen, config.admin_listen.clone()).await.unwrap();
        let http = listeners.http.local_addr().unwrap();
        let admin = listeners.admin.address().unwrap().url();
        let seams = self.seams();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let mut running = JoinSet::new();
        running.spawn(async move { app::run(&config, listeners, seams, stop).await });
        let is_plain = self.setup.config.tls.is_none();
        let ready = async {
            tokio::select! {
                // with TLS, the test waits for readiness
                () = std::future::ready(()), if !is_plain => {}
                ended = running.join_next() => panic!("the gateway did not start: {ended:?}"),
                answer = Request::get(http, "/readyz").answer() => assert_eq!(answer.status, 200),
            }
        };
        with_timeout("the gateway", ready).await;
        Product { http, admin, home: self.clone(), shutdown, running }
    }
}

// === impl Product ===

impl Product {
    /// Starts a gateway with default settings: the simulator in its catalogue, open registration.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a gateway whose workers run on the test's runtime, so that the test can pause their time.
    pub async fn on_test_clock() -> Self {
        Self::with(|setup| setup.worker_runtime = WorkerRuntime::Current).await
    }

    /// Starts a gateway with a changed setup.
    pub async fn with(change: impl FnOnce(&mut Setup)) -> Self {
        Home::new(change).start().await
    }

    /// Stops the gateway and returns its data directory.
    ///
    /// # Panics
    /// If it stops with an error.
    pub async fn stop(mut self) -> Home {
        self.shutdown.cancel();
        let ended = with_timeout("the end of the gateway", self.running.join_next()).await;
        ended.unwrap().unwrap().unwrap();
        self.home.clone()
    }

    /// Returns a session of the operator.
    pub async fn operator(&self) -> Session {
        Session::with_token(&self.admin, "operator", &self.home.operator_token()).await
    }

    /// Returns a connection to the admin plane without a session.
    pub async fn anonymous(&self) -> Session {
        Session::anonymous(&self.admin).await
    }

    /// Registers an account and signs it in.
    pub async fn member(&self, name: &str) -> Session {
        Session::register(&self.admin, name, &password_of(name)).await
    }

    /// Adds an upstream at `url` and a model `id` on it. The upstream's name of the model is
    /// `upstream_model`, its prices are 1, 0.1 and 2 dollars per million tokens.
    pub async fn serve_model(&self, id: &str, url: &str, upstream_model: &str) {
        let operator = self.operator().await;
        let name = format!("up-{id}");
        operator
            .add_upstream(v1::Upstream {
                name: name.clone(),
                url: url.to_owned(),
                ..Default::default()
            })
            .await;
        operator.add_model(priced_model(id, &[(&name, upstream_model)])).await;
    }

    /// Returns a POST request to the API.
    pub fn post(&self, path: &str) -> Request {
        Request::post(self.http, path)
    }

    /// Returns a GET request to the API.
    pub fn get(&self, path: &str) -> Request {
        Request::get(self.http, path)
    }

    /// Returns a chat request with this key.
    pub fn chat(&self, key: &str, body: &serde_json::Value) -> Request {
        self.post("/v1/chat/completions").bearer(key).json(body)
    }

    /// Sends `count` concurrent requests to `model`, every second one streamed, and returns their
    /// statuses.
    pub async fn ask_at_once(&self, key: &str, model: &str, count: usize) -> Vec<u16> {
        let mut requests = JoinSet::new();
        for number in 0..count {
            let mut body = question(model, &format!("request {number}"));
            body["stream"] = (number % 2 == 0).into();
            let request = self.chat(key, &body);
            requests.spawn(async move { request.answer().await.status });
        }
        requests.join_all().await
    }
}

/// Returns the password of an account that the harness registers.
pub(crate) fn password_of(name: &str) -> String {
    format!("correct horse battery {name}")
}

/// Returns a model with these deployments in order of falling priority. Its prices are 1, 0.1 and 2
/// dollars per million tokens.
pub fn priced_model(id: &str, deployments: &[(&str, &str)]) -> v1::Model {
    let deployment = |(priority, (upstream, model)): (u32, &(&str, &str))| v1::Deployment {
        upstream: (*upstream).to_owned(),
        upstream_model: (*model).to_owned(),
        weight: 1,
        priority,
    };
    v1::Model {
        id: id.to_owned(),
        price: Some(v1::Price {
            input_usd: "1".to_owned(),
            cached_usd: "0.1".to_owned(),
            output_usd: "2".to_owned(),
            version: 0,
        }),
        deployments: (0..).zip(deployments).map(deployment).collect(),
        ..Default::default()
    }
}
