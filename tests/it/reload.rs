//! Settings, certificates and credential files that change while the gateway runs.

use std::path::Path;

use proto::v1;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tests::http::Request;
use tests::process::{Gateway, command};
use tests::{Certificate, Product, with_timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixDatagram};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Certificate as Root, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

/// Calls `Reload` over a new connection to a gateway that must have the certificate `pem`.
async fn reload(product: &Product, pem: &str) -> Result<v1::ReloadResponse, Status> {
    let tls = ClientTlsConfig::new().ca_certificate(Root::from_pem(pem)).domain_name("localhost");
    let server = Endpoint::from_shared(product.admin.replace("http://", "https://")).unwrap();
    let channel = server.tls_config(tls).unwrap().connect().await.unwrap();
    let mut request = tonic::Request::new(v1::ReloadRequest {});
    let token = format!("Bearer {}", product.home.operator_token()).parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    Ok(MaintenanceServiceClient::new(channel).reload(request).await?.into_inner())
}

async fn connect(product: &Product, certificate: &Certificate) -> Option<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(product.http).await.unwrap();
    let connector = TlsConnector::from(certificate.client_config("http/1.1"));
    let name = ServerName::try_from("localhost").unwrap();
    with_timeout("the handshake", connector.connect(name, tcp)).await.ok()
}

/// Returns whether the gateway answers a health check on the connection, which stays open.
async fn is_healthy(connection: &mut TlsStream<TcpStream>) -> bool {
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    connection.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let read = with_timeout("the answer", connection.read_buf(&mut answer)).await.unwrap();
        assert_ne!(read, 0, "the connection was closed");
    }
    answer.starts_with(b"HTTP/1.1 200 OK")
}

#[tokio::test]
async fn a_new_certificate_is_used_for_new_connections_only() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Certificate::create(), Certificate::create());
    let files = old.write(dir.path());
    let product = Product::on_http1(|setup| setup.config.tls = Some(files.clone())).await;
    let mut open = connect(&product, &old).await.unwrap();
    assert!(is_healthy(&mut open).await);
    let unchanged = reload(&product, &old.pem).await.unwrap();
    assert_eq!(unchanged, v1::ReloadResponse::default());

    // A key that does not belong to the certificate changes nothing.
    let matching = std::fs::read(&files.certificate).unwrap();
    new.write(dir.path());
    let new_certificate = std::fs::read(&files.certificate).unwrap();
    std::fs::write(&files.certificate, matching).unwrap();
    let refused = reload(&product, &old.pem).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("cert.pem"), "{refused}");
    assert!(connect(&product, &old).await.is_some());

    std::fs::write(&files.certificate, new_certificate).unwrap();
    assert!(reload(&product, &old.pem).await.unwrap().certificate_changed);
    assert!(connect(&product, &old).await.is_none());
    assert!(is_healthy(&mut connect(&product, &new).await.unwrap()).await);
    assert!(is_healthy(&mut open).await, "open connections are kept");
    assert!(!reload(&product, &new.pem).await.unwrap().certificate_changed);
    drop(open);
    product.stop().await;
}

#[tokio::test]
async fn a_new_certificate_is_found_without_a_reload() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (Certificate::create(), Certificate::create());
    let files = old.write(dir.path());
    let product = Product::on_http1(|setup| setup.config.tls = Some(files)).await;
    new.write(dir.path());
    let found = async {
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(11)).await;
        tokio::time::resume();
        while connect(&product, &new).await.is_none() {}
    };
    with_timeout("the new certificate", found).await;
    product.stop().await;
}

/// Runs `ctl` as operator and returns what it prints, as JSON.
async fn ctl(gateway: &Gateway, data_dir: &Path, line: &str) -> Value {
    let mut command = command("ctl");
    command.args(["--server", &gateway.admin, "-o", "json", "--token-file"]);
    command.arg(data_dir.join("operator.token")).args(line.split_whitespace());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

#[tokio::test]
async fn a_reload_rotates_credentials_and_names_settings_that_need_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (config, credential) = (dir.path().join("gateway.toml"), dir.path().join("credential"));
    std::fs::write(&config, "drain_seconds = 5\n").unwrap();
    std::fs::write(&credential, "first").unwrap();
    let gateway = Gateway::start(dir.path(), |command| {
        command.arg("--config").arg(&config);
    })
    .await;
    let add = format!(
        "upstream add files --url http://127.0.0.1:9/v1 --key-file {}",
        credential.display()
    );
    ctl(&gateway, dir.path(), &add).await;

    std::fs::write(&config, "drain_seconds = 6\n[edge]\nmax_headers = 90\n").unwrap();
    std::fs::write(&credential, "second").unwrap();
    let reloaded = ctl(&gateway, dir.path(), "reload").await;
    assert_eq!(reloaded["need_restart"], serde_json::json!(["drain_seconds", "edge.max_headers"]));
    assert_eq!(reloaded["rotated_upstreams"], serde_json::json!(["files"]));
    assert_eq!(reloaded["certificate_changed"], false);

    // A credential that cannot be read any more is not reported as a success.
    std::fs::remove_file(&credential).unwrap();
    let mut command = command("ctl");
    command.args(["--server", &gateway.admin, "--token-file"]);
    let output =
        command.arg(dir.path().join("operator.token")).arg("reload").output().await.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("upstream `files`"), "{text}");

    // SIGHUP does the same, and does not end the process.
    std::fs::write(&config, "drain_seconds = \"soon\"\n").unwrap();
    let id = gateway.id().to_string();
    let sent = tokio::process::Command::new("sh").args(["-c", "kill -HUP $0", &id]).status().await;
    assert!(sent.unwrap().success());
    let refused = async {
        while !gateway.log().contains("the reload failed") {
            tokio::task::yield_now().await;
        }
    };
    with_timeout("a line in the log", refused).await;
    assert!(gateway.log().contains("drain_seconds"), "{}", gateway.log());
    assert_eq!(Request::get(gateway.http, "/readyz").answer().await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn registration_and_cors_change_without_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("gateway.toml");
    let write = |text: &str| std::fs::write(&config, text).unwrap();
    write("");
    let gateway = Gateway::start(dir.path(), |command| {
        // TOML has no such number.
        command.arg("--config").arg(&config).args(["--body-memory-bytes", "18446744073709551615"]);
    })
    .await;
    let allowed_origin = async || {
        let request =
            Request::get(gateway.http, "/healthz").header("origin", "https://app.example");
        let answer = request.answer().await;
        answer.headers.get("access-control-allow-origin").cloned()
    };
    let register = async |name: &str| {
        let session = tests::Session::anonymous(&gateway.admin).await;
        let request = v1::RegisterRequest {
            name: name.to_owned(),
            password: "correct horse battery".to_owned(),
            ..Default::default()
        };
        session.accounts().register(request).await
    };
    assert_eq!(allowed_origin().await, None);
    register("alice").await.unwrap();

    write("registration = \"closed\"\ncors_origins = [\"https://app.example\"]\nworkers = 3\n");
    let reloaded = ctl(&gateway, dir.path(), "reload").await;
    assert_eq!(reloaded["applied"], serde_json::json!(["cors_origins", "registration"]));
    assert_eq!(reloaded["need_restart"], serde_json::json!(["workers"]));
    assert_eq!(allowed_origin().await.unwrap(), "https://app.example");
    let refused = register("bob").await.unwrap_err();
    assert!(refused.message().contains("registration is closed"), "{refused}");

    write("trial_daily_usd = 0\n");
    let reloaded = ctl(&gateway, dir.path(), "reload").await;
    let names = ["cors_origins", "registration", "trial_daily_usd"];
    assert_eq!(reloaded["applied"], serde_json::json!(names));
    assert_eq!(reloaded["need_restart"], serde_json::json!([]));
    assert_eq!(allowed_origin().await, None);
    assert!(register("bob").await.unwrap().into_inner().trial_credit_withheld);
    let id = gateway.id().to_string();
    let sent = tokio::process::Command::new("sh").args(["-c", "kill -HUP $0", &id]).status().await;
    assert!(sent.unwrap().success());
    let by_signal = async {
        loop {
            let entries = reloads(&gateway, dir.path()).await;
            if entries.len() > 2 {
                return entries;
            }
        }
    };
    let entries = with_timeout("the entry of the signal", by_signal).await;
    let expected = [
        ("", "", "by SIGHUP; nothing changed"),
        ("operator", "127.0.0.1", "changed `cors_origins`, `registration`, `trial_daily_usd`"),
        (
            "operator",
            "127.0.0.1",
            "changed `cors_origins`, `registration`; `workers` need a restart",
        ),
    ];
    let found: Vec<_> = entries.iter().map(|it| (&*it.actor, &*it.address, &*it.details)).collect();
    assert_eq!(found, expected);
    gateway.stop().await;
}

/// Returns the audit entries of reloads, newest first.
async fn reloads(gateway: &Gateway, data: &Path) -> Vec<v1::AuditEntry> {
    let operator = tests::drill::rig::operator(gateway, data).await;
    let list = operator.audit().list_audit(v1::ListAuditRequest::default()).await.unwrap();
    let entries = list.into_inner().entries.into_iter();
    entries.filter(|entry| entry.action == "gateway.reload").collect()
}

#[tokio::test]
async fn gateway_check_validates_settings_without_starting() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("gateway.toml");
    let data_dir = dir.path().join("data");
    let check = async |text: &str| {
        std::fs::write(&config, text).unwrap();
        let mut command = command("gateway");
        command.arg("check").arg("--config").arg(&config).arg("--data-dir").arg(&data_dir);
        let output = command.output().await.unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), texts.concat())
    };
    assert_eq!(check("workers = 2").await, (true, "the settings are valid\n".to_owned()));
    let (valid, text) = check("workers = 5000").await;
    assert!(!valid && text.contains("`workers`"), "{text}");
    let missing = "tls_cert = \"/nonexistent/cert.pem\"\ntls_key = \"/nonexistent/key.pem\"";
    let (valid, text) = check(missing).await;
    assert!(!valid && text.contains("/nonexistent/cert.pem"), "{text}");
    Certificate::create().write(dir.path());
    let path = dir.path().display();
    let (valid, text) =
        check(&format!("tls_cert = \"{path}/cert.pem\"\ntls_key = \"{path}/key.pem\"")).await;
    assert!(valid && text.contains("the certificate can be used"), "{text}");
    assert!(!data_dir.exists());
}

/// Waits for the next message of the gateway to its service manager that is not about the watchdog.
async fn next_state(manager: &UnixDatagram) -> String {
    let mut message = [0; 256];
    loop {
        let length = with_timeout("a message", manager.recv(&mut message)).await.unwrap();
        let state = String::from_utf8(message[..length].to_vec()).unwrap();
        if state != "WATCHDOG=1\n" {
            return state;
        }
    }
}

#[tokio::test]
async fn a_service_manager_is_told_when_the_gateway_is_ready_reloads_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let gateway = Gateway::start(dir.path(), |command| {
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000");
    })
    .await;
    assert_eq!(next_state(&manager).await, "READY=1\n");
    let mut message = [0; 64];
    let length = with_timeout("a sign of life", manager.recv(&mut message)).await.unwrap();
    assert_eq!(&message[..length], b"WATCHDOG=1\n");

    let id = gateway.id().to_string();
    let sent = tokio::process::Command::new("sh").args(["-c", "kill -HUP $0", &id]).status().await;
    assert!(sent.unwrap().success());
    let reloading = next_state(&manager).await;
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    assert_eq!(next_state(&manager).await, "READY=1\n");
    gateway.stop().await;
    assert_eq!(next_state(&manager).await, "STOPPING=1\n");
}
