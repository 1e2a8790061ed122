//! Restarts while clients send requests: the listening sockets outlive the process.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use tests::drill::rig;
use tests::http::Request;
use tests::process::{Gateway, binary, command};
use tests::{RawUpstream, chunk, question, with_timeout};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Clients that send requests, each over a new connection, until they are stopped.
pub(crate) struct Clients {
    stop: CancellationToken,
    running: JoinSet<usize>,
}

/// Sends one request and reads the answer to its end.
async fn ask(to: SocketAddr, key: &str, is_stream: bool) -> anyhow::Result<()> {
    let mut body = question("sim-chat", "Hello");
    body["stream"] = is_stream.into();
    let request = Request::post(to, "/v1/chat/completions").bearer(key).json(&body);
    let answer = request.try_send().await?.try_answer().await?;
    anyhow::ensure!(answer.status == 200, "{}", answer.text());
    let is_complete = !is_stream || answer.text().ends_with("data: [DONE]\n\n");
    anyhow::ensure!(is_complete, "{}", answer.text());
    Ok(())
}

impl Clients {
    pub(crate) fn start(count: usize, to: SocketAddr, key: &str) -> Self {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        for _ in 0..count {
            let (stop, key) = (stop.clone(), key.to_owned());
            running.spawn(async move {
                let mut served = 0;
                while !stop.is_cancelled() {
                    ask(to, &key, served % 2 == 0).await.unwrap();
                    served += 1;
                }
                served
            });
        }
        Self { stop, running }
    }

    /// Stops the clients and returns the number of requests that were served.
    pub(crate) async fn stop(self) -> usize {
        self.stop.cancel();
        self.running.join_all().await.into_iter().sum()
    }
}

/// Checks that the database of a stopped gateway has `served` requests, and that each is charged once.
fn check_records(data: &Path, served: usize) {
    let database = rusqlite::Connection::open(data.join("tollgate.db")).unwrap();
    let number = |query: &str| -> i64 { database.query_row(query, (), |row| row.get(0)).unwrap() };
    assert_eq!(number("SELECT count(*) FROM requests"), i64::try_from(served).unwrap());
    let requests = "SELECT count(DISTINCT request) FROM ledger_entries WHERE request IS NOT NULL";
    assert_eq!(number(requests), i64::try_from(served).unwrap());
    let costs = number("SELECT sum(cost) FROM requests");
    let charges = "SELECT sum(amount) FROM ledger_entries WHERE request IS NOT NULL";
    assert!(costs > 0);
    assert_eq!(number(charges), -costs);
    let entries = "SELECT sum(amount) FROM ledger_entries";
    assert_eq!(number("SELECT sum(amount) FROM balances"), number(entries));
}

/// Returns a command that runs the gateway with listening sockets as descriptors 3 and 4, as systemd does.
fn activated(names: &str, http: &TcpListener, admin: Option<&UnixListener>) -> Command {
    let mut command = Command::new("sh");
    let count = 1 + usize::from(admin.is_some());
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names} exec \"$0\" \"$@\" 3<&0 4<&1 </dev/null >/dev/null"
    );
    command.env_clear().arg("-c").arg(script).arg(binary("gateway")).kill_on_drop(true);
    command.stdin(Stdio::from(OwnedFd::from(http.try_clone().unwrap())));
    if let Some(admin) = admin {
        command.stdout(Stdio::from(OwnedFd::from(admin.try_clone().unwrap())));
    }
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_an_inherited_socket_refuses_no_request() {
    let data = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let start = async || Gateway::serve(activated("api", &socket, None), data.path(), |_| {}).await;
    let mut gateway = start().await;
    assert_eq!(gateway.http, address);
    let key = rig::operator(&gateway, data.path()).await.key().await.secret;
    let clients = Clients::start(8, address, &key);
    for _ in 0..3 {
        for _ in 0..10 {
            ask(address, &key, false).await.unwrap();
        }
        gateway.stop().await;
        gateway = start().await;
    }
    let served = clients.stop().await + 30;
    gateway.stop().await;
    check_records(data.path(), served);
}

/// Starts a gateway that must not start, and returns what it prints.
pub(crate) async fn refusal(mut command: Command, data: &Path, arguments: &[&str]) -> String {
    command.arg("serve").arg("--data-dir").arg(data).args(arguments);
    let output = with_timeout("its end", command.output()).await.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn inherited_sockets_are_told_apart_by_their_names_and_order() {
    let dir = tempfile::tempdir().unwrap();
    let (data, path) = (dir.path().join("data"), dir.path().join("admin.sock"));
    let (http, admin) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), UnixListener::bind(&path).unwrap());
    for names in ["api:admin", "tollgate.socket:tollgate.socket", ""] {
        let gateway = Gateway::serve(activated(names, &http, Some(&admin)), &data, |_| {}).await;
        assert_eq!(gateway.http, http.local_addr().unwrap(), "{names}");
        assert_eq!(gateway.admin, format!("http://unix:{}", path.display()));
        gateway.stop().await;
        assert!(path.exists(), "the file belongs to the service manager");
    }
    let text = refusal(activated("admin:api", &http, Some(&admin)), &data, &[]).await;
    assert!(text.contains("socket 1 of the service manager as `api`"), "{text}");
    let text = refusal(activated("api:other", &http, Some(&admin)), &data, &[]).await;
    assert!(text.contains("FileDescriptorName=admin"), "{text}");
}

#[tokio::test]
async fn the_socket_unit_passes_the_socket_of_the_api() {
    let value = |key: &str| {
        let value = |line: &'static str| line.strip_prefix(key)?.strip_prefix('=');
        examples::SYSTEMD_SOCKET.lines().find_map(value).unwrap()
    };
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let data = tempfile::tempdir().unwrap();
    let command = activated(value("FileDescriptorName"), &socket, None);
    let gateway = Gateway::serve(command, data.path(), |_| {}).await;
    assert_eq!(gateway.http, socket.local_addr().unwrap());
    assert_eq!(value("ListenStream"), gateway::config::DEFAULT_LISTEN);
    gateway.stop().await;
}

#[tokio::test]
async fn an_inherited_socket_that_other_hosts_reach_needs_tls_like_a_bound_one() {
    let data = tempfile::tempdir().unwrap();
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let local = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let text = refusal(activated("api", &socket, None), data.path(), &local).await;
    assert!(text.contains("`listen`") && text.contains("tls_cert"), "{text}");
}

/// Waits until the log of a gateway contains `text`.
async fn logged(gateway: &Gateway, text: &str) {
    let logged = async {
        while !gateway.log().contains(text) {
            tokio::task::yield_now().await;
        }
    };
    with_timeout("a line in the log", logged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_take_over_refuses_no_request_and_cuts_no_stream() {
    let (data, upstream) = (tempfile::tempdir().unwrap(), RawUpstream::start().await);
    let mut gateway = Gateway::start(data.path(), |_| {}).await;
    let (address, admin) = (gateway.http, gateway.admin.clone());
    let operator = rig::operator(&gateway, data.path()).await;
    operator.add_model_on("asked", &[&upstream.url]).await;
    let key = operator.key().await.secret;
    let clients = Clients::start(8, address, &key);
    let mut body = question("asked", "hi");
    body["stream"] = true.into();
    for _ in 0..3 {
        let request = Request::post(address, "/v1/chat/completions").bearer(&key).json(&body);
        let (stream, mut call) = tokio::join!(request.send(), upstream.begin_stream());
        let next = Gateway::start(data.path(), |command| _ = command.arg("--take-over"));
        let ending = async {
            logged(&gateway, "another process takes over").await;
            // The stream continues although its gateway accepts no connections any more.
            let usage = r#"{"prompt_tokens":1,"completion_tokens":1}"#;
            let text = r#"{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}"#;
            let event = format!("data: {{\"choices\":[{text}],\"usage\":{usage}}}\n\n");
            for piece in [event.as_str(), "data: [DONE]\n\n", ""] {
                call.send(chunk(piece)).await;
            }
            stream.events().await
        };
        let (next, events) = tokio::join!(next, ending);
        assert_eq!(events.last().map(|event| event.trim_end()), Some("data: [DONE]"), "{events:?}");
        let (log, status) = gateway.wait().await;
        assert!(status.success(), "{log}");
        assert_eq!((next.http, &next.admin), (address, &admin));
        gateway = next;
    }
    let served = clients.stop().await + 3;
    gateway.stop().await;
    check_records(data.path(), served);
}

#[tokio::test]
async fn a_gateway_whose_successor_cannot_start_serves_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data, path) = (dir.path().join("data"), dir.path().join("admin.sock"));
    let admin = format!("unix:{}", path.display());
    let on_socket = |command: &mut Command| _ = command.args(["--admin-listen", &admin]);
    // Without a gateway, there is nothing to wait for.
    let first = Gateway::start(&data, |command| {
        command.arg("--take-over");
        on_socket(command);
    })
    .await;
    let port = first.http.to_string();
    let mode = std::os::unix::fs::PermissionsExt::mode;
    let permissions = std::fs::metadata(data.join("take-over.sock")).unwrap().permissions();
    assert_eq!(mode(&permissions) & 0o777, 0o600);

    let take_over = |listen| vec!["--take-over", "--listen", listen, "--admin-listen", &admin];
    let text = refusal(command("gateway"), &data, &take_over("127.0.0.2:0")).await;
    assert!(text.contains(&port) && text.contains("`listen`"), "{text}");
    let mut invalid = take_over(&port);
    invalid.extend(["--workers", "5000"]);
    let text = refusal(command("gateway"), &data, &invalid).await;
    assert!(text.contains("`workers`"), "{text}");
    let mut without_certificate = take_over(&port);
    without_certificate.extend(["--tls-cert", "/nonexistent", "--tls-key", "/nonexistent"]);
    let text = refusal(command("gateway"), &data, &without_certificate).await;
    assert!(text.contains("/nonexistent"), "{text}");
    assert_eq!(Request::get(first.http, "/readyz").answer().await.status, 200);

    let second = Gateway::start(&data, |command| {
        command.arg("--take-over");
        on_socket(command);
    })
    .await;
    let (log, status) = first.wait().await;
    assert!(status.success(), "{log}");
    assert_eq!(second.http.to_string(), port);
    assert!(path.exists(), "the socket of the admin plane is still in use");
    second.stop().await;
    assert!(!path.exists(), "the last gateway removes the file of its socket");
}
