//! A catalogue as it is written down.
//!
//! What a field's absence means is settled in one place, [`Catalogue::settle`], so that a file which says
//! less, or says it otherwise, is the same catalogue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use crate::commands::filled;

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

/// What an account is entitled to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Plan {
    pub(super) trial_credit_usd: Option<String>,
    /// By id; none means all.
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
    /// What to trust there instead of the host's certificates and the public ones, in PEM.
    pub(super) ca_certificates: Option<String>,
    pub(super) credential: Option<Credential>,
}

/// Where a credential comes from; never the credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Credential {
    /// The gateway has it stored.
    Sealed,
    /// A variable of the gateway.
    Env(String),
    /// A file on the gateway's host.
    File(String),
}

/// A dialect of chat completions.
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

/// What a model can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ability {
    Tools,
    Vision,
    Reasoning,
    StructuredOutput,
    Verbosity,
}

/// What messages may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Input {
    Text,
    Image,
    File,
    Audio,
}

/// A catalogue entry.
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
    pub(super) deployments: Vec<Deployment>,
}

/// Where a model is served.
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
    /// Brings everything to the form in which it can be compared; names of models may also be known
    /// from `there`.
    pub(super) fn settle(&mut self, there: &Self) {
        let ids: BTreeMap<String, String> = [&there.models, &self.models]
            .into_iter()
            .flatten()
            .flat_map(|(id, model)| model.aliases.iter().map(|alias| (alias.clone(), id.clone())))
            .collect();
        for plan in self.plans.values_mut() {
            amount(&mut plan.trial_credit_usd);
            for name in &mut plan.models {
                if let Some(id) = ids.get(name) {
                    name.clone_from(id);
                }
            }
            sort(&mut plan.models);
            plan.limits = plan.limits.settled();
        }
        for upstream in self.upstreams.values_mut() {
            for deadline in
                [&mut upstream.connect_ms, &mut upstream.first_byte_ms, &mut upstream.idle_ms]
            {
                *deadline = deadline.filter(|ms| *ms > 0);
            }
            upstream.ca_certificates = upstream.ca_certificates.take().and_then(filled);
        }
        for (id, model) in &mut self.models {
            model.settle(id);
        }
    }
}

impl Model {
    fn settle(&mut self, id: &str) {
        for text in [&mut self.display_name, &mut self.description] {
            *text = text.take().and_then(|text| filled(text.trim().to_owned()));
        }
        for tokens in [&mut self.context_window, &mut self.max_output_tokens] {
            *tokens = tokens.filter(|tokens| *tokens > 0);
        }
        amount(&mut self.input_usd);
        amount(&mut self.output_usd);
        // Cached input costs as much as other input, unless it is said.
        self.cached_usd = self.cached_usd.take().or_else(|| self.input_usd.clone());
        amount(&mut self.cached_usd);
        sort(&mut self.abilities);
        sort(&mut self.inputs);
        sort(&mut self.aliases);
        self.limits = self.limits.settled();
        for deployment in &mut self.deployments {
            deployment.upstream_model.get_or_insert_with(|| id.to_owned());
            deployment.weight = Some(deployment.weight.unwrap_or(1).max(1));
            deployment.priority.get_or_insert(0);
        }
    }
}

/// The one form of an amount of dollars: no zeros that say nothing. What is no amount is left for the
/// gateway to refuse.
fn amount(text: &mut Option<String>) {
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

fn sort<T: Ord>(items: &mut Vec<T>) {
    items.sort();
    items.dedup();
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, amount};

    #[test]
    fn amounts_have_one_form() {
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
            amount(&mut text);
            assert_eq!(text.as_deref(), Some(form), "{given:?}");
        }
    }

    #[test]
    fn what_says_less_or_otherwise_is_the_same() {
        let settled = |text: &str| {
            let mut catalogue: Catalogue = toml::from_str(text).unwrap();
            catalogue.settle(&Catalogue::default());
            catalogue
        };
        let brief = settled(
            "[plans.free]\nmodels = ['b', 'fast']\n\
             [upstreams.u]\nurl = 'sim:'\n\
             [models.a]\ninput_usd = '0.10'\naliases = ['fast']\ndeployments = [{ upstream = 'u' }]\n",
        );
        let whole = settled(
            "[plans.free]\ntrial_credit_usd = '0.00'\nmodels = ['a', 'b']\nlimits = { rpm = 0 }\n\
             [upstreams.u]\nurl = 'sim:'\nprofile = 'generic'\nidle_ms = 0\n\
             [models.a]\ninput_usd = '0.1'\ncached_usd = '0.1'\noutput_usd = '0'\naliases = ['fast']\n\
             display_name = ' '\ncontext_window = 0\n\
             deployments = [{ upstream = 'u', upstream_model = 'a', weight = 1, priority = 0 }]\n",
        );
        assert_eq!(brief, whole);
    }

    #[test]
    fn what_is_not_known_is_refused() {
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
