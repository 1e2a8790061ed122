//! Upstreams behind a proxy: the gateway asks it for a tunnel, and sends nothing anywhere else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use data_encoding::BASE64;
use gateway::upstream::{EnvironmentProxies, ProxyVariables};
use proto::v1;
use proto::v1::credential::Source;
use simulator::Simulator;
use tests::http::Request;
use tests::process::{Gateway, command};
use tests::{Certificate, Product, SecureSimulator, Session, closed_port, priced_model, question};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The login that a proxy demands.
#[derive(Clone, Copy, Debug)]
struct Login {
    user: &'static str,
    password: &'static str,
}

/// A proxy that knows one server.
struct Proxy {
    url: String,
    log: Arc<Mutex<ProxyLog>>,
    _tasks: JoinSet<()>,
}

/// What a proxy was asked for.
#[derive(Debug, Default)]
struct ProxyLog {
    /// The targets, as `HOST:PORT`.
    targets: Vec<String>,
    /// The logins, as `USER:PASSWORD`; empty for none.
    logins: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connect,
    Socks5,
    /// A proxy that accepts connections and answers nothing.
    Silent,
}

impl Proxy {
    async fn start(kind: Kind, server: SocketAddr) -> Self {
        Self::with_login(kind, server, None).await
    }

    async fn with_login(kind: Kind, server: SocketAddr, login: Option<Login>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if kind == Kind::Socks5 { "socks5" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let log = Arc::<Mutex<ProxyLog>>::default();
        let (seen, mut tasks) = (log.clone(), JoinSet::new());
        let demanded = login.map(|login| format!("{}:{}", login.user, login.password));
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let (seen, demanded) = (seen.clone(), demanded.clone());
                connections.spawn(async move {
                    let accepted = match kind {
                        Kind::Connect => accept_connect(&mut client, demanded, &seen).await,
                        Kind::Socks5 => accept_socks5(&mut client, demanded, &seen).await,
                        Kind::Silent => std::future::pending().await,
                    };
                    if accepted {
                        let mut server = TcpStream::connect(server).await.unwrap();
                        // A connection that breaks off ends.
                        _ = copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        });
        Self { url, log, _tasks: tasks }
    }

    fn targets(&self) -> Vec<String> {
        self.log.lock().unwrap().targets.clone()
    }

    /// Returns the logins so far, each once.
    fn logins(&self) -> Vec<String> {
        let mut logins = self.log.lock().unwrap().logins.clone();
        logins.dedup();
        logins
    }
}

/// Answers CONNECT; returns whether a tunnel is open.
async fn accept_connect(
    client: &mut TcpStream,
    demanded: Option<String>,
    log: &Mutex<ProxyLog>,
) -> bool {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
    let authorization = head.lines().find_map(|line| line.strip_prefix("Proxy-Authorization: "));
    let login = authorization.map(|value| {
        let encoded = value.strip_prefix("Basic ").unwrap();
        String::from_utf8(BASE64.decode(encoded.as_bytes()).unwrap()).unwrap()
    });
    let accepted = demanded.is_none() || demanded == login;
    let answer: &[u8] = if accepted {
        b"HTTP/1.1 200 Connection established\r\n\r\n"
    } else {
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"
    };
    log.lock().unwrap().targets.push(target);
    log.lock().unwrap().logins.push(login.unwrap_or_default());
    client.write_all(answer).await.unwrap();
    accepted
}

/// Answers the handshake of SOCKS5; returns whether a tunnel is open.
async fn accept_socks5(
    client: &mut TcpStream,
    demanded: Option<String>,
    log: &Mutex<ProxyLog>,
) -> bool {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting).await.unwrap();
    let method = if demanded.is_some() { 2 } else { 0 };
    if greeting != [5, 1, method] {
        client.write_all(&[5, 0xff]).await.unwrap();
        return false;
    }
    client.write_all(&[5, method]).await.unwrap();
    if let Some(demanded) = demanded {
        assert_eq!(client.read_u8().await.unwrap(), 1, "the version of RFC 1929");
        let login = format!("{}:{}", read_text(client).await, read_text(client).await);
        let accepted = login == demanded;
        log.lock().unwrap().logins.push(login);
        client.write_all(&[1, u8::from(!accepted)]).await.unwrap();
        if !accepted {
            return false;
        }
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await.unwrap();
    assert_eq!(request, [5, 1, 0, 3], "CONNECT to a name");
    let name = read_text(client).await;
    let port = client.read_u16().await.unwrap();
    log.lock().unwrap().targets.push(format!("{name}:{port}"));
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
    true
}

/// Reads a text whose length is in the byte before it.
async fn read_text(client: &mut TcpStream) -> String {
    let mut text = vec![0; usize::from(client.read_u8().await.unwrap())];
    client.read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

fn login(user: &str, password: &str) -> v1::ProxyLogin {
    let source = Source::Secret(password.to_owned());
    let password = Some(v1::Credential { source: Some(source) });
    v1::ProxyLogin { user: user.to_owned(), password }
}

/// Serves the simulator without TLS.
async fn plain_simulator(simulator: Simulator, tasks: &mut JoinSet<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let simulator = simulator.clone();
            connections.spawn(async move { simulator.serve(stream).await });
        }
    });
    address
}

/// Adds an upstream, and a model `on-NAME` that is deployed only on it.
async fn add(product: &Product, upstream: v1::Upstream) {
    add_as(&product.operator().await, upstream).await;
}

async fn add_as(operator: &Session, upstream: v1::Upstream) {
    let name = upstream.name.clone();
    operator.add_upstream(upstream).await;
    operator.add_model(priced_model(&format!("on-{name}"), &[(&name, "sim-chat")])).await;
}

#[tokio::test]
async fn requests_go_through_the_proxy_which_resolves_the_name() {
    let product = Product::start().await;
    let mut tasks = JoinSet::new();
    let simulator = product.home.setup.simulator.clone();
    let server = plain_simulator(simulator.clone(), &mut tasks).await;
    let certificate = Certificate::create();
    let secure = SecureSimulator::start(simulator, &certificate, "h2").await;
    let port: u16 = secure.url.rsplit(':').next().unwrap().trim_end_matches("/v1").parse().unwrap();
    let secure_address = SocketAddr::from(([127, 0, 0, 1], port));
    let key = product.member("alice").await.key().await.secret;
    for (kind, name) in [(Kind::Connect, "connect"), (Kind::Socks5, "socks")] {
        let proxy = Proxy::start(kind, server).await;
        add(
            &product,
            v1::Upstream {
                name: name.to_owned(),
                url: "http://model.internal/v1".to_owned(),
                proxy: proxy.url.clone(),
                ..Default::default()
            },
        )
        .await;
        let body = question(&format!("on-{name}"), "hi");
        assert_eq!(product.chat(&key, &body).answer().await.status, 200);
        assert!(proxy.targets().iter().all(|target| target == "model.internal:80"));
        assert!(!proxy.targets().is_empty());

        let proxy = Proxy::start(kind, secure_address).await;
        add(
            &product,
            v1::Upstream {
                name: format!("{name}-tls"),
                url: secure.url.clone(),
                proxy: proxy.url.clone(),
                ca_certificates: certificate.pem.clone(),
                ..Default::default()
            },
        )
        .await;
        let body = question(&format!("on-{name}-tls"), "hi");
        assert_eq!(product.chat(&key, &body).answer().await.status, 200);
        assert_eq!(proxy.targets().first(), Some(&format!("localhost:{port}")));
    }
}

#[tokio::test]
async fn a_proxy_that_gives_no_tunnel_is_a_failed_connection() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let operator = product.operator().await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let demanded = Some(Login { user: "user", password: "word" });
    let refusing = Proxy::with_login(Kind::Connect, nowhere, demanded).await;
    let silent = Proxy::start(Kind::Silent, nowhere).await;
    let closed = closed_port().await;
    let closed = closed.trim_end_matches("/v1");
    for (name, proxy) in
        [("refusing", &*refusing.url), ("silent", &*silent.url), ("closed", closed)]
    {
        let upstream = v1::Upstream {
            name: name.to_owned(),
            url: "http://127.0.0.1:9/v1".to_owned(),
            proxy: proxy.to_owned(),
            deadlines: Some(v1::Deadlines { connect_ms: Some(100), ..Default::default() }),
            ..Default::default()
        };
        add(&product, upstream).await;
        let answer = product.chat(&key, &question(&format!("on-{name}"), "hi")).answer().await;
        assert!(matches!(answer.status, 502 | 504), "{name}: {answer:?}");
        // Nothing was sent, so another deployment gets the request.
        let model = format!("{name}-or-sim");
        operator
            .add_model(priced_model(&model, &[(name, "sim-chat"), ("simulator", "sim-chat")]))
            .await;
        assert_eq!(product.chat(&key, &question(&model, "hi")).answer().await.status, 200);
    }
    assert!(refusing.targets().iter().all(|target| target == "127.0.0.1:9"));
}

#[tokio::test]
async fn a_proxy_that_cannot_be_used_is_refused() {
    let product = Product::start().await;
    let operator = product.operator().await;
    for (url, proxy) in [
        ("http://u.example/v1", "p.example:3128"),
        ("http://u.example/v1", "https://p.example:3128"),
        ("http://u.example/v1", "http://p.example"),
        ("http://u.example/v1", "http://user:password@p.example:3128"),
        ("http://u.example/v1", "http://p.example:3128/path"),
        ("sim:", "http://p.example:3128"),
    ] {
        let upstream = v1::Upstream {
            name: "u".to_owned(),
            url: url.to_owned(),
            proxy: proxy.to_owned(),
            ..Default::default()
        };
        let request = v1::AddUpstreamRequest { upstream: Some(upstream) };
        let refused = operator.upstreams().add_upstream(request).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{proxy}");
        assert!(refused.message().contains("`proxy`"), "{refused:?}");
        assert!(!refused.message().contains("password@"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_login_opens_the_proxy_and_changes_with_it() {
    let product = Product::start().await;
    let mut tasks = JoinSet::new();
    let server = plain_simulator(product.home.setup.simulator.clone(), &mut tasks).await;
    let key = product.member("alice").await.key().await.secret;
    let operator = product.operator().await;
    for (kind, name) in [(Kind::Connect, "connect"), (Kind::Socks5, "socks")] {
        let demanded = Login { user: "gate", password: "first word: 1" };
        let first = Proxy::with_login(kind, server, Some(demanded)).await;
        let demanded = Login { user: "gate", password: "second" };
        let second = Proxy::with_login(kind, server, Some(demanded)).await;
        let upstream = v1::Upstream {
            name: name.to_owned(),
            url: "http://model.internal/v1".to_owned(),
            proxy: first.url.clone(),
            proxy_login: Some(login("gate", "wrong")),
            ..Default::default()
        };
        add(&product, upstream).await;
        let status = async |model: &str| {
            let answer = product.chat(&key, &question(model, "hi")).answer().await;
            assert!(!format!("{answer:?}").contains("wrong"), "{answer:?}");
            answer.status
        };
        let (alone, spare) = (format!("on-{name}"), format!("{name}-or-sim"));
        let deployments = [(name, "sim-chat"), ("simulator", "sim-chat")];
        operator.add_model(priced_model(&spare, &deployments)).await;
        assert_eq!(status(&alone).await, 502);
        assert_eq!(status(&spare).await, 200);
        assert_eq!(first.logins(), ["gate:wrong"]);

        let update = async |request: v1::UpdateUpstreamRequest| {
            let request = v1::UpdateUpstreamRequest { name: name.to_owned(), ..request };
            operator.upstreams().update_upstream(request).await.unwrap();
        };
        let right = login("gate", "first word: 1");
        update(v1::UpdateUpstreamRequest { proxy_login: Some(right), ..Default::default() }).await;
        assert_eq!(status(&alone).await, 200);
        assert_eq!(first.logins(), ["gate:wrong", "gate:first word: 1"]);

        let (proxy, proxy_login) = (Some(second.url.clone()), Some(login("gate", "second")));
        update(v1::UpdateUpstreamRequest { proxy, proxy_login, ..Default::default() }).await;
        for _ in 0..4 {
            assert_eq!(status(&alone).await, 200);
        }
        assert_eq!(second.logins(), ["gate:second"]);
        assert_eq!(first.logins().len(), 2);
        assert!(second.targets().iter().all(|target| target == "model.internal:80"));
    }
}

#[tokio::test]
async fn proxies_of_the_environment_are_used_without_a_choice_and_not_for_exceptions() {
    let mut tasks = JoinSet::new();
    let elsewhere =
        Simulator::new(simulator::Settings { seed: 1, truth: simulator::TruthLog::memory() });
    let server = plain_simulator(elsewhere, &mut tasks).await;
    let demanded = Some(Login { user: "env", password: "word" });
    let environment = Proxy::with_login(Kind::Connect, server, demanded).await;
    let chosen = Proxy::start(Kind::Socks5, server).await;
    let variables = ProxyVariables {
        all: environment.url.replace("http://", "http://env:word@").into(),
        no: "localhost".to_owned(),
        ..ProxyVariables::default()
    };
    let proxies = EnvironmentProxies::new(&variables).unwrap();
    let product = Product::with(|setup| setup.config.upstream_proxies = Some(proxies)).await;
    let key = product.member("alice").await.key().await.secret;
    let mut used = (0, 0);
    for (name, url, proxy, uses) in [
        ("named", "http://model.internal/v1".to_owned(), "", (1, 0)),
        ("chosen", "http://model.internal/v1".to_owned(), &*chosen.url, (0, 1)),
        ("exception", format!("http://localhost:{}/v1", server.port()), "", (0, 0)),
        ("address", format!("http://{server}/v1"), "", (1, 0)),
        ("direct", format!("http://{server}/v1"), "direct", (0, 0)),
    ] {
        let upstream = v1::Upstream {
            name: name.to_owned(),
            url,
            proxy: proxy.to_owned(),
            ..Default::default()
        };
        add(&product, upstream).await;
        let answer = product.chat(&key, &question(&format!("on-{name}"), "hi")).answer().await;
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
        let before = used;
        used = (environment.targets().len(), chosen.targets().len());
        assert_eq!((used.0 - before.0, used.1 - before.1), uses, "{name}");
    }
    assert_eq!(environment.logins(), ["env:word"]);
    assert_eq!(product.chat(&key, &question("sim-chat", "hi")).answer().await.status, 200);
}

#[tokio::test]
async fn the_gateway_reads_the_proxy_variables_only_if_it_is_configured_to() {
    let scratch = tempfile::tempdir().unwrap();
    let mut tasks = JoinSet::new();
    let simulator =
        Simulator::new(simulator::Settings { seed: 1, truth: simulator::TruthLog::memory() });
    let server = plain_simulator(simulator, &mut tasks).await;
    let proxy = Proxy::start(Kind::Connect, server).await;
    let setting = "TOLLGATE_UPSTREAM_PROXY_FROM_ENVIRONMENT";
    for (enabled, through_proxy) in [("false", false), ("true", true)] {
        let data = scratch.path().join(enabled);
        let gateway = Gateway::start(&data, |command| {
            command.env(setting, enabled).env("http_proxy", &proxy.url);
        })
        .await;
        let token = std::fs::read_to_string(data.join("operator.token")).unwrap();
        let operator = Session::with_token(&gateway.admin, "operator", token.trim()).await;
        let upstream = v1::Upstream {
            name: "u".to_owned(),
            url: format!("http://localhost:{}/v1", server.port()),
            ..Default::default()
        };
        add_as(&operator, upstream).await;
        let alice = Session::register(&gateway.admin, "alice", "correct horse battery alice").await;
        let key = alice.key().await.secret;
        let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key);
        let answer = request.json(&question("on-u", "hi")).answer().await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(!proxy.targets().is_empty(), through_proxy);
        drop((operator, alice));
        gateway.stop().await;
    }
    let mut refused = command("gateway");
    refused.args(["--upstream-proxy-from-environment", "--data-dir"]).arg(scratch.path());
    refused.env("HTTPS_PROXY", "https://me:hunter2@p.example");
    let output = refused.output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("`HTTPS_PROXY`"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}
