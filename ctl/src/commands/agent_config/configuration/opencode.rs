//! opencode 1.18.33, over the Responses API.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Target, Tollgate};

/// The path of the configuration file.
pub(super) const PATH: &str = "~/.config/opencode/opencode.json, or opencode.json of a project";

/// The configuration file.
#[derive(Serialize)]
pub(super) struct Opencode<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    model: String,
    provider: Tollgate<Provider<'a>>,
}

#[derive(Serialize)]
struct Provider<'a> {
    npm: &'static str,
    name: &'static str,
    options: Options<'a>,
    models: BTreeMap<&'a str, Model<'a>>,
}

#[derive(Serialize)]
struct Options<'a> {
    #[serde(rename = "baseURL")]
    base_url: &'a str,
    #[serde(rename = "apiKey")]
    api_key: String,
}

#[derive(Serialize)]
struct Model<'a> {
    name: &'a str,
    tool_call: bool,
    reasoning: bool,
    attachment: bool,
    modalities: Modalities,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<Limit>,
}

#[derive(Serialize)]
struct Modalities {
    input: &'static [&'static str],
    output: &'static [&'static str],
}

#[derive(Serialize)]
struct Limit {
    context: u64,
    output: u64,
}

impl<'a> Opencode<'a> {
    /// Creates the configuration for `target`.
    pub(super) fn new(target: &'a Target<'a>) -> Self {
        let model = Model {
            name: &target.name,
            tool_call: true,
            reasoning: target.reasoning,
            attachment: target.vision,
            modalities: Modalities { input: target.input(), output: &["text"] },
            // opencode requires both limits or none; 0 means unknown.
            limit: target
                .context
                .map(|context| Limit { context, output: target.output.unwrap_or_default() }),
        };
        let provider = Provider {
            npm: "@ai-sdk/openai",
            name: "Tollgate",
            options: Options {
                base_url: target.base_url,
                api_key: format!("{{env:{}}}", target.key_env),
            },
            models: [(target.model, model)].into(),
        };
        Self {
            schema: "https://opencode.ai/config.json",
            model: format!("tollgate/{}", target.model),
            provider: Tollgate { tollgate: provider },
        }
    }
}
