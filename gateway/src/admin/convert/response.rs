//! Converts accounts, sessions, keys, plans, models, upstreams and audit entries to messages.

use std::time::Duration;

use jiff::Timestamp;
use proto::v1;
use secrecy::{ExposeSecret, SecretString};

use crate::control::accounts::AccountView;
use crate::control::audit::AuditView;
use crate::control::invites::InviteView;
use crate::control::keys::KeyView;
use crate::control::routes::{RouteExplanation, RouteStep};
use crate::control::sessions::SessionView;
use crate::control::upstreams::UpstreamView;
use domain::account::{AccountStatus, Role};
use domain::key::{ClientGone, Translation};
use domain::limit::Limits;
use domain::model::{Ability, Deployment, Modality, Model, Routing};
use domain::person::{Person, PersonRole};
use domain::plan::Plan;
use domain::upstream::{CredentialSource, Deadlines, Profile};

pub(in super::super) fn account(view: &AccountView) -> v1::Account {
    let account = &view.account;
    let role = match account.role {
        Role::Member => v1::Role::Member,
        Role::Support => v1::Role::Support,
        Role::Operator => v1::Role::Operator,
        Role::Owner => v1::Role::Owner,
    };
    let status = match account.status {
        AccountStatus::Active => v1::AccountStatus::Active,
        AccountStatus::Suspended => v1::AccountStatus::Suspended,
        AccountStatus::Closed => v1::AccountStatus::Closed,
        AccountStatus::Deleted => v1::AccountStatus::Deleted,
    };
    v1::Account {
        id: account.id.to_string(),
        name: account.name.clone(),
        role: role.into(),
        status: status.into(),
        plan: account.plan.to_string(),
        balance_usd: view.balance.to_string(),
        created_at: Some(time(account.created_at)),
    }
}

/// Converts a person of the account named `account`.
pub(in super::super) fn person(person: &Person, account: String) -> v1::Person {
    let role = match person.role {
        PersonRole::Member => v1::PersonRole::Member,
        PersonRole::Admin => v1::PersonRole::Admin,
    };
    v1::Person {
        id: person.id.to_string(),
        name: person.name.clone(),
        account,
        role: role.into(),
        removed: person.is_removed,
        created_at: Some(time(person.created_at)),
    }
}

pub(in super::super) fn session(view: &SessionView) -> v1::Session {
    v1::Session {
        id: view.session.id.to_string(),
        created_at: Some(time(view.session.created_at)),
        expires_at: Some(time(view.session.expires_at)),
        current: view.current,
    }
}

pub(in super::super) fn invite(view: InviteView) -> v1::Invite {
    let invite = view.invite;
    v1::Invite {
        id: invite.id.to_string(),
        created_by: view.created_by.unwrap_or_default(),
        created_at: Some(time(invite.created_at)),
        expires_at: Some(time(invite.expires_at)),
        plan: invite.plan.map(|plan| plan.to_string()).unwrap_or_default(),
        credit_usd: invite.credit.map(|credit| credit.to_string()).unwrap_or_default(),
        used_at: invite.used.map(|used| time(used.at)),
        used_by: view.used_by.unwrap_or_default(),
    }
}

pub(in super::super) fn audit_entry(view: AuditView) -> v1::AuditEntry {
    v1::AuditEntry {
        id: u64::try_from(view.cursor.0).unwrap_or_default(),
        at: Some(time(view.entry.at)),
        actor: view.actor,
        action: view.entry.action.as_str().to_owned(),
        object: view.entry.object,
        account: view.account,
        details: view.entry.details,
        actor_id: view.entry.actor.map(|id| id.to_string()).unwrap_or_default(),
        address: view.entry.address.map(|address| address.to_string()).unwrap_or_default(),
    }
}

pub(in super::super) fn key(view: KeyView) -> v1::Key {
    let key = view.key;
    let translation = match key.translation {
        Translation::Lenient => v1::Translation::Lenient,
        Translation::Strict => v1::Translation::Strict,
        Translation::OmitHostedTools => v1::Translation::OmitHostedTools,
    };
    let (client_gone, drain_seconds) = match key.client_gone {
        ClientGone::Cancel => (v1::ClientGone::Cancel, 0),
        ClientGone::Drain(limit) => (v1::ClientGone::Drain, limit.as_secs()),
    };
    v1::Key {
        id: key.id.to_string(),
        account: view.account,
        label: key.label,
        limits: Some(limits(&key.limits)),
        models: key.models.iter().map(ToString::to_string).collect(),
        translation: translation.into(),
        client_gone: client_gone.into(),
        drain_seconds,
        created_at: Some(time(key.created_at)),
        last_used_at: view.last_used_at.map(time),
        expires_at: key.expires_at.map(time),
        revoked_at: key.revoked_at.map(time),
        spend_cap_usd: key.spend_cap.map(|cap| cap.to_string()).unwrap_or_default(),
        successor: key.successor.map(|id| id.to_string()).unwrap_or_default(),
        created_by: view.created_by.unwrap_or_default(),
        trace_content: key.trace_content,
    }
}

pub(in super::super) fn plan(plan: &Plan) -> v1::Plan {
    v1::Plan {
        name: plan.name.to_string(),
        trial_credit_usd: plan.trial_credit.to_string(),
        limits: Some(limits(&plan.limits)),
        max_keys: Some(plan.max_keys),
        models: plan.models.iter().map(ToString::to_string).collect(),
    }
}

pub(in super::super) fn model(model: &Model) -> v1::Model {
    let ability = |ability: &Ability| {
        let ability = match ability {
            Ability::Tools => v1::Ability::Tools,
            Ability::Vision => v1::Ability::Vision,
            Ability::Reasoning => v1::Ability::Reasoning,
            Ability::StructuredOutput => v1::Ability::StructuredOutput,
            Ability::Verbosity => v1::Ability::Verbosity,
        };
        ability.into()
    };
    let input = |modality: &Modality| {
        let input = match modality {
            Modality::Text => v1::Input::Text,
            Modality::Image => v1::Input::Image,
            Modality::File => v1::Input::File,
            Modality::Audio => v1::Input::Audio,
        };
        input.into()
    };
    v1::Model {
        id: model.id.to_string(),
        display_name: model.display_name.clone(),
        description: model.description.clone(),
        context_window: model.context_window.map(|tokens| tokens.0),
        max_output_tokens: model.max_output_tokens.map(|tokens| tokens.0),
        limits: Some(limits(&model.limits)),
        price: Some(v1::Price {
            input_usd: model.price.input.to_string(),
            cached_usd: model.price.cached.to_string(),
            output_usd: model.price.output.to_string(),
            version: model.price.version,
        }),
        abilities: model.abilities.iter().map(ability).collect(),
        inputs: model.inputs.iter().map(input).collect(),
        aliases: model.aliases.iter().map(ToString::to_string).collect(),
        deployments: model.deployments.iter().map(deployment).collect(),
        routing: routing(model.routing).into(),
        hedge_after_ms: model.hedge_after.map(whole_millis),
        created_at: Some(time(model.created_at)),
    }
}

fn routing(routing: Routing) -> v1::Routing {
    match routing {
        Routing::Weighted => v1::Routing::Weighted,
        Routing::LeastLoaded => v1::Routing::LeastLoaded,
        Routing::PrefixAffinity => v1::Routing::PrefixAffinity,
    }
}

/// Converts the explanation of a route.
pub(in super::super) fn route(explained: RouteExplanation) -> v1::ExplainRouteResponse {
    let step = |step: RouteStep| v1::RouteStep {
        deployment: Some(deployment(&step.deployment)),
        first_percent: step.first_share.map(|share| share * 100.0),
        in_flight: step.load.in_flight,
        latency_ms: (!step.load.latency.is_zero())
            .then_some(step.load.latency.as_secs_f64() * 1_000.0),
        reason: step.reason.to_string(),
    };
    v1::ExplainRouteResponse {
        model: explained.model.id.to_string(),
        routing: routing(explained.model.routing).into(),
        hedge_after_ms: explained.model.hedge_after.map(whole_millis),
        steps: explained.steps.into_iter().map(step).collect(),
    }
}

fn deployment(deployment: &Deployment) -> v1::Deployment {
    v1::Deployment {
        upstream: deployment.upstream.to_string(),
        upstream_model: deployment.upstream_model.to_string(),
        weight: deployment.weight,
        priority: deployment.priority,
    }
}

/// Converts an upstream. The message contains the source of the credential, never the credential.
pub(in super::super) fn upstream(view: UpstreamView) -> v1::Upstream {
    let upstream = &view.upstream;
    let credentials: Vec<_> = upstream.credentials.iter().map(credential).collect();
    let profile = match upstream.profile {
        Profile::Generic => v1::Profile::Generic,
        Profile::OpenAi => v1::Profile::Openai,
        Profile::Vllm => v1::Profile::Vllm,
        Profile::LlamaCpp => v1::Profile::Llamacpp,
        Profile::Ollama => v1::Profile::Ollama,
        Profile::SgLang => v1::Profile::Sglang,
    };
    v1::Upstream {
        name: upstream.name.to_string(),
        url: upstream.url.clone(),
        credential: credentials.first().cloned(),
        credentials,
        profile: profile.into(),
        deadlines: Some(deadlines(&upstream.deadlines)),
        created_at: Some(time(upstream.created_at)),
        problem: view.problem,
        proxy: upstream.proxy.text().unwrap_or_default().to_owned(),
        proxy_login: upstream.proxy.login().map(|login| v1::ProxyLogin {
            user: login.user.clone(),
            password: Some(credential(&login.password)),
        }),
        ca_certificates: upstream.ca_certificates.clone().unwrap_or_default(),
        client_certificate: upstream.client_certificate.as_ref().map(|it| v1::ClientCertificate {
            chain: it.chain.clone(),
            key: String::new(),
            subject: view.client_subject,
            expires_at: view.client_expires_at.map(time),
        }),
        max_connections: upstream.connection_bound.map(|bound| bound.max_connections),
        max_waiting: upstream.connection_bound.map(|bound| bound.max_waiting),
        health_check: upstream.health_check.as_ref().map(|it| it.path.clone()).unwrap_or_default(),
        health_check_interval_ms: upstream
            .health_check
            .as_ref()
            .map(|it| whole_millis(it.interval)),
    }
}

/// Converts the source of a credential. The message does not contain the credential.
pub(super) fn credential(source: &CredentialSource) -> v1::Credential {
    use v1::credential::Source;

    let source = match source {
        CredentialSource::Env(name) => Source::Env(name.clone()),
        CredentialSource::File(path) => Source::File(path.clone()),
        CredentialSource::Sealed(_) => Source::Secret(String::new()),
    };
    v1::Credential { source: Some(source) }
}

fn deadlines(deadlines: &Deadlines) -> v1::Deadlines {
    v1::Deadlines {
        connect_ms: deadlines.connect.map(whole_millis),
        first_byte_ms: deadlines.first_byte.map(whole_millis),
        idle_ms: deadlines.idle.map(whole_millis),
        total_ms: deadlines.total.map(whole_millis),
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn limits(limits: &Limits) -> v1::Limits {
    v1::Limits {
        rpm: limits.rpm,
        tpm: limits.tpm,
        concurrency: limits.concurrency,
        monthly_tokens: limits.monthly_tokens,
        observe: Some(limits.observe),
    }
}

/// Returns a duration in milliseconds. A single division rounds only once, so that the value prints without spurious
/// digits.
pub(in super::super) fn millis(duration: Duration) -> f64 {
    duration.div_duration_f64(Duration::from_millis(1))
}

pub(in super::super) fn time(time: Timestamp) -> prost_types::Timestamp {
    const PER_SECOND: i128 = 1_000_000_000;

    let nanos = time.as_nanosecond();
    prost_types::Timestamp {
        // Both fit: jiff's years are from -9999 to 9999.
        seconds: i64::try_from(nanos.div_euclid(PER_SECOND)).unwrap_or_default(),
        nanos: i32::try_from(nanos.rem_euclid(PER_SECOND)).unwrap_or_default(),
    }
}

/// Copies a secret into the only response that contains it.
pub(in super::super) fn expose_secret(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    #[test]
    fn milliseconds_have_no_rounding_digits() {
        for (micros, expected) in
            [(1_945, "1.945"), (15_133, "15.133"), (31_743, "31.743"), (2_000, "2"), (0, "0")]
        {
            assert_eq!(super::millis(Duration::from_micros(micros)).to_string(), expected);
        }
    }
}
