//! `ctl quickstart`: from a running gateway to code that works, in one command.

mod asking;

use std::time::Duration;

use proto::client::Connection;
use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{Account, CreateKeyRequest, GetModelRequest, ListModelsRequest, WhoAmIRequest};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tonic::Code;

use super::api::{self, Api};
use super::{present, session};
use crate::cli::Quickstart;
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};
use crate::profile::{Endpoint, TokenSource};
use crate::{Shell, clock, connect};

/// What the code says to the model.
const PROMPT: &str = "Say hello.";
/// A model that is not loaded yet takes a while.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client needs, and how to use it.
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
    let endpoint = session::endpoint_for_sign_in(shell)?;
    let base_url = api::base_url(input.base_url.as_deref(), &endpoint).await?.url;
    let api = Api::new(&base_url, &endpoint, PATIENCE)?;
    // Before anything is made that would be for an address that is wrong.
    api.knock().await?;
    let (endpoint, account) = Box::pin(signed_in(shell, endpoint, &input)).await?;
    let connection = connect(&endpoint).await?;
    let models = models(connection.clone(), input.model).await?;
    let request = CreateKeyRequest { label: input.label, ..CreateKeyRequest::default() };
    let answer = KeyServiceClient::new(connection).create_key(request).await?.into_inner();
    let (key, secret) = (present(answer.key, "key")?, answer.secret);
    let answering = asking::answering(shell, &api, &secret.clone().into(), &models).await;
    let model = answering.as_ref().ok().or(models.first()).cloned();
    let named = model.as_deref().unwrap_or("MODEL");
    let record = QuickstartRecord {
        account: account.name,
        key: key.id,
        curl: curl(&base_url, &secret, named),
        python: python(&base_url, &secret, named),
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

/// The models that may be asked, by id: the one that is named, or all.
async fn models(gateway: Connection, named: Option<String>) -> Result<Vec<String>, Failure> {
    let mut client = ModelServiceClient::new(gateway);
    if let Some(id) = named {
        // Requests may name a model by an alias, too.
        client.get_model(GetModelRequest { id: id.clone() }).await?;
        return Ok(vec![id]);
    }
    let models = client.list_models(ListModelsRequest {}).await?.into_inner().models;
    Ok(models.into_iter().map(|model| model.id).collect())
}

/// Finds out who asks; signs in, or registers, if that is nobody (or only the host's operator).
async fn signed_in(
    shell: &mut Shell<'_>,
    endpoint: Endpoint,
    input: &Quickstart,
) -> Result<(Endpoint, Account), Failure> {
    let session = !matches!(endpoint.source, TokenSource::Operator | TokenSource::Nowhere);
    if session {
        let mut client = AccountServiceClient::new(connect(&endpoint).await?);
        match client.who_am_i(WhoAmIRequest {}).await {
            Ok(answer) => {
                let account = present(answer.into_inner().account, "account")?;
                shell.output.note(&format!("signed in as {}", account.name));
                return Ok((endpoint, account));
            }
            Err(status)
                if status.code() == Code::Unauthenticated
                    && endpoint.source == TokenSource::Profile => {}
            Err(status) => return Err(status.into()),
        }
    }
    let store = session::session_store(shell)?;
    let answer = match &input.name {
        Some(name) => {
            let password = session::password(shell, &input.password, false)?;
            match session::sign_in(&endpoint, name, &password).await {
                Err(failure) if failure.exit() == Exit::NotAllowed => {
                    match session::create(&endpoint, name, &password, String::new()).await {
                        // The account is there, so it is the password that was wrong.
                        Err(conflict) if conflict.exit() == Exit::Conflict => return Err(failure),
                        other => other?,
                    };
                    session::sign_in(&endpoint, name, &password).await?
                }
                other => other?,
            }
        }
        None if input.password.password_stdin => {
            return Err(Failure::usage("a password is given, but no account")
                .advise("say whose it is, with --name NAME"));
        }
        None => {
            let name = format!("quickstart-{}", &clock::random_word()[..8]);
            let password = SecretString::from(clock::random_word());
            session::create(&endpoint, &name, &password, String::new()).await.map_err(
                |failure| {
                    failure.advise(
                        "use an account that you have, with `--name NAME`, or make one: \
                     `ctl register NAME --invite CODE`",
                    )
                },
            )?;
            let said = format!("registered {name} with password {}", password.expose_secret());
            shell.output.note(&said);
            session::sign_in(&endpoint, &name, &password).await?
        }
    };
    let token = SecretString::from(answer.token.clone());
    let account = session::keep(shell, &endpoint.server, answer, &store)?;
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
