//! `ctl quickstart`: from a running gateway to code that works, in one command.

use proto::v1::account_service_client::AccountServiceClient;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{Account, CreateKeyRequest, ListModelsRequest, WhoAmIRequest};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use tonic::Code;

use super::{base_url, present, session};
use crate::cli::Quickstart;
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};
use crate::profile::{Endpoint, TokenSource};
use crate::{Shell, clock, connect};

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
    let endpoint = session::lenient(shell)?;
    let base_url = match &input.base_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => base_url(&endpoint.server)?,
    };
    let (endpoint, account) = Box::pin(signed_in(shell, endpoint, &input)).await?;
    let connection = connect(&endpoint).await?;
    let request = CreateKeyRequest { label: input.label, ..CreateKeyRequest::default() };
    let answer = KeyServiceClient::new(connection.clone()).create_key(request).await?.into_inner();
    let key = present(answer.key, "key")?;
    let models =
        ModelServiceClient::new(connection).list_models(ListModelsRequest {}).await?.into_inner();
    let several = models.models.len() > 1;
    let model = models.models.into_iter().next().map(|model| model.id);
    let named = model.as_deref().unwrap_or("MODEL");
    if several {
        let note = format!("the code asks for {named}; any other of `ctl model list` will do");
        shell.output.note(&note);
    }
    let record = QuickstartRecord {
        account: account.name,
        key: key.id,
        curl: curl(&base_url, &answer.secret, named),
        python: python(&base_url, &answer.secret, named),
        secret: answer.secret,
        base_url,
        model,
    };
    if record.model.is_none() {
        shell.output.note("there is no model yet; an operator adds one with `ctl model add`");
    }
    if shell.output.format() == Format::Table {
        return shell.output.text(&format!("{}\n{}", record.curl, record.python));
    }
    shell.output.one(&record)
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
            session::create(&endpoint, &name, &password, String::new()).await?;
            let said = format!("registered {name} with password {}", password.expose_secret());
            shell.output.note(&said);
            session::sign_in(&endpoint, &name, &password).await?
        }
    };
    let token = SecretString::from(answer.token.clone());
    let account = session::keep(shell, &endpoint.server, answer)?;
    Ok((Endpoint { token: Some(token), source: TokenSource::Profile, ..endpoint }, account))
}

fn curl(base_url: &str, secret: &str, model: &str) -> String {
    format!(
        r#"curl {base_url}/chat/completions \
  -H 'authorization: Bearer {secret}' \
  -H 'content-type: application/json' \
  -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Say hello."}}]}}'
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
    messages=[{{"role": "user", "content": "Say hello."}}],
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
