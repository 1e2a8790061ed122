//! Conversion of catalogue models and upstreams.

use proto::v1;

use super::{limits, present, time, to_limits};
use crate::model::catalogue::{Ability, CatalogueModel, Deployment, Modality, Price};
use crate::model::upstreams::{Credential, Deadlines, Profile, Upstream};

pub(in crate::connection) fn catalogue_model(model: v1::Model) -> CatalogueModel {
    let abilities = model.abilities().filter_map(ability).collect();
    let inputs = model.inputs().filter_map(modality).collect();
    let price = model.price.unwrap_or_default();
    CatalogueModel {
        recent: None,
        abilities,
        inputs,
        context: model.context_window,
        max_output: model.max_output_tokens,
        limits: limits(model.limits),
        price: Price {
            input_usd: present(price.input_usd),
            cached_usd: present(price.cached_usd),
            output_usd: present(price.output_usd),
            version: price.version,
        },
        deployments: model.deployments.into_iter().map(deployment).collect(),
        id: model.id,
        display_name: model.display_name,
        description: model.description,
        aliases: model.aliases,
    }
}

fn ability(ability: v1::Ability) -> Option<Ability> {
    match ability {
        v1::Ability::Unspecified => None,
        v1::Ability::Tools => Some(Ability::Tools),
        v1::Ability::Vision => Some(Ability::Vision),
        v1::Ability::Reasoning => Some(Ability::Reasoning),
        v1::Ability::StructuredOutput => Some(Ability::StructuredOutput),
        v1::Ability::Verbosity => Some(Ability::Verbosity),
    }
}

fn modality(modality: v1::Input) -> Option<Modality> {
    match modality {
        v1::Input::Unspecified => None,
        v1::Input::Text => Some(Modality::Text),
        v1::Input::Image => Some(Modality::Image),
        v1::Input::File => Some(Modality::File),
        v1::Input::Audio => Some(Modality::Audio),
    }
}

fn to_modality(modality: Modality) -> v1::Input {
    match modality {
        Modality::Text => v1::Input::Text,
        Modality::Image => v1::Input::Image,
        Modality::File => v1::Input::File,
        Modality::Audio => v1::Input::Audio,
    }
}

fn deployment(deployment: v1::Deployment) -> Deployment {
    let v1::Deployment { upstream, upstream_model, weight, priority } = deployment;
    Deployment { upstream, model: upstream_model, weight, priority }
}

pub(in crate::connection) fn to_model(entry: CatalogueModel) -> v1::Model {
    v1::Model {
        id: entry.id,
        display_name: entry.display_name,
        description: entry.description,
        context_window: entry.context,
        max_output_tokens: entry.max_output,
        limits: Some(to_limits(entry.limits)),
        price: Some(v1::Price {
            input_usd: entry.price.input_usd.unwrap_or_default(),
            cached_usd: entry.price.cached_usd.unwrap_or_default(),
            output_usd: entry.price.output_usd.unwrap_or_default(),
            version: 0,
        }),
        abilities: entry.abilities.into_iter().map(|it| to_ability(it).into()).collect(),
        inputs: entry.inputs.into_iter().map(|it| to_modality(it).into()).collect(),
        aliases: entry.aliases,
        deployments: entry.deployments.into_iter().map(to_deployment).collect(),
        routing: v1::Routing::Unspecified.into(),
        hedge_after_ms: None,
        created_at: None,
    }
}

/// Returns a request with only the fields that differ between `before` and `after`, so that
/// concurrent changes to other fields are kept. Never contains the description, abilities, inputs
/// or aliases.
pub(in crate::connection) fn to_model_change(
    before: &CatalogueModel,
    after: CatalogueModel,
) -> v1::UpdateModelRequest {
    // In an update request, an absent field is unchanged; 0 or an empty string clears it.
    fn new<T: PartialEq + Default>(before: Option<&T>, after: Option<T>) -> Option<T> {
        (before != after.as_ref()).then(|| after.unwrap_or_default())
    }
    let deployments = after.deployments;
    v1::UpdateModelRequest {
        id: after.id,
        display_name: (before.display_name != after.display_name).then_some(after.display_name),
        context_window: new(before.context.as_ref(), after.context),
        max_output_tokens: new(before.max_output.as_ref(), after.max_output),
        limits: Some(v1::Limits {
            rpm: new(before.limits.rpm.as_ref(), after.limits.rpm),
            tpm: new(before.limits.tpm.as_ref(), after.limits.tpm),
            ..v1::Limits::default()
        }),
        input_usd: new(before.price.input_usd.as_ref(), after.price.input_usd),
        cached_usd: new(before.price.cached_usd.as_ref(), after.price.cached_usd),
        output_usd: new(before.price.output_usd.as_ref(), after.price.output_usd),
        deployments: (before.deployments != deployments).then(|| v1::DeploymentList {
            deployments: deployments.into_iter().map(to_deployment).collect(),
        }),
        ..v1::UpdateModelRequest::default()
    }
}

fn to_ability(ability: Ability) -> v1::Ability {
    match ability {
        Ability::Tools => v1::Ability::Tools,
        Ability::Vision => v1::Ability::Vision,
        Ability::Reasoning => v1::Ability::Reasoning,
        Ability::StructuredOutput => v1::Ability::StructuredOutput,
        Ability::Verbosity => v1::Ability::Verbosity,
    }
}

fn to_deployment(deployment: Deployment) -> v1::Deployment {
    let Deployment { upstream, model, weight, priority } = deployment;
    v1::Deployment { upstream, upstream_model: model, weight, priority }
}

/// Converts an upstream without its health, which a separate call returns.
pub(in crate::connection) fn upstream(upstream: v1::Upstream) -> Upstream {
    use v1::credential::Source;
    let profile = match upstream.profile() {
        v1::Profile::Unspecified | v1::Profile::Generic => Profile::Generic,
        v1::Profile::Openai => Profile::OpenAi,
        v1::Profile::Vllm => Profile::Vllm,
        v1::Profile::Llamacpp => Profile::LlamaCpp,
        v1::Profile::Ollama => Profile::Ollama,
        v1::Profile::Sglang => Profile::SgLang,
    };
    let credential = |credential: v1::Credential| match credential.source? {
        Source::Env(name) => Some(Credential::Variable(name)),
        Source::File(path) => Some(Credential::File(path)),
        // Responses contain no `current`.
        Source::Secret(_) | Source::Current(_) => Some(Credential::Sealed),
    };
    Upstream {
        recent: None,
        profile,
        credentials: upstream.credentials.into_iter().filter_map(credential).collect(),
        proxy: present(upstream.proxy),
        proxy_user: upstream.proxy_login.and_then(|login| present(login.user)),
        max_connections: upstream.max_connections.zip(upstream.max_waiting),
        health_check: present(upstream.health_check)
            .map(|path| (path, upstream.health_check_interval_ms.unwrap_or_default()))
            .map(|(path, ms)| (path, u32::try_from(ms).unwrap_or(u32::MAX))),
        deadlines: upstream.deadlines.map(deadlines).unwrap_or_default(),
        problem: present(upstream.problem),
        created_at: time(upstream.created_at),
        health: None,
        name: upstream.name,
        url: upstream.url,
    }
}

pub(in crate::connection) fn to_profile(profile: Profile) -> v1::Profile {
    match profile {
        Profile::Generic => v1::Profile::Generic,
        Profile::OpenAi => v1::Profile::Openai,
        Profile::Vllm => v1::Profile::Vllm,
        Profile::LlamaCpp => v1::Profile::Llamacpp,
        Profile::Ollama => v1::Profile::Ollama,
        Profile::SgLang => v1::Profile::Sglang,
    }
}

fn deadlines(it: v1::Deadlines) -> Deadlines {
    let v1::Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms } = it;
    Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms }
}

pub(in crate::connection) fn to_deadlines(it: Deadlines) -> v1::Deadlines {
    let Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms } = it;
    v1::Deadlines { connect_ms, first_byte_ms, idle_ms, total_ms }
}
