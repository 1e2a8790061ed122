//! `gateway demo`: demonstrates the gateway in a few seconds.
//!
//! Starts a gateway on a temporary data directory and uses it over its ports like a new user: registers, creates a
//! key, sends a chat request and a streamed one, and reads the request log.

use std::fs::Permissions;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proto::v1;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::app::{self, Listeners, Seams};
use crate::config::{AdminAddress, DEFAULT_ADMIN_LISTEN, DEFAULT_LISTEN, Settings, listen_address};
use crate::control::bootstrap::TOKEN_FILE;
use crate::programs::{Programs, shell_quote};
use domain::wire::sse;

const NAME: &str = "demo";
const MODEL: &str = "sim-chat";

/// The arguments of the demo.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Exit after the demo instead of serving
    #[arg(long)]
    once: bool,
    /// Listen address of the API
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN, env = "TOLLGATE_LISTEN", value_parser = listen_address)]
    listen: SocketAddr,
    /// Listen address of the admin plane, or `unix:/PATH` of a socket
    #[arg(
        long, value_name = "ADDR", default_value = DEFAULT_ADMIN_LISTEN, env = "TOLLGATE_ADMIN_LISTEN"
    )]
    admin_listen: AdminAddress,
}

/// The addresses of the running gateway.
struct DemoGateway {
    /// The base URL of the API.
    api: String,
    /// The URL of the admin plane.
    admin: String,
    data_dir: PathBuf,
}

/// Runs the demo and prints to `out`, with `programs` in the hints. Then serves until `shutdown`, unless `--once` is
/// given.
///
/// # Errors
/// The gateway does not start, or a request fails.
pub async fn run(
    args: DemoArgs,
    programs: &Programs,
    out: &mut impl Write,
    shutdown: CancellationToken,
) -> Result<()> {
    let scratch = tempfile::Builder::new()
        .prefix("tollgate-demo-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .context("creating a data directory for the demo")?;
    ensure!(
        args.admin_listen.is_local(),
        "the demo uses open registration: set --admin-listen (TOLLGATE_ADMIN_LISTEN) to a loopback address"
    );
    ensure!(
        args.listen.ip().is_loopback(),
        "the demo serves without TLS: set --listen (TOLLGATE_LISTEN) to a loopback address, or run `gateway` with \
         a certificate"
    );
    let listeners = Listeners::bind(args.listen, args.admin_listen)?;
    let gateway = DemoGateway {
        api: format!("http://{}/v1", listeners.http.local_addr()?),
        admin: listeners.admin.address()?.url(),
        data_dir: scratch.path().to_owned(),
    };
    let settings = Settings { data_dir: Some(gateway.data_dir.clone()), ..Settings::default() };
    let config = settings.resolve()?;
    let serving = app::run(&config, listeners, Seams::default(), shutdown.clone());
    let demonstration = async {
        let result = demonstrate(&gateway, programs, out).await;
        if result.is_err() || args.once {
            shutdown.cancel();
        }
        result
    };
    let (served, demonstrated) = tokio::join!(serving, demonstration);
    demonstrated.and(served)
}

async fn demonstrate(
    gateway: &DemoGateway,
    programs: &Programs,
    out: &mut impl Write,
) -> Result<()> {
    writeln!(out, "Tollgate is serving {} (admin plane: {})\n", gateway.api, gateway.admin)?;
    let password = SecretString::from("correct horse battery staple");
    let account = register(gateway, &password).await?;
    writeln!(out, "1. An account registers itself, and gets its trial credit.")?;
    writeln!(out, "   {NAME}: plan {}, balance ${}\n", account.plan, account.balance_usd)?;

    let session = sign_in(gateway, &password).await?;
    let key = create_key(gateway, &session).await?;
    writeln!(out, "2. It makes an API key. The key is shown once; the gateway keeps its digest.")?;
    writeln!(out, "   {}…\n", &key.expose_secret()[..19])?;

    let prompt = "Say hello to a newcomer.";
    writeln!(out, "3. A chat request, as any OpenAI client sends it:\n   > {prompt}")?;
    let answer = chat(gateway, &key, prompt).await?;
    writeln!(out, "   < {answer}\n")?;

    let prompt = "Count to three.";
    writeln!(out, "4. A Responses request as a stream, as coding agents send it:\n   > {prompt}")?;
    write!(out, "   < ")?;
    stream(gateway, &key, prompt, out).await?;
    writeln!(out, "\n")?;

    writeln!(out, "5. Both are in the request log, with their exact tokens and cost.")?;
    for record in records(gateway, &session, 2).await? {
        writeln!(out, "   {}", describe(&record))?;
    }
    let account = who_am_i(gateway, &session).await?;
    writeln!(out, "   balance ${}\n", account.balance_usd)?;
    write_hints(gateway, programs, out)
}

/// Prints the commands to try next.
fn write_hints(gateway: &DemoGateway, programs: &Programs, out: &mut impl Write) -> Result<()> {
    let token = gateway.data_dir.join(TOKEN_FILE);
    writeln!(out, "Try next, in another terminal:")?;
    writeln!(out, "   export TOLLGATE_SERVER={}", gateway.admin)?;
    writeln!(out, "   export TOLLGATE_TOKEN_FILE={}", shell_quote(&token))?;
    let (dashboard, catalogue) = (programs.tui(), programs.ctl("model list"));
    let width = dashboard.len().max(catalogue.len()) + 4;
    writeln!(out, "   {dashboard:width$}# the dashboard")?;
    writeln!(out, "   {catalogue:width$}# the catalogue")?;
    writeln!(out, "   KEY=$({})", programs.ctl("key create mine --quiet"))?;
    writeln!(out, "   curl {}/chat/completions -H \"Authorization: Bearer $KEY\" \\", gateway.api)?;
    let body = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "Hi" }] });
    writeln!(out, "     -d '{body}'")?;
    out.flush()?;
    Ok(())
}

// === admin plane ===

async fn register(gateway: &DemoGateway, password: &SecretString) -> Result<v1::Account> {
    let connection = proto::client::connect(&gateway.admin, None).await?;
    let request = v1::RegisterRequest {
        name: NAME.to_owned(),
        password: password.expose_secret().to_owned(),
        invite_code: String::new(),
    };
    let reply = AccountServiceClient::new(connection).register(request).await?.into_inner();
    reply.account.context("the response has no account")
}

async fn sign_in(gateway: &DemoGateway, password: &SecretString) -> Result<SecretString> {
    let connection = proto::client::connect(&gateway.admin, None).await?;
    let request =
        v1::SignInRequest { name: NAME.to_owned(), password: password.expose_secret().to_owned() };
    Ok(AccountServiceClient::new(connection).sign_in(request).await?.into_inner().token.into())
}

async fn who_am_i(gateway: &DemoGateway, session: &SecretString) -> Result<v1::Account> {
    let connection = proto::client::connect(&gateway.admin, Some(session)).await?;
    let reply = AccountServiceClient::new(connection).who_am_i(v1::WhoAmIRequest {}).await?;
    reply.into_inner().account.context("the response has no account")
}

async fn create_key(gateway: &DemoGateway, session: &SecretString) -> Result<SecretString> {
    let connection = proto::client::connect(&gateway.admin, Some(session)).await?;
    let request = v1::CreateKeyRequest { label: "demo".to_owned(), ..Default::default() };
    Ok(KeyServiceClient::new(connection).create_key(request).await?.into_inner().secret.into())
}

/// Waits for `count` request records, which are written asynchronously within milliseconds.
async fn records(
    gateway: &DemoGateway,
    session: &SecretString,
    count: usize,
) -> Result<Vec<v1::RequestRecord>> {
    let connection = proto::client::connect(&gateway.admin, Some(session)).await?;
    let request = v1::TailRequestsRequest { history: 10, ..Default::default() };
    let mut tail = UsageServiceClient::new(connection).tail_requests(request).await?.into_inner();
    let mut records = Vec::new();
    let receive = async {
        while records.len() < count {
            let reply = tail.message().await?.context("the tail ended")?;
            records.extend(reply.requests);
        }
        Ok(records)
    };
    tokio::time::timeout(Duration::from_secs(10), receive).await.context("waiting for records")?
}

fn describe(record: &v1::RequestRecord) -> String {
    let tokens = record.tokens.unwrap_or_default();
    let count = |tokens: Option<u64>| tokens.map_or("?".to_owned(), |tokens| tokens.to_string());
    format!(
        "{} {}{}  {} in, {} out  ${}  {}",
        record.model.as_deref().unwrap_or("?"),
        record.endpoint,
        if record.stream { " (stream)" } else { "" },
        count(tokens.input),
        count(tokens.output),
        record.cost_usd.as_deref().unwrap_or("?"),
        record.status().as_str_name().trim_start_matches("REQUEST_STATUS_").to_lowercase(),
    )
}

// === HTTP ===

async fn chat(gateway: &DemoGateway, key: &SecretString, prompt: &str) -> Result<String> {
    let messages = json!([{ "role": "user", "content": prompt }]);
    let body = json!({ "model": MODEL, "messages": messages });
    let answer = post(gateway, key, "chat/completions", &body).await?;
    let body = answer.collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body)?;
    let text = answer["choices"][0]["message"]["content"].as_str();
    Ok(text.context("the answer has no text")?.to_owned())
}

async fn stream(
    gateway: &DemoGateway,
    key: &SecretString,
    prompt: &str,
    out: &mut impl Write,
) -> Result<()> {
    let body = json!({ "model": MODEL, "input": prompt, "stream": true });
    let mut body = post(gateway, key, "responses", &body).await?;
    let mut splitter = sse::Splitter::default();
    let mut deltas: Vec<String> = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            splitter.push(&bytes, |event| deltas.extend(text_delta(event)))?;
        }
        for delta in deltas.drain(..) {
            write!(out, "{delta}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Returns the text of an output text delta; `None` for other events.
fn text_delta(event: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(&sse::data(event)?).ok()?;
    let is_text = event["type"] == "response.output_text.delta";
    event["delta"].as_str().filter(|_| is_text).map(str::to_owned)
}

async fn post(
    gateway: &DemoGateway,
    key: &SecretString,
    path: &str,
    body: &Value,
) -> Result<hyper::body::Incoming> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}/{path}", gateway.api))
        .header(AUTHORIZATION, format!("Bearer {}", key.expose_secret()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await?;
    ensure!(response.status().is_success(), "the gateway answered {}", response.status());
    Ok(response.into_body())
}
