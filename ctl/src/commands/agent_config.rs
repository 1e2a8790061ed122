//! `ctl agent-config …`: what a coding agent has to be told to work through the gateway.
//!
//! `configuration` writes it, `check` tries what it leads to.

mod check;
mod configuration;
mod turn;

use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{Ability, GetModelRequest, ListModelsRequest, Model};
use serde::Serialize;

use self::configuration::Target;
use super::api::BaseUrl;
use super::{api, filled, present};
use crate::Shell;
use crate::cli::agent_config::{Agent, AgentConfig};
use crate::error::{Exit, Failure};
use crate::output::{Format, Record};

/// A configuration, as it is printed in the formats that are not its own.
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
    let url = address(shell, input.base_url.as_deref()).await?;
    if input.check {
        let model = match input.model {
            Some(model) => model,
            None => choose(shell).await?.id,
        };
        return Box::pin(check::run(shell, input.agent, &url, &model, input.key_file)).await;
    }
    let (id, model) = if let Some(id) = input.model {
        let mut client = ModelServiceClient::new(shell.connect().await?);
        let answer = client.get_model(GetModelRequest { id: id.clone() }).await?.into_inner();
        // requests may name the model as it was named here, by its alias
        (id, present(answer.model, "model")?)
    } else {
        let model = choose(shell).await?;
        (model.id.clone(), model)
    };
    if !model.abilities.is_empty() && !calls_tools(&model) {
        shell.output.note(&format!("`{id}` is not said to call tools, which agents live by"));
    }
    let target = Target {
        base_url: &url,
        key_env: &input.key_env,
        model: &id,
        name: filled(model.display_name.clone()).unwrap_or_else(|| id.clone()),
        context: model.context_window,
        output: model.max_output_tokens,
        vision: model.abilities().any(|it| it == Ability::Vision),
        reasoning: model.abilities().any(|it| it == Ability::Reasoning),
    };
    let path = configuration::path(input.agent);
    let text = configuration::write(input.agent, &target)?;
    shell.output.note(&format!("this belongs in {path}"));
    if let Some(start) = configuration::start(input.agent, &target) {
        shell.output.note(&start);
    }
    let create =
        format!("export {}=$(ctl key create {} --quiet)", target.key_env, name(input.agent));
    shell.output.note(&format!("it takes its key from the environment: {create}"));
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

/// What an agent is called on the command line.
fn name(agent: Agent) -> String {
    clap::ValueEnum::to_possible_value(&agent)
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}

/// Where clients reach the gateway; says so if that is only a guess.
async fn address(shell: &mut Shell<'_>, given: Option<&str>) -> Result<String, Failure> {
    let BaseUrl { url, is_guess } = api::base_url(given, &shell.gateway()?).await?;
    if is_guess {
        let guess = format!("the API is taken to be at {url}; --base-url URL says otherwise");
        shell.output.note(&guess);
    }
    Ok(url)
}

/// Finds the model of those who name none: the only one, or the first that calls tools.
async fn choose(shell: &mut Shell<'_>) -> Result<Model, Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let mut models = client.list_models(ListModelsRequest {}).await?.into_inner().models;
    let first = models.iter().position(calls_tools).unwrap_or_default();
    if models.is_empty() {
        return Err(Failure::new(Exit::NotFound, "there is no model yet")
            .advise("an operator adds one with `ctl model add`"));
    }
    let model = models.swap_remove(first);
    if !models.is_empty() {
        let chosen =
            format!("chose the model {}; --model ID takes another of `ctl model list`", model.id);
        shell.output.note(&chosen);
    }
    Ok(model)
}

fn calls_tools(model: &Model) -> bool {
    model.abilities().any(|it| it == Ability::Tools)
}

// === impl ConfigurationRecord ===

impl Record for ConfigurationRecord {
    const FIELDS: &'static [&'static str] =
        &["agent", "path", "base_url", "model", "key_env", "configuration"];
    const COLUMNS: &'static [&'static str] = &["agent", "path", "base_url", "model"];
}
