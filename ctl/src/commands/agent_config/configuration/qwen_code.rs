//! Qwen Code 0.24.4, over chat completions.

use serde::Serialize;

use super::Target;

/// The path of the configuration file.
pub(super) const PATH: &str = "~/.qwen/settings.json";

/// The configuration file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QwenCode<'a> {
    security: Security,
    model: SelectedModel<'a>,
    model_providers: Providers<'a>,
}

#[derive(Serialize)]
struct Security {
    auth: Auth,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Auth {
    selected_type: &'static str,
}

#[derive(Serialize)]
struct SelectedModel<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Providers<'a> {
    openai: [Model<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Model<'a> {
    id: &'a str,
    name: &'a str,
    base_url: &'a str,
    env_key: &'a str,
    generation_config: Generation,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window_size: Option<u64>,
    modalities: Modalities,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_params: Option<Sampling>,
}

#[derive(Serialize)]
struct Modalities {
    image: bool,
}

#[derive(Serialize)]
struct Sampling {
    max_tokens: u64,
}

impl<'a> QwenCode<'a> {
    /// Creates the configuration for `target`.
    pub(super) fn new(target: &'a Target<'a>) -> Self {
        let model = Model {
            id: target.model,
            name: &target.name,
            base_url: target.base_url,
            env_key: target.key_env,
            generation_config: Generation {
                context_window_size: target.context,
                modalities: Modalities { image: target.vision },
                sampling_params: target.output.map(|max_tokens| Sampling { max_tokens }),
            },
        };
        Self {
            security: Security { auth: Auth { selected_type: "openai" } },
            model: SelectedModel { name: target.model },
            model_providers: Providers { openai: [model] },
        }
    }
}
