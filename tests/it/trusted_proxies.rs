//! Clients behind a proxy are distinguished by the addresses that the proxy reports, and only if it is trusted.

use std::net::SocketAddr;

use gateway::connections::TrustedProxies;
use proto::v1;
use tests::http::Request;

use tests::{Certificate, Product, Session, question, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tonic::Code;

/// The address from which the proxies of these tests connect. Other clients connect from 127.0.0.1.
const PROXY: &str = "127.0.0.2";

/// A TCP proxy that sends a header before what its clients send.
struct Proxy {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy to `target`, which connects from the address `from`.
    async fn start(from: &'static str, target: SocketAddr, header: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let header = header.clone();
                connections.spawn(async move {
                    let mut server = connect(from, target).await;
                    server.write_all(header.as_bytes()).await.unwrap();
                    // A connection that breaks off ends.
                    _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, _tasks: tasks }
    }

    fn admin(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Connects from the address `from`.
async fn connect(from: &str, target: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    socket.connect(target).await.unwrap()
}

/// The header of a client at `address`.
fn header(address: &str) -> String {
    format!("PROXY TCP4 {address} 10.0.0.1 4711 80\r\n")
}

fn proxies(send_header: bool) -> TrustedProxies {
    TrustedProxies { networks: vec![PROXY.parse().unwrap()], send_header }
}

fn admin_address(product: &Product) -> SocketAddr {
    product.admin.strip_prefix("http://").unwrap().parse().unwrap()
}

/// Sends a request on an open connection, and returns whether it was answered.
async fn is_served(connection: &mut TcpStream, header: &str) -> bool {
    let request = format!("{header}GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n");
    _ = connection.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    let read = with_timeout("an answer", connection.read_exact(&mut answer)).await;
    read.is_ok() && &answer == b"HTTP/1.1 200"
}

async fn register(admin: &str, name: &str, forwarded: Option<&str>) -> Code {
    let mut request = tonic::Request::new(v1::RegisterRequest {
        name: name.to_owned(),
        password: "long enough".to_owned(),
        invite_code: String::new(),
    });
    if let Some(forwarded) = forwarded {
        request.metadata_mut().insert("x-forwarded-for", forwarded.parse().unwrap());
    }
    let registered = Session::anonymous(admin).await.accounts().register(request).await;
    registered.map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test]
async fn the_limit_of_connections_applies_to_the_clients_that_a_proxy_reports() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.proxies = proxies(true);
        setup.config.connections.per_address = Some(1);
    })
    .await;
    let mut first = connect(PROXY, product.http).await;
    assert!(is_served(&mut first, &header("192.0.2.7")).await);
    let mut second = connect(PROXY, product.http).await;
    assert!(!is_served(&mut second, &header("192.0.2.7")).await);
    let mut other = connect(PROXY, product.http).await;
    assert!(is_served(&mut other, &header("192.0.2.8")).await);
    // The proxy's health checks have no client.
    let mut check = connect(PROXY, product.http).await;
    assert!(is_served(&mut check, "PROXY UNKNOWN\r\n").await);
}

#[tokio::test]
async fn only_a_trusted_proxy_sends_a_header() {
    let product = Product::on_http1(|setup| setup.config.edge.proxies = proxies(true)).await;
    let mut bare = connect(PROXY, product.http).await;
    assert!(!is_served(&mut bare, "").await, "a proxy without a header is configured wrongly");
    let mut direct = connect("127.0.0.1", product.http).await;
    assert!(is_served(&mut direct, "").await);
    let mut invented = connect("127.0.0.1", product.http).await;
    assert!(!is_served(&mut invented, &header("192.0.2.7")).await);
}

#[tokio::test]
async fn a_proxy_may_pass_tls_through() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::create();
    let product = Product::on_http1(|setup| {
        setup.config.edge.proxies = proxies(true);
        setup.config.tls = Some(certificate.write(dir.path()));
    })
    .await;
    let proxy = Proxy::start(PROXY, product.http, header("192.0.2.7")).await;
    for protocol in ["http/1.1", "h2"] {
        let request = Request::get(proxy.address, "/healthz");
        let request = if protocol == "h2" { request.http2() } else { request };
        let answer = request.tls(certificate.client_config(protocol)).answer().await;
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn registrations_are_limited_per_client_behind_a_proxy() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.proxies = proxies(true);
        setup.config.registrations_per_hour = 1;
    })
    .await;
    let target = admin_address(&product);
    let one = Proxy::start(PROXY, target, header("192.0.2.7")).await;
    let other = Proxy::start(PROXY, target, header("192.0.2.8")).await;
    assert_eq!(register(&one.admin(), "alice", None).await, Code::Ok);
    assert_eq!(register(&one.admin(), "bob", None).await, Code::ResourceExhausted);
    assert_eq!(register(&other.admin(), "bob", None).await, Code::Ok);
    // Accounts that were registered through a proxy use the API through it.
    let alice = Session::register(&product.admin, "carol", "correct horse battery carol").await;
    let key = alice.key().await.secret;
    let api = Proxy::start(PROXY, product.http, header("192.0.2.7")).await;
    let request = Request::post(api.address, "/v1/chat/completions").bearer(&key);
    assert_eq!(request.json(&question("sim-chat", "hi")).answer().await.status, 200);
}

#[tokio::test]
async fn only_a_trusted_proxy_reports_clients_in_x_forwarded_for() {
    let product = Product::on_http1(|setup| {
        setup.config.edge.proxies = proxies(false);
        setup.config.registrations_per_hour = 1;
    })
    .await;
    let target = admin_address(&product);
    let proxy = Proxy::start(PROXY, target, String::new()).await;
    let trusted = proxy.admin();
    assert_eq!(register(&trusted, "alice", Some("192.0.2.7")).await, Code::Ok);
    // What a client writes there itself precedes what the proxy adds.
    let invented = Some("203.0.113.9, 192.0.2.7");
    assert_eq!(register(&trusted, "bob", invented).await, Code::ResourceExhausted);
    assert_eq!(register(&trusted, "bob", Some("192.0.2.8")).await, Code::Ok);
    let direct = &product.admin;
    assert_eq!(register(direct, "carol", Some("192.0.2.9")).await, Code::Ok);
    assert_eq!(register(direct, "dave", Some("192.0.2.10")).await, Code::ResourceExhausted);
}
