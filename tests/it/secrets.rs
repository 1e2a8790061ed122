//! Promise 6: no secret leaves. Secrets appear in no log, error, record or file, and in no response
//! except that of their creation.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use data_encoding::BASE64;
use proto::v1;
use proto::v1::credential::Source;
use tests::http::Request;
use tests::process::Gateway;
use tests::{RawUpstream, Session, json_answer, question};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PASSWORD: &str = "correct horse battery alice";
const NEW_PASSWORD: &str = "incorrect horse battery alice";
const SEALED: &str = "sk-sealed-4f6a0c2b9d8e7f61";
const IN_ENV: &str = "sk-in-env-7d0e5b3a2c1f4968";
const OF_PROXY: &str = "proxy-word-5c4d3e2f1a0b9876";
const IN_FILE: &str = "sk-in-file-9b8a7c6d5e4f3021";

/// Returns all files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn contains(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

fn format_answer<T: Debug>(answer: &Result<tonic::Response<T>, tonic::Status>) -> String {
    format!("{answer:?}")
}

/// Adds an upstream and a model of the same name on it.
async fn deploy(operator: &Session, name: &str, url: &str, source: Source) -> String {
    let upstream = v1::Upstream {
        name: name.to_owned(),
        url: url.to_owned(),
        credential: Some(v1::Credential { source: Some(source) }),
        ..Default::default()
    };
    let added = operator.add_upstream(upstream).await;
    let deployments = vec![v1::Deployment { upstream: name.to_owned(), ..Default::default() }];
    let model = v1::Model { id: name.to_owned(), deployments, ..Default::default() };
    operator.add_model(model).await;
    assert_eq!(added.problem, "");
    format!("{added:?}")
}

/// Sends requests through an HTTP and a SOCKS5 proxy that refuse a sealed password.
async fn refused_proxies(operator: &Session, http: SocketAddr, key: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for (scheme, handshake) in [
        ("http", &[&b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n"[..]][..]),
        ("socks5", &[&[5, 2][..], &[1, 1][..]][..]),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let password = Some(v1::Credential { source: Some(Source::Secret(OF_PROXY.to_owned())) });
        let upstream = v1::Upstream {
            name: scheme.to_owned(),
            url: "http://model.internal/v1".to_owned(),
            proxy: format!("{scheme}://{}", listener.local_addr().unwrap()),
            proxy_login: Some(v1::ProxyLogin { user: "user".to_owned(), password }),
            ..Default::default()
        };
        seen.push(format!("{:?}", operator.add_upstream(upstream).await));
        let deployments =
            vec![v1::Deployment { upstream: scheme.to_owned(), ..Default::default() }];
        let model = v1::Model { id: scheme.to_owned(), deployments, ..Default::default() };
        operator.add_model(model).await;
        let refusing = async {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut received = Vec::new();
            for answer in handshake {
                received.resize(received.len() + 1_024, 0);
                let start = received.len() - 1_024;
                let count = client.read(&mut received[start..]).await.unwrap();
                received.truncate(start + count);
                client.write_all(answer).await.unwrap();
            }
            received
        };
        let request = Request::post(http, "/v1/chat/completions").bearer(key);
        let request = request.json(&question(scheme, "hi"));
        let (answer, received) = tokio::join!(request.answer(), refusing);
        assert_eq!(answer.status, 502, "{answer:?}");
        let encoded = BASE64.encode(format!("user:{OF_PROXY}").as_bytes());
        let sent = if scheme == "http" { &*encoded } else { OF_PROXY };
        assert!(contains(&received, sent), "the proxy got the password");
        seen.push(format!("{answer:?}"));
    }
    seen
}

/// Calls everything that shows keys, accounts, upstreams and records, and calls that fail.
async fn answers(alice: &Session, operator: &Session) -> Vec<String> {
    let mut seen = vec![format!("{:?}", alice.account().await)];
    for caller in [alice, operator] {
        seen.push(format_answer(&caller.keys().list_keys(v1::ListKeysRequest::default()).await));
        seen.push(format_answer(
            &caller.usage().list_requests(v1::ListRequestsRequest::default()).await,
        ));
        seen.push(format_answer(
            &caller.usage().summarize_usage(v1::SummarizeUsageRequest::default()).await,
        ));
        seen.push(format_answer(&caller.models().list_models(v1::ListModelsRequest {}).await));
        seen.push(format_answer(&caller.plans().list_plans(v1::ListPlansRequest {}).await));
        seen.push(format_answer(
            &caller.accounts().list_sessions(v1::ListSessionsRequest {}).await,
        ));
        seen.push(format_answer(&caller.audit().list_audit(v1::ListAuditRequest::default()).await));
    }
    seen.push(format_answer(
        &operator.keys().list_keys(v1::ListKeysRequest { account: "*".to_owned() }).await,
    ));
    seen.push(format_answer(
        &operator.accounts().list_accounts(v1::ListAccountsRequest::default()).await,
    ));
    seen.push(format_answer(
        &operator.upstreams().list_upstreams(v1::ListUpstreamsRequest::default()).await,
    ));
    let again = v1::RegisterRequest {
        name: "alice".to_owned(),
        password: PASSWORD.to_owned(),
        invite_code: String::new(),
    };
    seen.push(format_answer(&alice.accounts().register(again).await));
    seen
}

#[tokio::test]
async fn no_secret_is_in_a_log_a_file_an_error_or_an_answer() {
    let scratch = tempfile::tempdir().unwrap();
    let (data, file) = (scratch.path().join("data"), scratch.path().join("credential"));
    std::fs::write(&file, IN_FILE).unwrap();
    let gateway = Gateway::start(&data, |command| {
        command
            .env("TOLLGATE_LOG", "trace")
            .env("TOLLGATE_ACCESS_LOG", "on")
            .env("UPSTREAM_KEY", IN_ENV);
    })
    .await;
    let operator_token = std::fs::read_to_string(data.join("operator.token")).unwrap();
    let operator_token = operator_token.trim().to_owned();
    let operator = Session::with_token(&gateway.admin, "operator", &operator_token).await;
    let alice = Session::register(&gateway.admin, "alice", PASSWORD).await;
    let (key, revoked) = (alice.key().await, alice.key().await);
    alice.keys().revoke_key(v1::RevokeKeyRequest { id: revoked.id.clone() }).await.unwrap();

    let request = v1::RotateKeyRequest { id: key.id.clone(), overlap_seconds: 60 };
    let rotated = alice.keys().rotate_key(request).await.unwrap().into_inner();
    let request = v1::ChangePasswordRequest {
        old_password: PASSWORD.to_owned(),
        new_password: NEW_PASSWORD.to_owned(),
    };
    alice.accounts().change_password(request).await.unwrap();

    let upstream = RawUpstream::start().await;
    let mut seen = Vec::new();
    let sources = [
        (Source::Secret(SEALED.to_owned()), SEALED),
        (Source::Env("UPSTREAM_KEY".to_owned()), IN_ENV),
        (Source::File(file.to_str().unwrap().to_owned()), IN_FILE),
    ];
    for (index, (source, secret)) in sources.into_iter().enumerate() {
        let name = format!("m{index}");
        seen.push(deploy(&operator, &name, &upstream.url, source).await);
        // an upstream that repeats the credential in its error
        for (status, body) in [
            (200, r#"{"choices":[{"message":{"content":"hi"}}]}"#.to_owned()),
            (401, format!(r#"{{"error":{{"message":"wrong key {secret}"}}}}"#)),
        ] {
            let request = Request::post(gateway.http, "/v1/chat/completions").bearer(&key.secret);
            let request = request.json(&question(&name, "hi"));
            let (answer, call) =
                tokio::join!(request.answer(), upstream.answer(json_answer(status, &body)));
            assert_eq!(call.header("authorization"), Some(&*format!("Bearer {secret}")));
            seen.push(format!("{answer:?}"));
        }
    }
    seen.extend(refused_proxies(&operator, gateway.http, &key.secret).await);
    for secret in [&revoked.secret, &format!("{}x", key.secret)] {
        let request = Request::get(gateway.http, "/v1/models").bearer(secret);
        seen.push(format!("{:?}", request.answer().await));
    }
    seen.push(format!("{:?}", alice.records(8).await));
    seen.extend(answers(&alice, &operator).await);
    let alice_token = alice.token.clone();
    drop((alice, operator));
    let log = gateway.stop().await;
    assert!(log.contains("TRACE"), "the log includes the TRACE level");

    let secrets = [
        ("password", PASSWORD),
        ("new password", NEW_PASSWORD),
        ("rotated key", &*rotated.secret),
        ("key", &*key.secret),
        ("revoked key", &*revoked.secret),
        ("session token", &*alice_token),
        ("operator token", &*operator_token),
        ("sealed credential", SEALED),
        ("credential from the environment", IN_ENV),
        ("credential from a file", IN_FILE),
        ("password of a proxy", OF_PROXY),
        ("password of a proxy in base64", &BASE64.encode(format!("user:{OF_PROXY}").as_bytes())),
    ];
    for (what, secret) in secrets {
        for line in log.lines() {
            assert!(!line.contains(secret), "the {what} is in the log: {line}");
        }
        for answer in &seen {
            assert!(!answer.contains(secret), "the {what} is in an answer: {answer}");
        }
        for path in files(&data) {
            let own = what == "operator token" && path.ends_with("operator.token");
            let bytes = std::fs::read(&path).unwrap();
            assert!(own || !contains(&bytes, secret), "the {what} is in {}", path.display());
        }
    }
}

#[tokio::test]
async fn secret_files_are_readable_by_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let product = tests::Product::start().await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(product.home.data_dir()), 0o700);
    for name in ["operator.token", "seal.key"] {
        assert_eq!(mode(&product.home.data_dir().join(name)), 0o600, "{name}");
    }
}
