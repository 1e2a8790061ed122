//! `gateway demo`: the whole product at work, from an empty directory, in a few seconds.
//!
//! Starts a real gateway on a data directory that goes away with it, and does through its own ports
//! what a newcomer would do: register, make a key, chat, stream, look at the request log.

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
use crate::programs::{Programs, quoted};
use domain::wire::sse;

const NAME: &str = "demo";
const MODEL: &str = "sim-chat";

/// How to demonstrate.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Exit after the demonstration instead of serving on
    #[arg(long)]
    once: bool,
    /// Address of the API
    #[arg(long, value_name = "ADDR", default_value = DEFAULT_LISTEN, env = "TOLLGATE_LISTEN", value_parser = listen_address)]
    listen: SocketAddr,
    /// Address of the admin plane, or `unix:/PATH` of a socket
    #[arg(
        long, value_name = "ADDR", default_value = DEFAULT_ADMIN_LISTEN, env = "TOLLGATE_ADMIN_LISTEN"
    )]
    admin_listen: AdminAddress,
}

/// The running gateway, as its clients know it.
struct Product {
    api: String,
    admin: String,
    data_dir: PathBuf,
}

/// Demonstrates on `out`, with hints that name `programs`, then serves until `shutdown` unless told otherwise.
///
/// # Errors
/// The gateway does not start, or does not do what it should.
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
        .context("making a data directory for the demonstration")?;
    ensure!(
        args.admin_listen.is_local(),
        "the demonstration lets everybody register: keep --admin-listen (TOLLGATE_ADMIN_LISTEN) on a \
         loopback address"
    );
    let listeners = Listeners::bind(args.listen, args.admin_listen).await?;
    let product = Product {
        api: format!("http://{}/v1", listeners.http.local_addr()?),
        admin: listeners.admin.address()?.url(),
        data_dir: scratch.path().to_owned(),
    };
    let settings = Settings { data_dir: Some(product.data_dir.clone()), ..Settings::default() };
    let config = settings.resolve()?;
    let serving = app::run(&config, listeners, Seams::default(), shutdown.clone());
    let showing = async {
        let shown = show(&product, programs, out).await;
        if shown.is_err() || args.once {
            shutdown.cancel();
        }
        shown
    };
    let (served, shown) = tokio::join!(serving, showing);
    shown.and(served)
}

async fn show(product: &Product, programs: &Programs, out: &mut impl Write) -> Result<()> {
    writeln!(out, "Tollgate is serving {} (admin plane: {})\n", product.api, product.admin)?;
    let password = SecretString::from("correct horse battery staple");
    let account = register(product, &password).await?;
    writeln!(out, "1. An account registers itself, and gets its trial credit.")?;
    writeln!(out, "   {NAME}: plan {}, balance ${}\n", account.plan, account.balance_usd)?;

    let session = sign_in(product, &password).await?;
    let key = create_key(product, &session).await?;
    writeln!(out, "2. It makes an API key. The key is shown once; the gateway keeps its digest.")?;
    writeln!(out, "   {}…\n", &key.expose_secret()[..19])?;

    let prompt = "Say hello to a newcomer.";
    writeln!(out, "3. A chat request, as any OpenAI client sends it:\n   > {prompt}")?;
    let answer = chat(product, &key, prompt).await?;
    writeln!(out, "   < {answer}\n")?;

    let prompt = "Count to three.";
    writeln!(out, "4. A Responses request as a stream, as coding agents send it:\n   > {prompt}")?;
    write!(out, "   < ")?;
    stream(product, &key, prompt, out).await?;
    writeln!(out, "\n")?;

    writeln!(out, "5. Both are in the request log, with their exact tokens and cost.")?;
    for record in records(product, &session, 2).await? {
        writeln!(out, "   {}", describe(&record))?;
    }
    let account = who_am_i(product, &session).await?;
    writeln!(out, "   balance ${}\n", account.balance_usd)?;
    try_next(product, programs, out)
}

fn try_next(product: &Product, programs: &Programs, out: &mut impl Write) -> Result<()> {
    let token = product.data_dir.join(TOKEN_FILE);
    writeln!(out, "Try next, in another terminal:")?;
    writeln!(out, "   export TOLLGATE_SERVER={}", product.admin)?;
    writeln!(out, "   export TOLLGATE_TOKEN_FILE={}", quoted(&token))?;
    let (dashboard, catalogue) = (programs.tui(), programs.ctl("model list"));
    let width = dashboard.len().max(catalogue.len()) + 4;
    writeln!(out, "   {dashboard:width$}# the dashboard")?;
    writeln!(out, "   {catalogue:width$}# the catalogue")?;
    writeln!(out, "   KEY=$({})", programs.ctl("key create mine --quiet"))?;
    writeln!(out, "   curl {}/chat/completions -H \"Authorization: Bearer $KEY\" \\", product.api)?;
    let body = json!({ "model": MODEL, "messages": [{ "role": "user", "content": "Hi" }] });
    writeln!(out, "     -d '{body}'")?;
    out.flush()?;
    Ok(())
}

// === over the admin plane ===

async fn register(product: &Product, password: &SecretString) -> Result<v1::Account> {
    let connection = proto::client::connect(&product.admin, None).await?;
    let request = v1::RegisterRequest {
        name: NAME.to_owned(),
        password: password.expose_secret().to_owned(),
        invite_code: String::new(),
    };
    let reply = AccountServiceClient::new(connection).register(request).await?.into_inner();
    reply.account.context("the gateway registered nobody")
}

async fn sign_in(product: &Product, password: &SecretString) -> Result<SecretString> {
    let connection = proto::client::connect(&product.admin, None).await?;
    let request =
        v1::SignInRequest { name: NAME.to_owned(), password: password.expose_secret().to_owned() };
    Ok(AccountServiceClient::new(connection).sign_in(request).await?.into_inner().token.into())
}

async fn who_am_i(product: &Product, session: &SecretString) -> Result<v1::Account> {
    let connection = proto::client::connect(&product.admin, Some(session)).await?;
    let reply = AccountServiceClient::new(connection).who_am_i(v1::WhoAmIRequest {}).await?;
    reply.into_inner().account.context("the gateway knows nobody")
}

async fn create_key(product: &Product, session: &SecretString) -> Result<SecretString> {
    let connection = proto::client::connect(&product.admin, Some(session)).await?;
    let request = v1::CreateKeyRequest { label: "demo".to_owned(), ..Default::default() };
    Ok(KeyServiceClient::new(connection).create_key(request).await?.into_inner().secret.into())
}

/// Waits until `count` requests are recorded; they are written behind, within milliseconds.
async fn records(
    product: &Product,
    session: &SecretString,
    count: usize,
) -> Result<Vec<v1::RequestRecord>> {
    let connection = proto::client::connect(&product.admin, Some(session)).await?;
    let request = v1::TailRequestsRequest { history: 10, ..Default::default() };
    let mut news = UsageServiceClient::new(connection).tail_requests(request).await?.into_inner();
    let mut records = Vec::new();
    let waiting = async {
        while records.len() < count {
            let reply = news.message().await?.context("the log ended")?;
            records.extend(reply.requests);
        }
        Ok(records)
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.context("no records came")?
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

// === over HTTP ===

async fn chat(product: &Product, key: &SecretString, prompt: &str) -> Result<String> {
    let messages = json!([{ "role": "user", "content": prompt }]);
    let body = json!({ "model": MODEL, "messages": messages });
    let answer = post(product, key, "chat/completions", &body).await?;
    let body = answer.collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body)?;
    let text = answer["choices"][0]["message"]["content"].as_str();
    Ok(text.context("the answer has no text")?.to_owned())
}

async fn stream(
    product: &Product,
    key: &SecretString,
    prompt: &str,
    out: &mut impl Write,
) -> Result<()> {
    let body = json!({ "model": MODEL, "input": prompt, "stream": true });
    let mut body = post(product, key, "responses", &body).await?;
    let mut splitter = sse::Splitter::default();
    let mut pieces: Vec<String> = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            splitter.push(&bytes, |event| pieces.extend(piece(event)))?;
        }
        for piece in pieces.drain(..) {
            write!(out, "{piece}")?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The text of a stream's event, if it has any.
fn piece(event: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(&sse::data(event)?).ok()?;
    let is_text = event["type"] == "response.output_text.delta";
    event["delta"].as_str().filter(|_| is_text).map(str::to_owned)
}

async fn post(
    product: &Product,
    key: &SecretString,
    path: &str,
    body: &Value,
) -> Result<hyper::body::Incoming> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}/{path}", product.api))
        .header(AUTHORIZATION, format!("Bearer {}", key.expose_secret()))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())))?;
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    let response = client.request(request).await?;
    ensure!(response.status().is_success(), "the gateway answered {}", response.status());
    Ok(response.into_body())
}
