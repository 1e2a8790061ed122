//! Converts requests that create or change plans, models and upstreams.

use std::time::Duration;

use jiff::Timestamp;
use proto::v1;

use crate::control::audit::AuditQuery;
use crate::control::invites::InviteRequest;
use crate::control::models::{CachedPrice, ModelChange, NewDeployment};
use crate::control::plans::NewPlan;
use crate::control::upstreams::{
    NewClientCertificate, NewCredential, NewProxyLogin, UpstreamChange,
};
use domain::ValidationError;
use domain::account::Role;
use domain::id::{ModelId, PlanName, UpstreamName};
use domain::limit::Limits;
use domain::model::{Ability, Modality, Routing};
use domain::money::Nanos;
use domain::person::PersonRole;
use domain::upstream::{Deadlines, Profile};

pub(in super::super) fn role(number: i32) -> Result<Role, ValidationError> {
    match v1::Role::try_from(number) {
        Ok(v1::Role::Member) => Ok(Role::Member),
        Ok(v1::Role::Support) => Ok(Role::Support),
        Ok(v1::Role::Operator) => Ok(Role::Operator),
        Ok(v1::Role::Owner) => Ok(Role::Owner),
        Ok(v1::Role::Unspecified) => Err(missing("role")),
        Err(_) => Err(unknown("role", number)),
    }
}

pub(in super::super) fn person_role(number: i32) -> Result<PersonRole, ValidationError> {
    match v1::PersonRole::try_from(number) {
        Ok(v1::PersonRole::Member) => Ok(PersonRole::Member),
        Ok(v1::PersonRole::Admin) => Ok(PersonRole::Admin),
        Ok(v1::PersonRole::Unspecified) => Err(missing("role")),
        Err(_) => Err(unknown("role", number)),
    }
}

pub(in super::super) fn audit_filter(
    account: String,
    since: Option<prost_types::Timestamp>,
    until: Option<prost_types::Timestamp>,
) -> Result<AuditQuery, ValidationError> {
    Ok(AuditQuery {
        account: (!account.is_empty()).then_some(account),
        since: since.map(|since| time("since", &since)).transpose()?,
        until: until.map(|until| time("until", &until)).transpose()?,
    })
}

pub(in super::super) fn invite_request(
    request: v1::CreateInviteRequest,
) -> Result<InviteRequest, ValidationError> {
    let v1::CreateInviteRequest { ttl_seconds, plan, credit_usd } = request;
    let credit = (!credit_usd.is_empty()).then(|| amount("credit_usd", &credit_usd)).transpose()?;
    let plan = (!plan.is_empty()).then_some(plan);
    Ok(InviteRequest { lifetime: Duration::from_secs(ttl_seconds), plan, credit })
}

pub(in super::super) fn new_plan(plan: Option<v1::Plan>) -> Result<NewPlan, ValidationError> {
    let plan = plan.ok_or_else(|| missing("plan"))?;
    Ok(NewPlan {
        name: PlanName::parse(&plan.name)?,
        trial_credit: price("trial_credit_usd", &plan.trial_credit_usd)?,
        limits: limits(plan.limits),
        max_keys: plan.max_keys,
        models: plan.models,
    })
}

pub(in super::super) fn new_model(
    model: Option<v1::Model>,
) -> Result<(ModelId, ModelChange), ValidationError> {
    let model = model.ok_or_else(|| missing("model"))?;
    let prices = model.price.unwrap_or_default();
    let change = ModelChange {
        display_name: Some(model.display_name),
        description: Some(model.description),
        context_window: model.context_window,
        max_output_tokens: model.max_output_tokens,
        observe_limits: observe(model.limits.as_ref()),
        limits: limits(model.limits),
        input: Some(price("price.input_usd", &prices.input_usd)?),
        cached: Some(cached_price("price.cached_usd", &prices.cached_usd)?),
        output: Some(price("price.output_usd", &prices.output_usd)?),
        abilities: Some(abilities(&model.abilities)?),
        inputs: Some(inputs(&model.inputs)?),
        aliases: Some(aliases(&model.aliases)?),
        deployments: Some(deployments(model.deployments)?),
        routing: Some(routing(model.routing)?),
        hedge_after_ms: model.hedge_after_ms,
    };
    Ok((ModelId::parse("id", &model.id)?, change))
}

pub(in super::super) fn model_change(
    request: v1::UpdateModelRequest,
) -> Result<(String, ModelChange), ValidationError> {
    let price = |field, text: Option<String>| text.map(|text| price(field, &text)).transpose();
    let change = ModelChange {
        display_name: request.display_name,
        description: request.description,
        context_window: request.context_window,
        max_output_tokens: request.max_output_tokens,
        observe_limits: observe(request.limits.as_ref()),
        limits: limits(request.limits),
        input: price("input_usd", request.input_usd)?,
        cached: request.cached_usd.map(|text| cached_price("cached_usd", &text)).transpose()?,
        output: price("output_usd", request.output_usd)?,
        abilities: request.abilities.map(|list| abilities(&list.abilities)).transpose()?,
        inputs: request.inputs.map(|list| inputs(&list.inputs)).transpose()?,
        aliases: request.aliases.map(|list| aliases(&list.aliases)).transpose()?,
        deployments: request.deployments.map(|list| deployments(list.deployments)).transpose()?,
        routing: request.routing.map(routing).transpose()?,
        hedge_after_ms: request.hedge_after_ms,
    };
    Ok((request.id, change))
}

fn abilities(numbers: &[i32]) -> Result<Vec<Ability>, ValidationError> {
    let ability = |&number: &i32| match v1::Ability::try_from(number) {
        Ok(v1::Ability::Tools) => Ok(Ability::Tools),
        Ok(v1::Ability::Vision) => Ok(Ability::Vision),
        Ok(v1::Ability::Reasoning) => Ok(Ability::Reasoning),
        Ok(v1::Ability::StructuredOutput) => Ok(Ability::StructuredOutput),
        Ok(v1::Ability::Verbosity) => Ok(Ability::Verbosity),
        Ok(v1::Ability::Unspecified) | Err(_) => Err(unknown("abilities", number)),
    };
    numbers.iter().map(ability).collect()
}

fn inputs(numbers: &[i32]) -> Result<Vec<Modality>, ValidationError> {
    let modality = |&number: &i32| match v1::Input::try_from(number) {
        Ok(v1::Input::Text) => Ok(Modality::Text),
        Ok(v1::Input::Image) => Ok(Modality::Image),
        Ok(v1::Input::File) => Ok(Modality::File),
        Ok(v1::Input::Audio) => Ok(Modality::Audio),
        Ok(v1::Input::Unspecified) | Err(_) => Err(unknown("inputs", number)),
    };
    numbers.iter().map(modality).collect()
}

fn routing(number: i32) -> Result<Routing, ValidationError> {
    match v1::Routing::try_from(number) {
        Ok(v1::Routing::Unspecified | v1::Routing::Weighted) => Ok(Routing::Weighted),
        Ok(v1::Routing::LeastLoaded) => Ok(Routing::LeastLoaded),
        Ok(v1::Routing::PrefixAffinity) => Ok(Routing::PrefixAffinity),
        Err(_) => Err(unknown("routing", number)),
    }
}

fn aliases(aliases: &[String]) -> Result<Vec<ModelId>, ValidationError> {
    aliases.iter().map(|alias| ModelId::parse("aliases", alias)).collect()
}

fn deployments(list: Vec<v1::Deployment>) -> Result<Vec<NewDeployment>, ValidationError> {
    let convert = |deployment: v1::Deployment| {
        Ok(NewDeployment {
            upstream: UpstreamName::parse(&deployment.upstream)?,
            upstream_model: deployment.upstream_model,
            weight: deployment.weight,
            priority: deployment.priority,
        })
    };
    list.into_iter().map(convert).collect()
}

pub(in super::super) fn new_upstream(
    upstream: Option<v1::Upstream>,
) -> Result<(UpstreamName, UpstreamChange), ValidationError> {
    let upstream = upstream.ok_or_else(|| missing("upstream"))?;
    let change = UpstreamChange {
        url: Some(upstream.url),
        credentials: if upstream.credentials.is_empty() {
            upstream.credential.map(only_credential).transpose()?
        } else {
            Some(credentials(upstream.credentials)?)
        },
        profile: Some(profile(upstream.profile)?),
        deadlines: deadlines(upstream.deadlines),
        proxy: Some(upstream.proxy).filter(|url| !url.is_empty()),
        proxy_login: upstream.proxy_login.map(proxy_login).transpose()?,
        ca_certificates: Some(upstream.ca_certificates).filter(|pem| !pem.is_empty()),
        client_certificate: upstream.client_certificate.map(client_certificate),
        max_connections: upstream.max_connections,
        max_waiting: upstream.max_waiting,
        health_check: Some(upstream.health_check).filter(|path| !path.is_empty()),
        health_check_interval: upstream.health_check_interval_ms.map(Duration::from_millis),
    };
    Ok((UpstreamName::parse(&upstream.name)?, change))
}

pub(in super::super) fn upstream_change(
    request: v1::UpdateUpstreamRequest,
) -> Result<(String, UpstreamChange), ValidationError> {
    let change = UpstreamChange {
        url: request.url,
        credentials: match request.credentials {
            Some(list) => Some(credentials(list.credentials)?),
            None => request.credential.map(only_credential).transpose()?,
        },
        profile: request.profile.map(profile).transpose()?,
        deadlines: deadlines(request.deadlines),
        proxy: request.proxy,
        proxy_login: request.proxy_login.map(proxy_login).transpose()?,
        ca_certificates: request.ca_certificates,
        client_certificate: request.client_certificate.map(client_certificate),
        max_connections: request.max_connections,
        max_waiting: request.max_waiting,
        health_check: request.health_check,
        health_check_interval: request.health_check_interval_ms.map(Duration::from_millis),
    };
    Ok((request.name, change))
}

/// Converts the only credential of an upstream; without a source, the upstream has none.
fn only_credential(credential: v1::Credential) -> Result<Vec<NewCredential>, ValidationError> {
    match credential.source {
        None => Ok(Vec::new()),
        Some(_) => credentials(vec![credential]),
    }
}

fn credentials(list: Vec<v1::Credential>) -> Result<Vec<NewCredential>, ValidationError> {
    list.into_iter().map(|it| credential("credentials.source", it)).collect()
}

fn credential(
    field: &'static str,
    credential: v1::Credential,
) -> Result<NewCredential, ValidationError> {
    use v1::credential::Source;

    match credential.source {
        None => Err(missing(field)),
        Some(Source::Env(name)) => Ok(NewCredential::Env(name)),
        Some(Source::File(path)) => Ok(NewCredential::File(path)),
        Some(Source::Secret(secret)) => Ok(NewCredential::Secret(secret.into())),
        Some(Source::Current(number)) => Ok(NewCredential::Current(number)),
    }
}

fn proxy_login(login: v1::ProxyLogin) -> Result<NewProxyLogin, ValidationError> {
    let password = login.password.map(|it| credential("proxy_login.password.source", it));
    Ok(NewProxyLogin { user: login.user, password: password.transpose()? })
}

fn client_certificate(certificate: v1::ClientCertificate) -> NewClientCertificate {
    let key = (!certificate.key.is_empty()).then(|| certificate.key.into());
    NewClientCertificate { chain: certificate.chain, key }
}

fn profile(number: i32) -> Result<Profile, ValidationError> {
    match v1::Profile::try_from(number) {
        Ok(v1::Profile::Unspecified | v1::Profile::Generic) => Ok(Profile::Generic),
        Ok(v1::Profile::Openai) => Ok(Profile::OpenAi),
        Ok(v1::Profile::Vllm) => Ok(Profile::Vllm),
        Ok(v1::Profile::Llamacpp) => Ok(Profile::LlamaCpp),
        Ok(v1::Profile::Ollama) => Ok(Profile::Ollama),
        Ok(v1::Profile::Sglang) => Ok(Profile::SgLang),
        Err(_) => Err(unknown("profile", number)),
    }
}

fn deadlines(deadlines: Option<v1::Deadlines>) -> Deadlines {
    let deadlines = deadlines.unwrap_or_default();
    Deadlines {
        connect: deadlines.connect_ms.map(Duration::from_millis),
        first_byte: deadlines.first_byte_ms.map(Duration::from_millis),
        idle: deadlines.idle_ms.map(Duration::from_millis),
        total: deadlines.total_ms.map(Duration::from_millis),
    }
}

/// Returns the requested observe mode of `limits`; `None` if it is absent.
pub(super) fn observe(limits: Option<&v1::Limits>) -> Option<bool> {
    limits.and_then(|limits| limits.observe)
}

pub(super) fn limits(limits: Option<v1::Limits>) -> Limits {
    let limits = limits.unwrap_or_default();
    Limits {
        rpm: limits.rpm,
        tpm: limits.tpm,
        concurrency: limits.concurrency,
        monthly_tokens: limits.monthly_tokens,
        observe: limits.observe(),
    }
}

/// Parses an amount of money in US dollars.
pub(in super::super) fn amount(field: &'static str, text: &str) -> Result<Nanos, ValidationError> {
    let error = |error| ValidationError::new(field, format!("`{field}` is {error}"));
    text.trim().parse().map_err(error)
}

/// Parses an optional amount of money in US dollars; empty means `None`.
pub(super) fn optional_amount(
    field: &'static str,
    text: &str,
) -> Result<Option<Nanos>, ValidationError> {
    (!text.is_empty()).then(|| amount(field, text)).transpose()
}

/// Parses a price in US dollars; empty means free of charge.
fn price(field: &'static str, text: &str) -> Result<Nanos, ValidationError> {
    if text.is_empty() { Ok(Nanos::ZERO) } else { amount(field, text) }
}

/// Parses the price of cached input in US dollars; empty means the price of uncached input.
fn cached_price(field: &'static str, text: &str) -> Result<CachedPrice, ValidationError> {
    if text.is_empty() {
        return Ok(CachedPrice::LikeInput);
    }
    amount(field, text).map(CachedPrice::Own)
}

pub(super) fn time(
    field: &'static str,
    time: &prost_types::Timestamp,
) -> Result<Timestamp, ValidationError> {
    Timestamp::new(time.seconds, time.nanos)
        .map_err(|_| ValidationError::new(field, format!("`{field}` is not a time")))
}

pub(super) fn unknown(field: &'static str, number: i32) -> ValidationError {
    ValidationError::new(
        field,
        format!("`{field}` has the value `{number}`, which this gateway does not know"),
    )
}

fn missing(field: &'static str) -> ValidationError {
    ValidationError::new(field, format!("`{field}` is required"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_field_with_the_unknown_value() {
        assert_eq!(abilities(&[1, 9]).unwrap_err().field, "abilities");
        assert_eq!(profile(99).unwrap_err().field, "profile");
        assert_eq!(profile(0), Ok(Profile::Generic));
        let time = prost_types::Timestamp { seconds: i64::MAX, nanos: -7 };
        assert_eq!(super::time("since", &time).unwrap_err().field, "since");
        assert_eq!(amount("amount_usd", "1e3").unwrap_err().field, "amount_usd");
        assert_eq!(price("price.input_usd", ""), Ok(Nanos::ZERO));
        assert_eq!(new_model(None).unwrap_err().field, "model");
    }

    #[test]
    fn timestamps_round_trip() {
        for text in ["2026-11-20T10:00:00.123456789Z", "1969-12-31T23:59:59.5Z"] {
            let expected: Timestamp = text.parse().unwrap();
            assert_eq!(super::time("t", &super::super::time(expected)), Ok(expected));
        }
    }
}
