//! The catalogue in the shape that Codex decodes (checked with 0.169.0). Codex requests it if its provider
//! has a `model_catalog_url`.
//!
//! Codex drops the whole list if one field of one entry is missing or has another type, and it selects its
//! tools by these values: with the ones here, it declares only functions and namespaces of functions. A
//! catalogue cannot turn off web search.

use serde::Serialize;

use domain::model::{Ability, Modality, Model};

/// The instructions for Codex, instead of those that it has for its own models.
const INSTRUCTIONS: &str = include_str!("codex_instructions.md");

const LEVELS: &[Level] = &[
    Level { effort: "low", description: "Answers soonest" },
    Level { effort: "medium", description: "Thinks when it helps" },
    Level { effort: "high", description: "Thinks longest" },
];

/// A model, under its id or one of its aliases.
#[derive(Serialize)]
pub(super) struct Entry<'a> {
    slug: &'a str,
    display_name: &'a str,
    description: Option<&'a str>,
    default_reasoning_level: Option<&'static str>,
    supported_reasoning_levels: &'static [Level],
    shell_type: &'static str,
    visibility: &'static str,
    supported_in_api: bool,
    priority: usize,
    base_instructions: &'static str,
    support_verbosity: bool,
    truncation_policy: Truncation,
    context_window: Option<u64>,
    input_modalities: &'static [&'static str],
    supports_parallel_tool_calls: bool,
    experimental_supported_tools: [&'static str; 0],
}

#[derive(Serialize)]
struct Level {
    effort: &'static str,
    description: &'static str,
}

/// How much of a command's output the model sees.
#[derive(Serialize)]
struct Truncation {
    mode: &'static str,
    limit: u64,
}

/// Returns whether a query comes from Codex.
pub(super) fn is_codex(query: Option<&str>) -> bool {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.any(|(name, _)| name == "client_version")
}

/// Lists `models`: each under its id, and hidden under its aliases, so that Codex knows its limits under any
/// name.
pub(super) fn entries<'a>(models: impl Iterator<Item = &'a Model>) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for (priority, model) in models.enumerate() {
        entries.push(Entry::of(model, model.id.as_str(), "list", priority));
        let hidden = model.aliases.iter().map(|it| Entry::of(model, it.as_str(), "hide", priority));
        entries.extend(hidden);
    }
    entries
}

// === impl Entry ===

impl<'a> Entry<'a> {
    fn of(model: &'a Model, slug: &'a str, visibility: &'static str, priority: usize) -> Self {
        let can = |ability| model.abilities.contains(&ability);
        let reasons = can(Ability::Reasoning);
        let name = model.display_name.as_str();
        Self {
            slug,
            display_name: if name.is_empty() { slug } else { name },
            description: Some(model.description.as_str()).filter(|text| !text.is_empty()),
            default_reasoning_level: reasons.then_some("medium"),
            supported_reasoning_levels: if reasons { LEVELS } else { &[] },
            shell_type: "unified_exec",
            visibility,
            supported_in_api: true,
            priority,
            base_instructions: INSTRUCTIONS,
            support_verbosity: can(Ability::Verbosity),
            truncation_policy: Truncation { mode: "tokens", limit: 10_000 },
            context_window: model.context_window.map(|tokens| tokens.0),
            input_modalities: if model.takes(Modality::Image) == Some(true) {
                &["text", "image"]
            } else {
                &["text"]
            },
            supports_parallel_tool_calls: can(Ability::Tools),
            experimental_supported_tools: [],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_codex;

    #[test]
    fn codex_is_known_by_the_version_that_it_sends() {
        for (query, expected) in [
            (None, false),
            (Some(""), false),
            (Some("limit=3&client_version=0.169.0"), true),
            (Some("client_version"), true),
            (Some("my_client_version=1"), false),
        ] {
            assert_eq!(is_codex(query), expected, "{query:?}");
        }
    }
}
