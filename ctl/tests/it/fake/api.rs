//! A fake of the gateway's OpenAI-compatible API, in which only some models answer.

use std::sync::Arc;

use rcgen::KeyPair;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Starts an API on a free port and returns its base URL. Requests for the models in `answering`
/// succeed, those for `expensive` fail with `insufficient_quota`, all others with
/// `upstream_unreachable`.
#[expect(clippy::disallowed_methods, reason = "the test's runtime ends it")]
pub(crate) async fn start_api(answering: &'static [&'static str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answering));
        }
    });
    url
}

/// Like [`start_api`], but over TLS, with a certificate for `localhost`.
#[expect(clippy::disallowed_methods, reason = "the test's runtime ends it")]
pub(crate) async fn start_api_tls(
    answering: &'static [&'static str],
    certificate: &CertificateDer<'static>,
    key: &KeyPair,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move { serve(acceptor.accept(stream).await?, answering).await });
        }
    });
    url
}

/// Answers one request.
async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answering: &'static [&'static str],
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    stream.read_line(&mut line).await?;
    let is_known = line.split(' ').nth(1).is_some_and(|path| path.starts_with("/v1/"));
    line.clear();
    while stream.read_line(&mut line).await? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let error = |code| format!(r#"{{"error": {{"message": "no", "code": "{code}"}}}}"#);
    let (status, body) = match request["model"].as_str() {
        _ if !is_known => (404, error("unknown_url")),
        None => (401, error("invalid_api_key")),
        Some(model) if answering.contains(&model) => (200, "{}".to_owned()),
        Some("expensive") => (429, error("insufficient_quota")),
        Some(_) => (502, error("upstream_unreachable")),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\ncontent-length: {length}\r\nconnection: close\r\n");
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
    stream.shutdown().await
}
