//! pi 0.73.1, over chat completions, without the fields that only some upstreams accept.

use serde::Serialize;

use super::{Target, Tollgate};

/// The path of the configuration file.
pub(super) const PATH: &str = "~/.pi/agent/models.json";

/// Returns the start command, which selects the model.
pub(super) fn start_command(target: &Target<'_>) -> String {
    format!("start it with: pi --provider tollgate --model {}", target.model)
}

/// The configuration file.
#[derive(Serialize)]
pub(super) struct Pi<'a> {
    providers: Tollgate<Provider<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Provider<'a> {
    base_url: &'a str,
    api: &'static str,
    /// The name of the environment variable that holds the key.
    api_key: &'a str,
    compat: Compat,
    models: [Model<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Compat {
    supports_store: bool,
    supports_developer_role: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model<'a> {
    id: &'a str,
    name: &'a str,
    reasoning: bool,
    input: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

impl<'a> Pi<'a> {
    /// Creates the configuration for `target`.
    pub(super) fn new(target: &'a Target<'a>) -> Self {
        let model = Model {
            id: target.model,
            name: &target.name,
            reasoning: target.reasoning,
            input: target.input(),
            context_window: target.context,
            max_tokens: target.output,
        };
        let provider = Provider {
            base_url: target.base_url,
            api: "openai-completions",
            api_key: target.key_env,
            compat: Compat { supports_store: false, supports_developer_role: false },
            models: [model],
        };
        Self { providers: Tollgate { tollgate: provider } }
    }
}
