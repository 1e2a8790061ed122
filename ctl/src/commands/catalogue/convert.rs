//! Conversions between catalogue entries and the admin API's proto types.

use proto::v1;
use proto::v1::credential::Source;

use super::file::{
    Ability, Credential, Deployment, Input, Model, Plan, Profile, ProxyLogin, Routing, Upstream,
};
use crate::commands::non_empty;

// === from proto ===

impl From<v1::Plan> for Plan {
    fn from(plan: v1::Plan) -> Self {
        Self {
            trial_credit_usd: non_empty(plan.trial_credit_usd),
            max_keys: plan.max_keys,
            models: plan.models,
            limits: plan.limits.unwrap_or_default().into(),
        }
    }
}

impl From<v1::Upstream> for Upstream {
    fn from(upstream: v1::Upstream) -> Self {
        let deadlines = upstream.deadlines.unwrap_or_default();
        let credentials = upstream.credentials.iter().cloned().filter_map(credential).collect();
        let mut upstream = Self {
            profile: match upstream.profile() {
                v1::Profile::Unspecified | v1::Profile::Generic => Profile::Generic,
                v1::Profile::Openai => Profile::Openai,
                v1::Profile::Vllm => Profile::Vllm,
                v1::Profile::Llamacpp => Profile::Llamacpp,
                v1::Profile::Ollama => Profile::Ollama,
                v1::Profile::Sglang => Profile::Sglang,
            },
            url: upstream.url,
            connect_ms: deadlines.connect_ms,
            first_byte_ms: deadlines.first_byte_ms,
            idle_ms: deadlines.idle_ms,
            total_ms: deadlines.total_ms,
            proxy: non_empty(upstream.proxy),
            proxy_login: upstream.proxy_login.and_then(|login| {
                Some(ProxyLogin { user: login.user, password: credential(login.password?)? })
            }),
            ca_certificates: non_empty(upstream.ca_certificates),
            client_certificate: upstream.client_certificate.and_then(|it| non_empty(it.chain)),
            max_connections: upstream.max_connections,
            max_waiting: upstream.max_waiting,
            health_check: non_empty(upstream.health_check),
            health_check_interval_ms: upstream.health_check_interval_ms,
            credential: None,
            credentials: Vec::new(),
        };
        upstream.set_credentials(credentials);
        upstream
    }
}

fn credential(credential: v1::Credential) -> Option<Credential> {
    match credential.source? {
        Source::Env(name) => Some(Credential::Env(name)),
        Source::File(path) => Some(Credential::File(path)),
        // Responses contain no `current`.
        Source::Secret(_) | Source::Current(_) => Some(Credential::Sealed),
    }
}

impl From<v1::Model> for Model {
    fn from(model: v1::Model) -> Self {
        let ability = |ability| match ability {
            v1::Ability::Unspecified => None,
            v1::Ability::Tools => Some(Ability::Tools),
            v1::Ability::Vision => Some(Ability::Vision),
            v1::Ability::Reasoning => Some(Ability::Reasoning),
            v1::Ability::StructuredOutput => Some(Ability::StructuredOutput),
            v1::Ability::Verbosity => Some(Ability::Verbosity),
        };
        let input = |input| match input {
            v1::Input::Unspecified => None,
            v1::Input::Text => Some(Input::Text),
            v1::Input::Image => Some(Input::Image),
            v1::Input::File => Some(Input::File),
            v1::Input::Audio => Some(Input::Audio),
        };
        let inputs = model.inputs().filter_map(input).collect();
        let routing = match model.routing() {
            v1::Routing::Unspecified | v1::Routing::Weighted => Routing::Weighted,
            v1::Routing::LeastLoaded => Routing::LeastLoaded,
            v1::Routing::PrefixAffinity => Routing::PrefixAffinity,
        };
        let abilities = model.abilities().filter_map(ability).collect();
        let price = model.price.unwrap_or_default();
        Self {
            display_name: non_empty(model.display_name),
            description: non_empty(model.description),
            context_window: model.context_window,
            max_output_tokens: model.max_output_tokens,
            input_usd: non_empty(price.input_usd),
            cached_usd: non_empty(price.cached_usd),
            output_usd: non_empty(price.output_usd),
            abilities,
            inputs,
            aliases: model.aliases,
            limits: model.limits.unwrap_or_default().into(),
            routing,
            hedge_after_ms: model.hedge_after_ms,
            deployments: model
                .deployments
                .into_iter()
                .map(|it| Deployment {
                    upstream: it.upstream,
                    upstream_model: non_empty(it.upstream_model),
                    weight: Some(it.weight),
                    priority: Some(it.priority),
                })
                .collect(),
        }
    }
}

// === to proto ===

impl From<Profile> for v1::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Generic => Self::Generic,
            Profile::Openai => Self::Openai,
            Profile::Vllm => Self::Vllm,
            Profile::Llamacpp => Self::Llamacpp,
            Profile::Ollama => Self::Ollama,
            Profile::Sglang => Self::Sglang,
        }
    }
}

impl From<Routing> for v1::Routing {
    fn from(routing: Routing) -> Self {
        match routing {
            Routing::Weighted => Self::Weighted,
            Routing::LeastLoaded => Self::LeastLoaded,
            Routing::PrefixAffinity => Self::PrefixAffinity,
        }
    }
}

impl From<Ability> for v1::Ability {
    fn from(ability: Ability) -> Self {
        match ability {
            Ability::Tools => Self::Tools,
            Ability::Vision => Self::Vision,
            Ability::Reasoning => Self::Reasoning,
            Ability::StructuredOutput => Self::StructuredOutput,
            Ability::Verbosity => Self::Verbosity,
        }
    }
}

impl From<Input> for v1::Input {
    fn from(input: Input) -> Self {
        match input {
            Input::Text => Self::Text,
            Input::Image => Self::Image,
            Input::File => Self::File,
            Input::Audio => Self::Audio,
        }
    }
}

impl From<ProxyLogin> for v1::ProxyLogin {
    /// Leaves a sealed password out, which means the one that the gateway stores.
    fn from(login: ProxyLogin) -> Self {
        let source = match login.password {
            Credential::Sealed => None,
            Credential::Env(name) => Some(Source::Env(name)),
            Credential::File(path) => Some(Source::File(path)),
        };
        let password = source.map(|source| v1::Credential { source: Some(source) });
        Self { user: login.user, password }
    }
}

impl From<Deployment> for v1::Deployment {
    fn from(deployment: Deployment) -> Self {
        Self {
            upstream: deployment.upstream,
            upstream_model: deployment.upstream_model.unwrap_or_default(),
            weight: deployment.weight.unwrap_or_default(),
            priority: deployment.priority.unwrap_or_default(),
        }
    }
}

// === create and update requests ===

impl Plan {
    pub(super) fn to_proto(&self, name: &str) -> v1::Plan {
        v1::Plan {
            name: name.to_owned(),
            trial_credit_usd: self.trial_credit_usd.clone().unwrap_or_default(),
            limits: Some(self.limits.clone().into()),
            max_keys: self.max_keys,
            models: self.models.clone(),
        }
    }
}

impl Upstream {
    pub(super) fn to_proto(&self, name: &str) -> v1::Upstream {
        v1::Upstream {
            name: name.to_owned(),
            url: self.url.clone(),
            credentials: self.credential_list(None).credentials,
            profile: v1::Profile::from(self.profile).into(),
            deadlines: Some(v1::Deadlines {
                connect_ms: self.connect_ms,
                first_byte_ms: self.first_byte_ms,
                idle_ms: self.idle_ms,
                total_ms: self.total_ms,
            }),
            proxy: self.proxy.clone().unwrap_or_default(),
            proxy_login: self.proxy_login.clone().map(Into::into),
            ca_certificates: self.ca_certificates.clone().unwrap_or_default(),
            client_certificate: self.client_certificate.clone().map(client_certificate),
            max_connections: self.max_connections,
            max_waiting: self.max_waiting,
            health_check: self.health_check.clone().unwrap_or_default(),
            health_check_interval_ms: self.health_check_interval_ms,
            ..v1::Upstream::default()
        }
    }

    pub(super) fn update_from(&self, name: &str, before: &Self) -> v1::UpdateUpstreamRequest {
        v1::UpdateUpstreamRequest {
            name: name.to_owned(),
            url: changed(&before.url, &self.url),
            credential: None,
            credentials: (!self.all_credentials().eq(before.all_credentials()))
                .then(|| self.credential_list(Some(before))),
            profile: changed(&before.profile, &self.profile)
                .map(|profile| v1::Profile::from(profile).into()),
            deadlines: Some(v1::Deadlines {
                connect_ms: changed_number(before.connect_ms, self.connect_ms),
                first_byte_ms: changed_number(before.first_byte_ms, self.first_byte_ms),
                idle_ms: changed_number(before.idle_ms, self.idle_ms),
                total_ms: changed_number(before.total_ms, self.total_ms),
            }),
            proxy: changed_text(before.proxy.as_deref(), self.proxy.as_deref()),
            // Without a user, the login is removed.
            proxy_login: changed(&before.proxy_login, &self.proxy_login)
                .map(|login| login.map(Into::into).unwrap_or_default()),
            ca_certificates: changed_text(
                before.ca_certificates.as_deref(),
                self.ca_certificates.as_deref(),
            ),
            client_certificate: changed_text(
                before.client_certificate.as_deref(),
                self.client_certificate.as_deref(),
            )
            .map(client_certificate),
            max_connections: changed(&before.max_connections, &self.max_connections)
                .map(Option::unwrap_or_default),
            // Without connections to wait for, it goes with them.
            max_waiting: self.max_waiting.filter(|_| before.max_waiting != self.max_waiting),
            health_check: changed_text(
                before.health_check.as_deref(),
                self.health_check.as_deref(),
            ),
            health_check_interval_ms: changed_number(
                before.health_check_interval_ms,
                self.health_check_interval_ms,
            ),
        }
    }

    /// Returns the credentials. The sealed ones are those that the gateway stores for `before`, in
    /// the same order; `check_sealed` verified that there are as many.
    fn credential_list(&self, before: Option<&Self>) -> v1::CredentialList {
        let stored = (1..).zip(before.into_iter().flat_map(Self::all_credentials));
        let mut stored = stored.filter(|(_, credential)| **credential == Credential::Sealed);
        let sources = self.all_credentials().filter_map(|credential| match credential {
            Credential::Sealed => stored.next().map(|(number, _)| Source::Current(number)),
            Credential::Env(name) => Some(Source::Env(name.clone())),
            Credential::File(path) => Some(Source::File(path.clone())),
        });
        let credentials = sources.map(|source| v1::Credential { source: Some(source) });
        v1::CredentialList { credentials: credentials.collect() }
    }
}

impl Model {
    pub(super) fn to_proto(&self, id: &str) -> v1::Model {
        v1::Model {
            id: id.to_owned(),
            display_name: self.display_name.clone().unwrap_or_default(),
            description: self.description.clone().unwrap_or_default(),
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            limits: Some(self.limits.clone().into()),
            price: Some(v1::Price {
                input_usd: self.input_usd.clone().unwrap_or_default(),
                cached_usd: self.cached_usd.clone().unwrap_or_default(),
                output_usd: self.output_usd.clone().unwrap_or_default(),
                version: 0,
            }),
            abilities: self.ability_list().abilities,
            inputs: self.input_list().inputs,
            aliases: self.aliases.clone(),
            deployments: self.deployment_list().deployments,
            routing: v1::Routing::from(self.routing).into(),
            hedge_after_ms: self.hedge_after_ms.filter(|millis| *millis > 0),
            created_at: None,
        }
    }

    pub(super) fn update_from(&self, id: &str, before: &Self) -> v1::UpdateModelRequest {
        v1::UpdateModelRequest {
            id: id.to_owned(),
            display_name: changed_text(
                before.display_name.as_deref(),
                self.display_name.as_deref(),
            ),
            description: changed_text(before.description.as_deref(), self.description.as_deref()),
            context_window: changed_number(before.context_window, self.context_window),
            max_output_tokens: changed_number(before.max_output_tokens, self.max_output_tokens),
            limits: Some(self.limits.update_from(&before.limits)),
            input_usd: changed_text(before.input_usd.as_deref(), self.input_usd.as_deref()),
            cached_usd: changed_text(before.cached_usd.as_deref(), self.cached_usd.as_deref()),
            output_usd: changed_text(before.output_usd.as_deref(), self.output_usd.as_deref()),
            abilities: (before.abilities != self.abilities).then(|| self.ability_list()),
            inputs: (before.inputs != self.inputs).then(|| self.input_list()),
            aliases: changed(&before.aliases, &self.aliases)
                .map(|aliases| v1::AliasList { aliases }),
            deployments: (before.deployments != self.deployments).then(|| self.deployment_list()),
            routing: changed(&before.routing, &self.routing)
                .map(|routing| v1::Routing::from(routing).into()),
            hedge_after_ms: changed_number(before.hedge_after_ms, self.hedge_after_ms),
        }
    }

    fn ability_list(&self) -> v1::AbilityList {
        let abilities = self.abilities.iter().map(|it| v1::Ability::from(*it).into()).collect();
        v1::AbilityList { abilities }
    }

    fn input_list(&self) -> v1::InputList {
        let inputs = self.inputs.iter().map(|it| v1::Input::from(*it).into()).collect();
        v1::InputList { inputs }
    }

    fn deployment_list(&self) -> v1::DeploymentList {
        let deployments = self.deployments.iter().cloned().map(Into::into).collect();
        v1::DeploymentList { deployments }
    }
}

/// Returns a certificate whose key is stored in the gateway.
fn client_certificate(chain: String) -> v1::ClientCertificate {
    v1::ClientCertificate { chain, ..v1::ClientCertificate::default() }
}

/// Returns the new value if it differs.
fn changed<T: PartialEq + Clone>(before: &T, after: &T) -> Option<T> {
    (before != after).then(|| after.clone())
}

/// Returns the new number if it differs; 0 if it is now absent, as the admin API requires.
fn changed_number(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    changed(&before, &after).map(Option::unwrap_or_default)
}

/// Returns the new text if it differs; empty if it is now absent, as the admin API requires.
fn changed_text(before: Option<&str>, after: Option<&str>) -> Option<String> {
    (before != after).then(|| after.unwrap_or_default().to_owned())
}
