//! Upstreams behind a proxy: the gateway asks it for a tunnel, and sends nothing anywhere else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use proto::v1;
use simulator::Simulator;
use tests::{Certificate, Product, SecureSimulator, closed_port, priced_model, question};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A proxy that knows one server.
struct Proxy {
    url: String,
    /// The targets that it was asked for, as `HOST:PORT`.
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Connect,
    Socks5,
    /// An HTTP proxy that demands a password.
    Refusing,
    /// A proxy that accepts connections and answers nothing.
    Silent,
}

impl Proxy {
    async fn start(kind: Kind, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let scheme = if matches!(kind, Kind::Socks5) { "socks5" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (targets, mut tasks) = (asked.clone(), JoinSet::new());
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let targets = targets.clone();
                connections.spawn(async move {
                    let target = match kind {
                        Kind::Connect => connect_target(&mut client).await,
                        Kind::Socks5 => socks5_target(&mut client).await,
                        Kind::Refusing => {
                            let target = connect_target(&mut client).await;
                            let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
                            client.write_all(refusal).await.unwrap();
                            targets.lock().unwrap().push(target);
                            return;
                        }
                        Kind::Silent => std::future::pending().await,
                    };
                    targets.lock().unwrap().push(target);
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let accepted: &[u8] = match kind {
                        Kind::Socks5 => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
                        _ => b"HTTP/1.1 200 Connection established\r\n\r\n",
                    };
                    client.write_all(accepted).await.unwrap();
                    // A connection that breaks off ends.
                    _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { url, asked, _tasks: tasks }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn connect_target(client: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned()
}

async fn socks5_target(client: &mut TcpStream) -> String {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting).await.unwrap();
    assert_eq!(greeting, [5, 1, 0], "version 5, no authentication");
    client.write_all(&[5, 0]).await.unwrap();
    let mut request = [0; 5];
    client.read_exact(&mut request).await.unwrap();
    assert_eq!(request[..4], [5, 1, 0, 3], "CONNECT to a name");
    let mut name = vec![0; usize::from(request[4])];
    client.read_exact(&mut name).await.unwrap();
    let port = client.read_u16().await.unwrap();
    format!("{}:{port}", String::from_utf8(name).unwrap())
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

async fn add(product: &Product, upstream: v1::Upstream) {
    let (operator, name) = (product.operator().await, upstream.name.clone());
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
        assert!(proxy.asked().iter().all(|target| target == "model.internal:80"));
        assert!(!proxy.asked().is_empty());

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
        assert_eq!(proxy.asked().first(), Some(&format!("localhost:{port}")));
    }
}

#[tokio::test]
async fn a_proxy_that_gives_no_tunnel_is_a_failed_connection() {
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let operator = product.operator().await;
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    let (refusing, silent) =
        (Proxy::start(Kind::Refusing, nowhere).await, Proxy::start(Kind::Silent, nowhere).await);
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
    assert!(refusing.asked().iter().all(|target| target == "127.0.0.1:9"));
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
