//! Models and upstreams.

use proto::v1;

use super::{limits, present, time};
use crate::model::catalogue::{Ability, Deployment, Offer, Price};
use crate::model::upstreams::{Credential, Profile, Upstream};

/// Converts a catalogue entry.
pub(in crate::connection) fn offer(model: v1::Model) -> Offer {
    let abilities = model.abilities().filter_map(ability).collect();
    let price = model.price.unwrap_or_default();
    Offer {
        abilities,
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
    }
}

fn deployment(deployment: v1::Deployment) -> Deployment {
    let v1::Deployment { upstream, upstream_model, weight, priority } = deployment;
    Deployment { upstream, model: upstream_model, weight, priority }
}

/// Converts an upstream; how it does comes from elsewhere.
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
    Upstream {
        profile,
        credential: match upstream.credential.and_then(|credential| credential.source) {
            None => Credential::None,
            Some(Source::Env(name)) => Credential::Variable(name),
            Some(Source::File(path)) => Credential::File(path),
            Some(Source::Secret(_)) => Credential::Sealed,
        },
        problem: present(upstream.problem),
        created_at: time(upstream.created_at),
        health: None,
        name: upstream.name,
        url: upstream.url,
    }
}

/// Converts a dialect back.
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
