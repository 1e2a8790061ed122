//! `ctl agent-config …`: the configuration of a coding agent for a model of this gateway.
//!
//! `configuration` generates it, `check` tests the resulting requests.

mod check;
mod configuration;
mod turn;

use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{Ability, GetModelRequest, ListModelsRequest, Model};
use serde::Serialize;

use self::configuration::Target;
use super::{non_empty, required};
use crate::Shell;
use crate::api::BaseUrl;
use crate::cli::agent_config::{Agent, AgentConfig};
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};

/// A configuration, as printed in JSON, JSON lines and CSV.
#[derive(Serialize)]
struct ConfigurationRecord {
    agent: String,
    path: &'static str,
    base_url: String,
    model: String,
    key_env: String,
    configuration: String,
}

/// Runs `ctl agent-config`.
pub(super) async fn run(shell: &mut Shell<'_>, input: AgentConfig) -> Result<(), Failure> {
    let url = base_url(shell, input.base_url.as_deref()).await?;
    if input.check {
        let model = match input.model {
            Some(model) => model,
            None => default_model(shell).await?.id,
        };
        return Box::pin(check::run(shell, input.agent, &url, &model, input.key_file)).await;
    }
    let (id, model) = if let Some(id) = input.model {
        let mut client = ModelServiceClient::new(shell.connect().await?);
        let answer = client.get_model(GetModelRequest { id: id.clone() }).await?.into_inner();
        // Not `model.id`: requests may use the given alias.
        (id, required(answer.model, "model")?)
    } else {
        let model = default_model(shell).await?;
        (model.id.clone(), model)
    };
    if !model.abilities.is_empty() && !supports_tools(&model) {
        shell
            .output
            .note(&format!("warning: `{id}` does not list tool support, which agents need"));
    }
    let target = Target {
        base_url: &url,
        key_env: &input.key_env,
        model: &id,
        name: non_empty(model.display_name.clone()).unwrap_or_else(|| id.clone()),
        context: model.context_window,
        output: model.max_output_tokens,
        vision: model.abilities().any(|it| it == Ability::Vision),
        reasoning: model.abilities().any(|it| it == Ability::Reasoning),
    };
    let path = configuration::path(input.agent);
    let text = configuration::write(input.agent, &target)?;
    shell.output.note(&format!("save this as {path}"));
    if let Some(start) = configuration::start_command(input.agent, &target) {
        shell.output.note(&start);
    }
    let create =
        format!("export {}=$(ctl key create {} --quiet)", target.key_env, name(input.agent));
    shell.output.note(&format!("it reads its key from the environment: {create}"));
    if shell.output.format() == Format::Table {
        return shell.output.text(&text);
    }
    shell.output.one(&ConfigurationRecord {
        agent: name(input.agent),
        path,
        base_url: url.clone(),
        model: id.clone(),
        key_env: input.key_env.clone(),
        configuration: text,
    })
}

/// Returns the name of an agent on the command line.
fn name(agent: Agent) -> String {
    clap::ValueEnum::to_possible_value(&agent)
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// Returns the base URL of the API, and prints a note if it is a guess.
async fn base_url(shell: &mut Shell<'_>, given: Option<&str>) -> Result<String, Failure> {
    let BaseUrl { url, is_guess } = crate::api::base_url(given, &shell.gateway()?).await?;
    if is_guess {
        let guess = format!("assuming that the API is at {url}; override it with --base-url URL");
        shell.output.note(&guess);
    }
    Ok(url)
}

/// Returns the default model: the first that supports tools, else the first.
async fn default_model(shell: &mut Shell<'_>) -> Result<Model, Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let mut models = client.list_models(ListModelsRequest {}).await?.into_inner().models;
    let first = models.iter().position(supports_tools).unwrap_or_default();
    if models.is_empty() {
        return Err(Failure::new(Exit::NotFound, "there is no model yet")
            .advise("an operator adds one with `ctl model add`"));
    }
    let model = models.swap_remove(first);
    if !models.is_empty() {
        let chosen = format!(
            "using the model {}; choose another of `ctl model list` with --model ID",
            model.id
        );
        shell.output.note(&chosen);
    }
    Ok(model)
}

fn supports_tools(model: &Model) -> bool {
    model.abilities().any(|it| it == Ability::Tools)
}

// === impl ConfigurationRecord ===

impl Record for ConfigurationRecord {
    const FIELDS: &'static [&'static str] =
        &["agent", "path", "base_url", "model", "key_env", "configuration"];
    const COLUMNS: &'static [&'static str] = &["agent", "path", "base_url", "model"];
}
