//! Descriptions of changes for the audit log: each changed field with its old and new value.
//!
//! Field names are those of the admin API. Each implementation destructures its type without `..`,
//! so that a new field does not compile until the audit log handles it. Values must not contain
//! secrets.

use std::fmt::Write;
use std::time::Duration;

use super::key::{ClientGone, Key, Translation};
use super::limit::Limits;
use super::model::{Ability, Deployment, Modality, Model, Routing};
use super::plan::Plan;
use super::price::Price;
use super::upstream::{CredentialSource, Deadlines, Profile, Upstream};

/// The maximum length of a value, in characters; longer values are truncated.
const MAX_VALUE_CHARS: usize = 200;

/// The description of a change without any changed field.
pub const NO_CHANGE: &str = "no change";

/// A field's name and its value as text; `None` if it is not set.
pub type Field = (&'static str, Option<String>);

/// An object whose changes are audited.
pub trait Audited {
    /// Returns all fields except the object's name or id.
    ///
    /// Invariant: always the same fields in the same order.
    fn audited_fields(&self) -> Vec<Field>;
}

/// Describes an object that is added or removed by its set fields: `input_usd: 1, rpm: 60`.
pub fn describe(object: &impl Audited) -> String {
    let set = object.audited_fields().into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("{name}: {value}"))
    });
    set.collect::<Vec<_>>().join(", ")
}

/// Describes the changed fields between two states of an object: `input_usd: 1 -> 2, rpm: none ->
/// 60`.
pub fn describe_changes<T: Audited>(before: &T, after: &T) -> String {
    let fields = before.audited_fields().into_iter().zip(after.audited_fields());
    let differing =
        fields.filter(|(before, after)| before != after).map(|((name, before), (_, after))| {
            let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            format!("{name}: {} -> {}", text(before), text(after))
        });
    let differing: Vec<_> = differing.collect();
    if differing.is_empty() { NO_CHANGE.to_owned() } else { differing.join(", ") }
}

/// Describes a long text by its length and checksum, so that a change is visible.
fn checksum(text: &str) -> String {
    format!("{} bytes, CRC-32 {:08x}", text.len(), crc32fast::hash(text.as_bytes()))
}

// === impl Audited ===

impl Audited for Plan {
    fn audited_fields(&self) -> Vec<Field> {
        let Self { name: _, trial_credit, limits, max_keys, models } = self;
        let mut fields = vec![("trial_credit_usd", Some(trial_credit.to_string()))];
        fields.extend(limits.audited_fields());
        fields.push(("max_keys", Some(max_keys.to_string())));
        fields.push(("models", list(models)));
        fields
    }
}

impl Audited for Limits {
    fn audited_fields(&self) -> Vec<Field> {
        let Self { rpm, tpm, concurrency, monthly_tokens, observe } = self;
        vec![
            ("rpm", number(rpm.as_ref())),
            ("tpm", number(tpm.as_ref())),
            ("concurrency", number(concurrency.as_ref())),
            ("monthly_tokens", number(monthly_tokens.as_ref())),
            ("observe", flag(*observe)),
        ]
    }
}

impl Audited for Model {
    fn audited_fields(&self) -> Vec<Field> {
        let Self {
            id: _,
            display_name,
            description,
            context_window,
            max_output_tokens,
            limits,
            price: Price { input, cached, output, version },
            abilities,
            inputs,
            aliases,
            deployments,
            routing,
            hedge_after,
            created_at: _,
        } = self;
        let mut fields = vec![
            ("display_name", quoted(display_name)),
            ("description", quoted(description)),
            ("context_window", number(context_window.map(|tokens| tokens.0).as_ref())),
            ("max_output_tokens", number(max_output_tokens.map(|tokens| tokens.0).as_ref())),
        ];
        fields.extend(limits.audited_fields());
        let abilities: Vec<_> = abilities.iter().map(|ability| ability_name(*ability)).collect();
        fields.extend([
            ("input_usd", Some(input.to_string())),
            ("cached_usd", Some(cached.to_string())),
            ("output_usd", Some(output.to_string())),
            ("price_version", Some(version.to_string())),
            ("abilities", list(&abilities)),
            ("inputs", list(&inputs.iter().map(|input| modality_name(*input)).collect::<Vec<_>>())),
            ("aliases", list(aliases)),
            ("deployments", list(&deployments.iter().map(deployment).collect::<Vec<_>>())),
            ("routing", Some(routing_name(*routing).to_owned())),
            ("hedge_after_ms", number(hedge_after.map(|after| after.as_millis()).as_ref())),
        ]);
        fields
    }
}

impl Audited for Upstream {
    fn audited_fields(&self) -> Vec<Field> {
        let Self {
            name: _,
            url,
            credentials,
            profile,
            deadlines,
            proxy,
            ca_certificates,
            client_certificate,
            connection_bound,
            health_check,
            created_at: _,
        } = self;
        let Deadlines { connect, first_byte, idle, total } = deadlines;
        let source = |source: &CredentialSource| match source {
            CredentialSource::Env(name) => format!("env {}", in_quotes(name)),
            CredentialSource::File(path) => format!("file {}", in_quotes(path)),
            CredentialSource::Sealed(_) => "sealed".to_owned(),
        };
        let (credential, credentials) = match credentials.as_slice() {
            [only] => (Some(source(only)), None),
            several => (None, list(&several.iter().map(source).collect::<Vec<_>>())),
        };
        let profile = match profile {
            Profile::Generic => "generic",
            Profile::OpenAi => "openai",
            Profile::Vllm => "vllm",
            Profile::LlamaCpp => "llamacpp",
            Profile::Ollama => "ollama",
            Profile::SgLang => "sglang",
        };
        let milliseconds = |span: &Option<Duration>| span.map(|span| span.as_millis().to_string());
        vec![
            ("url", quoted(url)),
            ("credential", credential),
            ("credentials", credentials),
            ("profile", Some(profile.to_owned())),
            ("connect_ms", milliseconds(connect)),
            ("first_byte_ms", milliseconds(first_byte)),
            ("idle_ms", milliseconds(idle)),
            ("total_ms", milliseconds(total)),
            ("proxy", proxy.text().and_then(quoted)),
            ("proxy_user", proxy.login().and_then(|login| quoted(&login.user))),
            ("proxy_password", proxy.login().map(|login| source(&login.password))),
            ("ca_certificates", ca_certificates.as_deref().map(checksum)),
            ("client_certificate", client_certificate.as_ref().map(|it| checksum(&it.chain))),
            ("max_connections", connection_bound.map(|bound| bound.max_connections.to_string())),
            ("max_waiting", connection_bound.map(|bound| bound.max_waiting.to_string())),
            ("health_check", health_check.as_ref().and_then(|check| quoted(&check.path))),
            (
                "health_check_interval_ms",
                milliseconds(&health_check.as_ref().map(|check| check.interval)),
            ),
        ]
    }
}

impl Audited for Key {
    fn audited_fields(&self) -> Vec<Field> {
        let Self {
            id: _,
            digest: _,
            account: _,
            label,
            origin: _,
            limits,
            spend_cap,
            models,
            translation,
            client_gone,
            trace_content,
            created_at: _,
            expires_at,
            revoked_at: _,
            successor: _,
            created_by: _,
        } = self;
        let translation = match translation {
            Translation::Lenient => None,
            Translation::Strict => Some("strict"),
            Translation::OmitHostedTools => Some("omit_hosted_tools"),
        };
        let drain = match client_gone {
            ClientGone::Cancel => None,
            ClientGone::Drain(limit) => Some(limit.as_secs()),
        };
        let mut fields = vec![("label", quoted(label))];
        fields.extend(limits.audited_fields());
        fields.extend([
            ("spend_cap_usd", number(spend_cap.as_ref())),
            ("models", list(models)),
            ("translation", translation.map(str::to_owned)),
            ("drain_seconds", number(drain.as_ref())),
            ("trace_content", flag(*trace_content)),
            ("expires_at", number(expires_at.as_ref())),
        ]);
        fields
    }
}

fn ability_name(ability: Ability) -> &'static str {
    match ability {
        Ability::Tools => "tools",
        Ability::Vision => "vision",
        Ability::Reasoning => "reasoning",
        Ability::StructuredOutput => "structured_output",
        Ability::Verbosity => "verbosity",
    }
}

fn modality_name(modality: Modality) -> &'static str {
    match modality {
        Modality::Text => "text",
        Modality::Image => "image",
        Modality::File => "file",
        Modality::Audio => "audio",
    }
}

fn routing_name(routing: Routing) -> &'static str {
    match routing {
        Routing::Weighted => "weighted",
        Routing::LeastLoaded => "least_loaded",
        Routing::PrefixAffinity => "prefix_affinity",
    }
}

/// Formats a deployment as `upstream:upstream_model`, with weight and priority unless they are the
/// defaults (1 and 0).
fn deployment(deployment: &Deployment) -> String {
    let Deployment { upstream, upstream_model, weight, priority } = deployment;
    let mut text = format!("{upstream}:{upstream_model}");
    if (*weight, *priority) != (1, 0) {
        // Writing to a `String` cannot fail.
        _ = write!(text, " weight {weight} priority {priority}");
    }
    text
}

fn number(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}

fn flag(value: bool) -> Option<String> {
    value.then(|| "true".to_owned())
}

/// Returns a text in quotes; `None` for the empty text, which means that the field is not set.
fn quoted(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| in_quotes(text))
}

fn in_quotes(text: &str) -> String {
    format!("`{}`", cut(text))
}

fn list(items: &[impl ToString]) -> Option<String> {
    let items: Vec<_> = items.iter().map(ToString::to_string).collect();
    (!items.is_empty()).then(|| format!("[{}]", cut(&items.join(", "))))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ModelId, PlanName};
    use crate::money::Nanos;

    fn plan() -> Plan {
        Plan {
            name: PlanName::new("free"),
            trial_credit: Nanos(5_000_000_000),
            limits: Limits { rpm: Some(60), ..Limits::default() },
            max_keys: 100,
            models: Vec::new(),
        }
    }

    #[test]
    fn describes_only_the_changed_fields() {
        assert_eq!(describe(&plan()), "trial_credit_usd: 5, rpm: 60, max_keys: 100");
        let limits = Limits { tpm: Some(9), observe: true, ..Limits::default() };
        let models = vec![ModelId::new("a"), ModelId::new("b")];
        let after = Plan { limits, models, max_keys: 7, ..plan() };
        assert_eq!(
            describe_changes(&plan(), &after),
            "rpm: 60 -> none, tpm: none -> 9, observe: none -> true, \
             max_keys: 100 -> 7, models: none -> [a, b]"
        );
        assert_eq!(describe_changes(&plan(), &plan()), NO_CHANGE);
    }

    #[test]
    fn long_values_are_truncated() {
        let long = "ä".repeat(MAX_VALUE_CHARS + 1);
        assert_eq!(quoted(&long).unwrap().chars().count(), MAX_VALUE_CHARS + 3);
        assert_eq!(quoted(""), None);
    }
}
