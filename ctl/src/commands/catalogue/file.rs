//! The catalogue file format.
//!
//! [`Catalogue::normalize`] alone defines the defaults of absent fields, so that equivalent files
//! compare equal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use crate::commands::non_empty;

/// The gateway's default of `max_keys`.
const DEFAULT_MAX_KEYS: u32 = 100;
/// The gateway's default of `max_waiting`.
const DEFAULT_WAITING: u32 = 100;
/// The gateway's default of `health_check_interval_ms`.
const DEFAULT_HEALTH_CHECK_INTERVAL_MS: u64 = 10_000;

/// Plans, upstreams and models by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Catalogue {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) plans: BTreeMap<String, Plan>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) upstreams: BTreeMap<String, Upstream>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) models: BTreeMap<String, Model>,
}

/// A plan: the trial credit, limits and models of accounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Plan {
    pub(super) trial_credit_usd: Option<String>,
    /// The number of usable keys from which an account can make no more; the gateway's default if absent.
    pub(super) max_keys: Option<u32>,
    /// Model ids; empty allows all models.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) models: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) limits: Limits,
}

/// A chat server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Upstream {
    pub(super) url: String,
    #[serde(default)]
    pub(super) profile: Profile,
    pub(super) connect_ms: Option<u64>,
    pub(super) first_byte_ms: Option<u64>,
    pub(super) idle_ms: Option<u64>,
    pub(super) total_ms: Option<u64>,
    /// The PEM certificates to trust instead of the host's and the public ones.
    pub(super) ca_certificates: Option<String>,
    /// The URL of the proxy through which the gateway connects to the upstream, or `direct`.
    pub(super) proxy: Option<String>,
    /// The login for the proxy.
    pub(super) proxy_login: Option<ProxyLogin>,
    /// The certificate chain that identifies the gateway, in PEM; the gateway alone has its key.
    pub(super) client_certificate: Option<String>,
    pub(super) max_connections: Option<u32>,
    pub(super) max_waiting: Option<u32>,
    /// The path of the health check.
    pub(super) health_check: Option<String>,
    pub(super) health_check_interval_ms: Option<u64>,
    /// The only credential.
    pub(super) credential: Option<Credential>,
    /// Several credentials, which requests use in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) credentials: Vec<Credential>,
}

/// The login for a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProxyLogin {
    pub(super) user: String,
    pub(super) password: Credential,
}

/// The source of a credential; never its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Credential {
    /// Stored encrypted in the gateway.
    Sealed,
    /// An environment variable of the gateway.
    Env(String),
    /// A file on the gateway's host.
    File(String),
}

/// What a server accepts in chat completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Profile {
    #[default]
    Generic,
    Openai,
    Vllm,
    Llamacpp,
    Ollama,
    Sglang,
}

/// An ability of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ability {
    Tools,
    Vision,
    Reasoning,
    StructuredOutput,
    Verbosity,
}

/// A content type of messages that a model accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Input {
    Text,
    Image,
    File,
    Audio,
}

/// How requests are spread over the deployments of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Routing {
    #[default]
    Weighted,
    LeastLoaded,
    PrefixAffinity,
}

/// A model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Model {
    pub(super) display_name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) context_window: Option<u64>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) input_usd: Option<String>,
    pub(super) cached_usd: Option<String>,
    pub(super) output_usd: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) abilities: Vec<Ability>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) inputs: Vec<Input>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) aliases: Vec<String>,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) limits: Limits,
    #[serde(skip_serializing_if = "is_default")]
    pub(super) routing: Routing,
    pub(super) hedge_after_ms: Option<u64>,
    pub(super) deployments: Vec<Deployment>,
}

/// A deployment of a model on an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Deployment {
    pub(super) upstream: String,
    pub(super) upstream_model: Option<String>,
    pub(super) weight: Option<u32>,
    pub(super) priority: Option<u32>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

// === impl Catalogue ===

impl Catalogue {
    /// Fills in defaults and brings values to one form, so that catalogues can be compared.
    ///
    /// Replaces aliases in plans with model ids; aliases are looked up in `current` and in `self`.
    pub(super) fn normalize(&mut self, current: &Self) {
        let ids: BTreeMap<String, String> = [&current.models, &self.models]
            .into_iter()
            .flatten()
            .flat_map(|(id, model)| model.aliases.iter().map(|alias| (alias.clone(), id.clone())))
            .collect();
        for plan in self.plans.values_mut() {
            normalize_amount(&mut plan.trial_credit_usd);
            plan.max_keys.get_or_insert(DEFAULT_MAX_KEYS);
            for name in &mut plan.models {
                if let Some(id) = ids.get(name) {
                    name.clone_from(id);
                }
            }
            sort_dedup(&mut plan.models);
            plan.limits = plan.limits.normalized();
        }
        for upstream in self.upstreams.values_mut() {
            for deadline in [
                &mut upstream.connect_ms,
                &mut upstream.first_byte_ms,
                &mut upstream.idle_ms,
                &mut upstream.total_ms,
            ] {
                *deadline = deadline.filter(|ms| *ms > 0);
            }
            upstream.set_credentials(upstream.all_credentials().cloned().collect());
            upstream.proxy = upstream.proxy.take().and_then(non_empty);
            upstream.ca_certificates = upstream.ca_certificates.take().and_then(non_empty);
            upstream.client_certificate = upstream.client_certificate.take().and_then(non_empty);
            upstream.max_connections = upstream.max_connections.filter(|number| *number > 0);
            if upstream.max_connections.is_some() {
                upstream.max_waiting.get_or_insert(DEFAULT_WAITING);
            }
            upstream.health_check = upstream.health_check.take().and_then(non_empty);
            let interval = &mut upstream.health_check_interval_ms;
            *interval = interval.filter(|ms| *ms > 0);
            if upstream.health_check.is_some() {
                interval.get_or_insert(DEFAULT_HEALTH_CHECK_INTERVAL_MS);
            }
        }
        for (id, model) in &mut self.models {
            model.normalize(id);
        }
    }
}

impl Upstream {
    /// Returns all credentials.
    pub(super) fn all_credentials(&self) -> impl Iterator<Item = &Credential> {
        self.credential.iter().chain(&self.credentials)
    }

    /// Sets all credentials, in the normal form: the only one in `credential`, several in `credentials`.
    pub(super) fn set_credentials(&mut self, mut credentials: Vec<Credential>) {
        self.credential = if credentials.len() == 1 { credentials.pop() } else { None };
        self.credentials = credentials;
    }

    /// Returns how many credentials are stored only in the gateway.
    pub(super) fn sealed_count(&self) -> usize {
        self.all_credentials().filter(|it| **it == Credential::Sealed).count()
    }

    /// Returns the login for the proxy if its password is stored only in the gateway.
    pub(super) fn sealed_proxy_login(&self) -> Option<&ProxyLogin> {
        self.proxy_login.as_ref().filter(|login| login.password == Credential::Sealed)
    }
}

impl Model {
    fn normalize(&mut self, id: &str) {
        for text in [&mut self.display_name, &mut self.description] {
            *text = text.take().and_then(|text| non_empty(text.trim().to_owned()));
        }
        for number in
            [&mut self.context_window, &mut self.max_output_tokens, &mut self.hedge_after_ms]
        {
            *number = number.filter(|number| *number > 0);
        }
        normalize_amount(&mut self.input_usd);
        normalize_amount(&mut self.output_usd);
        // The default price of cached input is that of other input.
        self.cached_usd = self.cached_usd.take().or_else(|| self.input_usd.clone());
        normalize_amount(&mut self.cached_usd);
        sort_dedup(&mut self.abilities);
        sort_dedup(&mut self.inputs);
        sort_dedup(&mut self.aliases);
        self.limits = self.limits.normalized();
        for deployment in &mut self.deployments {
            deployment.upstream_model.get_or_insert_with(|| id.to_owned());
            deployment.weight = Some(deployment.weight.unwrap_or(1).max(1));
            deployment.priority.get_or_insert(0);
        }
    }
}

/// Removes insignificant zeros from an amount of dollars; the default is 0. An invalid amount stays
/// unchanged, and the gateway refuses it.
fn normalize_amount(text: &mut Option<String>) {
    let given = text.as_deref().unwrap_or("0");
    let (whole, part) = given.split_once('.').unwrap_or((given, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) {
        return;
    }
    let (whole, part) = (whole.trim_start_matches('0'), part.trim_end_matches('0'));
    let whole = if whole.is_empty() { "0" } else { whole };
    *text = Some(if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") });
}

fn sort_dedup<T: Ord>(items: &mut Vec<T>) {
    items.sort();
    items.dedup();
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, normalize_amount};

    #[test]
    fn amounts_are_normalized() {
        for (given, form) in [
            (None, "0"),
            (Some("0.10"), "0.1"),
            (Some("007"), "7"),
            (Some("5.000"), "5"),
            (Some("0.0"), "0"),
            (Some(".5"), ".5"),
            (Some("much"), "much"),
        ] {
            let mut text = given.map(str::to_owned);
            normalize_amount(&mut text);
            assert_eq!(text.as_deref(), Some(form), "{given:?}");
        }
    }

    #[test]
    fn equivalent_files_are_equal_after_normalization() {
        let normalized = |text: &str| {
            let mut catalogue: Catalogue = toml::from_str(text).unwrap();
            catalogue.normalize(&Catalogue::default());
            catalogue
        };
        let brief = normalized(
            "[plans.free]\nmodels = ['b', 'fast']\n\
             [upstreams.u]\nurl = 'sim:'\nmax_connections = 4\ncredential = { env = 'A' }\n\
             health_check = '/up'\n\
             [models.a]\ninput_usd = '0.10'\naliases = ['fast']\ndeployments = [{ upstream = 'u' }]\n",
        );
        let explicit = normalized(
            "[plans.free]\ntrial_credit_usd = '0.00'\nmodels = ['a', 'b']\nlimits = { rpm = 0 }\n\
             [upstreams.u]\nurl = 'sim:'\nprofile = 'generic'\nidle_ms = 0\ntotal_ms = 0\n\
             max_connections = 4\nmax_waiting = 100\ncredentials = [{ env = 'A' }]\n\
             health_check = '/up'\nhealth_check_interval_ms = 10000\n\
             [models.a]\ninput_usd = '0.1'\ncached_usd = '0.1'\noutput_usd = '0'\naliases = ['fast']\n\
             display_name = ' '\ncontext_window = 0\n\
             deployments = [{ upstream = 'u', upstream_model = 'a', weight = 1, priority = 0 }]\n",
        );
        assert_eq!(brief, explicit);
    }

    #[test]
    fn unknown_fields_and_values_are_refused() {
        for text in [
            "[plan.free]",
            "[plans.free]\nrpm = 1",
            "[plans.free.limits]\nrpn = 1",
            "[upstreams.u]\nurl = 'sim:'\ncredential = { secret = 'x' }",
            "[models.a]\nabilities = ['flight']\ndeployments = []",
            "[models.a]\ninput_usd = 0.1\ndeployments = []",
        ] {
            assert!(toml::from_str::<Catalogue>(text).is_err(), "{text}");
        }
    }
}
