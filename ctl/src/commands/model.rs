//! `ctl model …`, and the printed form of models.

use proto::v1::model_service_client::ModelServiceClient;
use proto::v1::{
    Ability, AbilityList, AddModelRequest, AliasList, Deployment, DeploymentList, GetModelRequest,
    Input, InputList, ListModelsRequest, Model, Price, RemoveModelRequest, UpdateModelRequest,
};
use serde::Serialize;

use super::limits::LimitFields;
use super::{
    enum_name, non_empty, nothing_to_change, require_listed, required, rfc3339, without_empty,
};
use crate::Shell;
use crate::cli::model::{Add, ModelCommand, Named, Update};
use crate::error::Failure;
use crate::output::Record;

/// A model, as printed.
#[derive(Serialize)]
struct ModelRecord {
    id: String,
    display_name: Option<String>,
    description: Option<String>,
    context_window: Option<u64>,
    max_output_tokens: Option<u64>,
    #[serde(flatten)]
    limits: LimitFields,
    input_usd: Option<String>,
    cached_usd: Option<String>,
    output_usd: Option<String>,
    price_version: Option<u32>,
    abilities: Vec<String>,
    inputs: Vec<String>,
    aliases: Vec<String>,
    deployments: Vec<DeploymentRecord>,
    routing: Option<String>,
    hedge_after_ms: Option<u64>,
    created_at: Option<String>,
}

/// A deployment, as printed.
#[derive(Serialize)]
struct DeploymentRecord {
    upstream: String,
    upstream_model: String,
    weight: u32,
    priority: u32,
}

/// Runs `ctl model …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: ModelCommand) -> Result<(), Failure> {
    match command {
        ModelCommand::List => list(shell).await,
        ModelCommand::Show(input) => show(shell, input).await,
        ModelCommand::Add(input) => add(shell, input).await,
        ModelCommand::Update(input) => update(shell, input).await,
        ModelCommand::Remove(input) => remove(shell, input).await,
    }
}

async fn list(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let answer = client.list_models(ListModelsRequest {}).await?.into_inner();
    let models: Vec<_> = answer.models.into_iter().map(ModelRecord::from).collect();
    shell.output.many(&models)
}

async fn show(shell: &mut Shell<'_>, input: Named) -> Result<(), Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let answer = client.get_model(GetModelRequest { id: input.id }).await?.into_inner();
    shell.output.one(&ModelRecord::from(required(answer.model, "model")?))
}

async fn add(shell: &mut Shell<'_>, input: Add) -> Result<(), Failure> {
    let entry = input.entry;
    let has_price =
        entry.price_in.is_some() || entry.price_cached.is_some() || entry.price_out.is_some();
    let known = |number: Option<u64>| number.filter(|number| *number > 0);
    let model = Model {
        id: input.id,
        display_name: entry.display_name.unwrap_or_default(),
        description: entry.description.unwrap_or_default(),
        context_window: known(entry.context),
        max_output_tokens: known(entry.max_output),
        limits: entry.limits.for_create(),
        price: has_price.then(|| Price {
            input_usd: entry.price_in.unwrap_or_default(),
            cached_usd: entry.price_cached.unwrap_or_default(),
            output_usd: entry.price_out.unwrap_or_default(),
            version: 0,
        }),
        abilities: ability_list(entry.abilities.unwrap_or_default()),
        inputs: input_list(entry.inputs.unwrap_or_default()),
        aliases: without_empty(entry.aliases.unwrap_or_default()),
        deployments: input.deployments,
        routing: entry.routing.unwrap_or_default().into(),
        hedge_after_ms: entry.hedge_after_ms.filter(|millis| *millis > 0),
        created_at: None,
    };
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let answer = client.add_model(AddModelRequest { model: Some(model) }).await?.into_inner();
    shell.output.one(&ModelRecord::from(required(answer.model, "model")?))
}

async fn update(shell: &mut Shell<'_>, input: Update) -> Result<(), Failure> {
    let entry = input.entry;
    let request = UpdateModelRequest {
        id: input.id,
        display_name: entry.display_name,
        description: entry.description,
        context_window: entry.context,
        max_output_tokens: entry.max_output,
        limits: entry.limits.for_update(),
        input_usd: entry.price_in,
        cached_usd: entry.price_cached,
        output_usd: entry.price_out,
        abilities: entry
            .abilities
            .map(|abilities| AbilityList { abilities: ability_list(abilities) }),
        inputs: entry.inputs.map(|inputs| InputList { inputs: input_list(inputs) }),
        aliases: entry.aliases.map(|aliases| AliasList { aliases: without_empty(aliases) }),
        deployments: input.deployments.map(|deployments| DeploymentList { deployments }),
        routing: entry.routing.map(Into::into),
        hedge_after_ms: entry.hedge_after_ms,
    };
    if request == (UpdateModelRequest { id: request.id.clone(), ..UpdateModelRequest::default() }) {
        return Err(nothing_to_change());
    }
    let mut client = ModelServiceClient::new(shell.connect().await?);
    let answer = client.update_model(request).await?.into_inner();
    shell.output.one(&ModelRecord::from(required(answer.model, "model")?))
}

async fn remove(shell: &mut Shell<'_>, input: Named) -> Result<(), Failure> {
    let mut client = ModelServiceClient::new(shell.connect().await?);
    if shell.should_confirm() {
        let models = client.list_models(ListModelsRequest {}).await?.into_inner().models;
        let found = models.into_iter().find(|model| model.id == input.id);
        let Model { id, .. } = require_listed(found, "model", &input.id)?;
        shell.confirm(&format!("Remove model {id}? Requests for it are refused from then on."))?;
    }
    client.remove_model(RemoveModelRequest { id: input.id.clone() }).await?;
    shell.output.note(&format!("removed model {}", input.id));
    Ok(())
}

/// Returns the proto values of abilities, without the empty value that clears the list.
fn ability_list(abilities: Vec<Ability>) -> Vec<i32> {
    abilities.into_iter().filter(|it| *it != Ability::Unspecified).map(Into::into).collect()
}

/// Returns the proto values of inputs, without the empty value that clears the list.
fn input_list(inputs: Vec<Input>) -> Vec<i32> {
    inputs.into_iter().filter(|it| *it != Input::Unspecified).map(Into::into).collect()
}

// === impl ModelRecord ===

impl From<Model> for ModelRecord {
    fn from(model: Model) -> Self {
        let abilities =
            model.abilities().filter_map(|it| enum_name(it.as_str_name(), "ABILITY_")).collect();
        let inputs =
            model.inputs().filter_map(|it| enum_name(it.as_str_name(), "INPUT_")).collect();
        let routing = enum_name(model.routing().as_str_name(), "ROUTING_");
        let price_version = model.price.as_ref().map(|price| price.version);
        let price = model.price.unwrap_or_default();
        Self {
            id: model.id,
            display_name: non_empty(model.display_name),
            description: non_empty(model.description),
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            limits: model.limits.into(),
            input_usd: non_empty(price.input_usd),
            cached_usd: non_empty(price.cached_usd),
            output_usd: non_empty(price.output_usd),
            price_version,
            abilities,
            inputs,
            aliases: model.aliases,
            deployments: model.deployments.into_iter().map(DeploymentRecord::from).collect(),
            routing,
            hedge_after_ms: model.hedge_after_ms,
            created_at: rfc3339(model.created_at),
        }
    }
}

impl From<Deployment> for DeploymentRecord {
    fn from(deployment: Deployment) -> Self {
        Self {
            upstream: deployment.upstream,
            upstream_model: deployment.upstream_model,
            weight: deployment.weight,
            priority: deployment.priority,
        }
    }
}

impl Record for ModelRecord {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "display_name",
        "description",
        "context_window",
        "max_output_tokens",
        "rpm",
        "tpm",
        "concurrency",
        "monthly_tokens",
        "limit_mode",
        "input_usd",
        "cached_usd",
        "output_usd",
        "price_version",
        "abilities",
        "aliases",
        "deployments",
        "created_at",
        "inputs",
        "routing",
        "hedge_after_ms",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "context_window",
        "max_output_tokens",
        "input_usd",
        "cached_usd",
        "output_usd",
        "abilities",
        "deployments",
        "rpm",
        "tpm",
        "concurrency",
    ];

    fn text(&self, field: &str) -> Option<String> {
        let name = |it: &DeploymentRecord| format!("{}:{}", it.upstream, it.upstream_model);
        (field == "deployments")
            .then(|| self.deployments.iter().map(name).collect::<Vec<_>>().join(" "))
    }
}
