//! `ctl quickstart`: creates an account and a key, and prints tested client code.

mod model_probe;

use std::time::Duration;

use proto::client::Connection;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{Account, CreateKeyRequest, GetModelRequest, ListModelsRequest, WhoAmIRequest};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tonic::Code;

use super::{login, required};
use crate::api::{self, Api};
use crate::cli::Quickstart;
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};
use crate::profile::{Endpoint, TokenSource};
use crate::{Shell, clock, connect};

/// The prompt in the printed code.
const PROMPT: &str = "Say hello.";
/// The timeout for the response head: an upstream may have to load the model first.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The settings for a client, with code that uses them.
#[derive(Serialize)]
struct QuickstartRecord {
    account: String,
    key: String,
    secret: String,
    base_url: String,
    model: Option<String>,
    curl: String,
    python: String,
}

/// Runs `ctl quickstart`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Quickstart) -> Result<(), Failure> {
    let endpoint = login::endpoint_for_sign_in(shell)?;
    let base_url = api::base_url(input.base_url.as_deref(), &endpoint).await?.url;
    let api = Api::new(&base_url, &endpoint, RESPONSE_TIMEOUT)?;
    // First of all, so that a wrong URL leaves no account or key behind.
    api.probe().await?;
    let (endpoint, account) = Box::pin(ensure_signed_in(shell, endpoint, &input)).await?;
    let connection = connect(&endpoint).await?;
    let models = models(connection.clone(), input.model).await?;
    let request = CreateKeyRequest { label: input.label, ..CreateKeyRequest::default() };
    let answer = KeyServiceClient::new(connection).create_key(request).await?.into_inner();
    let (key, secret) = (required(answer.key, "key")?, answer.secret);
    let answering =
        model_probe::first_answering(shell, &api, &secret.clone().into(), &models).await;
    let model = answering.as_ref().ok().or(models.first()).cloned();
    let code_model = model.as_deref().unwrap_or("MODEL");
    let record = QuickstartRecord {
        account: account.name,
        key: key.id,
        curl: curl(&base_url, &secret, code_model),
        python: python(&base_url, &secret, code_model),
        secret,
        base_url,
        model,
    };
    if shell.output.format() == Format::Table {
        shell.output.text(&format!("{}\n{}", record.curl, record.python))?;
    } else {
        shell.output.one(&record)?;
    }
    answering.map(|_| ())
}

/// Returns the ids of the models to try: the given one, or all.
async fn models(gateway: Connection, given: Option<String>) -> Result<Vec<String>, Failure> {
    let mut client = ModelServiceClient::new(gateway);
    if let Some(id) = given {
        // Not the id in the answer: requests may use the given alias.
        client.get_model(GetModelRequest { id: id.clone() }).await?;
        return Ok(vec![id]);
    }
    let models = client.list_models(ListModelsRequest {}).await?.into_inner().models;
    Ok(models.into_iter().map(|model| model.id).collect())
}

/// Returns the account of the session. Without one (the operator token does not count), signs in,
/// and registers an account if necessary.
async fn ensure_signed_in(
    shell: &mut Shell<'_>,
    endpoint: Endpoint,
    input: &Quickstart,
) -> Result<(Endpoint, Account), Failure> {
    let has_session = !matches!(endpoint.source, TokenSource::Operator | TokenSource::Missing);
    if has_session {
        let mut client = AccountServiceClient::new(connect(&endpoint).await?);
        match client.who_am_i(WhoAmIRequest {}).await {
            Ok(answer) => {
                let account = required(answer.into_inner().account, "account")?;
                shell.output.note(&format!("signed in as {}", account.name));
                return Ok((endpoint, account));
            }
            Err(status)
                if status.code() == Code::Unauthenticated
                    && endpoint.source == TokenSource::Profile => {}
            Err(status) => return Err(status.into()),
        }
    }
    let store = login::session_store(shell)?;
    let answer = match &input.name {
        Some(name) => {
            let password = login::read_password(shell, &input.password, false)?;
            match login::sign_in(&endpoint, name, &password).await {
                Err(failure) if failure.exit() == Exit::NotAllowed => {
                    match login::register_account(&endpoint, name, &password, String::new()).await {
                        // The account exists, so the password was wrong.
                        Err(conflict) if conflict.exit() == Exit::Conflict => return Err(failure),
                        other => other?,
                    };
                    login::sign_in(&endpoint, name, &password).await?
                }
                other => other?,
            }
        }
        None if input.password.password_stdin => {
            return Err(Failure::usage("a password is given, but no account")
                .advise("name the account with --name NAME"));
        }
        None => {
            let name = format!("quickstart-{}", &clock::random_word()[..8]);
            let password = SecretString::from(clock::random_word());
            login::register_account(&endpoint, &name, &password, String::new()).await.map_err(
                |failure| {
                    failure.advise(
                        "use an existing account with `--name NAME`, or create one: \
                     `ctl register NAME --invite CODE`",
                    )
                },
            )?;
            let note = format!("registered {name} with password {}", password.expose_secret());
            shell.output.note(&note);
            login::sign_in(&endpoint, &name, &password).await?
        }
    };
    let token = SecretString::from(answer.token.clone());
    let account = login::save_session(shell, &endpoint.server, answer, &store)?;
    Ok((Endpoint { token: Some(token), source: TokenSource::Profile, ..endpoint }, account))
}

fn curl(base_url: &str, secret: &str, model: &str) -> String {
    format!(
        r#"curl {base_url}/chat/completions \
  -H 'authorization: Bearer {secret}' \
  -H 'content-type: application/json' \
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "{PROMPT}"}}]}}'
"#
    )
}

fn python(base_url: &str, secret: &str, model: &str) -> String {
    format!(
        r#"# pip install openai
from openai import OpenAI

client = OpenAI(base_url="{base_url}", api_key="{secret}")
answer = client.chat.completions.create(
    model="{model}",
    messages=[{{"role": "user", "content": "{PROMPT}"}}],
)
print(answer.choices[0].message.content)
"#
    )
}

// === impl QuickstartRecord ===

impl Record for QuickstartRecord {
    const FIELDS: &'static [&'static str] =
        &["account", "key", "secret", "base_url", "model", "curl", "python"];
    const COLUMNS: &'static [&'static str] = &["account", "key", "secret", "base_url", "model"];
}
