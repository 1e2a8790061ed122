//! A gateway in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use gateway::app::{self, Listeners, Seams};
use gateway::clock::{Clock, SystemClock, SystemEntropy};
use gateway::config::{AdminAddress, Config, Settings};
use gateway::telemetry::Log;
use gateway::workers::WorkerRuntime;
use hyper::Method;
use proto::v1;
use simulator::{self, Simulator, TruthLog};
use tempfile::TempDir;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::http::Request;
use crate::session::Session;
use crate::tls::{Certificate, SecureSimulator};
use crate::transport::Transport;
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
    /// How requests of [`Product`] reach the gateway, and the gateway reaches the simulator. With TLS, the harness
    /// sets the certificate of the gateway, and a Unix socket as its admin plane.
    pub transport: Transport,
}

/// A data directory on which a gateway can be started and restarted.
#[derive(Clone)]
pub struct Home {
    dir: Arc<TempDir>,
    /// The setup of the gateways started on it.
    pub setup: Setup,
    /// The simulator's port, unless the gateways reach it through `sim:`. They share it, as their catalogue names it.
    secure_simulator: Arc<OnceCell<SecureSimulator>>,
}

/// A running gateway.
pub struct Product {
    /// The address of its API.
    pub http: SocketAddr,
    /// The address of its admin plane, as `http://…`, or `unix:…` if the API has TLS.
    pub admin: String,
    /// The address of its metrics, if the setup has one.
    pub metrics: Option<SocketAddr>,
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
            transport: Transport::of_environment(),
        };
        change(&mut setup);
        if setup.transport.has_tls() {
            let config = &mut setup.config;
            assert!(config.tls.is_none(), "a test with a certificate begins with `on_http1`");
            config.tls = Some(Certificate::of_process().write(dir.path()));
            if matches!(config.admin_listen, AdminAddress::Tcp(_)) {
                config.admin_listen = AdminAddress::Unix(dir.path().join("admin.sock"));
            }
        }
        Self { dir: Arc::new(dir), setup, secure_simulator: Arc::default() }
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
        let listeners = Listeners::bind(config.listen, config.admin_listen.clone())?;
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
            log: Log::default(),
        }
    }

    /// Starts a gateway and waits until it is ready.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(&self) -> Product {
        // Boxed: the futures of tests would have to hold all of it.
        Box::pin(self.start_and_wait()).await
    }

    async fn start_and_wait(&self) -> Product {
        let config = self.setup.config.clone();
        let listeners = Listeners::bind(config.listen, config.admin_listen.clone()).unwrap();
        let listeners = listeners.with_metrics(config.metrics_listen).unwrap();
        let http = listeners.http.local_addr().unwrap();
        let metrics = listeners.metrics.as_ref().map(|socket| socket.local_addr().unwrap());
        let admin = listeners.admin.address().unwrap().url();
        let seams = self.seams();
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let mut running = JoinSet::new();
        running.spawn(async move { app::run(&config, listeners, seams, stop).await });
        let transport = self.setup.transport;
        let has_own_tls = self.setup.config.tls.is_some() && !transport.has_tls();
        let readiness = transport.apply(Request::get(http, "/readyz"));
        let ready = async {
            tokio::select! {
                // with a certificate of the test, the test waits for readiness
                () = std::future::ready(()), if has_own_tls => {}
                ended = running.join_next() => panic!("the gateway did not start: {ended:?}"),
                answer = readiness.answer() => assert_eq!(answer.status, 200),
            }
        };
        with_timeout("the gateway", ready).await;
        let product = Product { http, admin, metrics, home: self.clone(), shutdown, running };
        if transport != Transport::Http1 && !self.secure_simulator.initialized() {
            self.connect_simulator(&product).await;
        }
        product
    }

    /// Replaces `sim:` in the catalogue by a port of the simulator with TLS.
    async fn connect_simulator(&self, product: &Product) {
        let Setup { simulator, transport, .. } = &self.setup;
        let certificate = Certificate::of_process();
        let start = SecureSimulator::start(simulator.clone(), certificate, transport.protocol());
        let simulator = self.secure_simulator.get_or_init(|| start).await;
        let change = v1::UpdateUpstreamRequest {
            name: "simulator".to_owned(),
            url: Some(simulator.url.clone()),
            ca_certificates: Some(certificate.pem.clone()),
            ..Default::default()
        };
        let changed = product.operator().await.upstreams().update_upstream(change).await;
        // A test may have another catalogue.
        let is_known = changed.map_or_else(|refused| refused.code() != Code::NotFound, |_| true);
        assert!(is_known || !self.setup.config.simulator, "the catalogue has no simulator");
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

    /// Starts a gateway with a changed setup that is reached over plaintext HTTP/1.1 whatever the environment chooses:
    /// for a test that writes its requests as bytes, or that configures TLS.
    pub async fn on_http1(change: impl FnOnce(&mut Setup)) -> Self {
        let change = |setup: &mut Setup| {
            setup.transport = Transport::Http1;
            change(setup);
        };
        Self::with(change).await
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

    /// Returns the base URL of the simulator, for an upstream in the catalogue.
    pub fn simulator_url(&self) -> &str {
        self.home.secure_simulator.get().map_or("sim:", |simulator| &simulator.url)
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

    /// Returns a request to the API, over the transport of the setup.
    pub fn request(&self, method: Method, path: &str) -> Request {
        self.home.setup.transport.apply(Request::new(self.http, method, path))
    }

    /// Returns a POST request to the API.
    pub fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    /// Returns a GET request to the API.
    pub fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
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
pub fn password_of(name: &str) -> String {
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
