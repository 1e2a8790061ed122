//! The configuration files of coding agents. Pure: a target in, text out.
//!
//! Each was tried with the agent itself, in the version that its function names.

use std::fmt::Write as _;

use serde::Serialize;

use crate::cli::agent_config::Agent;
use crate::error::{Exit, Failure};

/// What every agent has to know.
pub(super) struct Target<'a> {
    pub(super) base_url: &'a str,
    /// The variable that holds the key.
    pub(super) key_env: &'a str,
    /// What requests name.
    pub(super) model: &'a str,
    /// What people call it.
    pub(super) name: String,
    /// Input and output together, in tokens.
    pub(super) context: Option<u64>,
    /// The longest answer, in tokens.
    pub(super) output: Option<u64>,
    pub(super) vision: bool,
    pub(super) reasoning: bool,
}

/// Where an agent looks for its configuration.
pub(super) fn path(agent: Agent) -> &'static str {
    match agent {
        Agent::Codex => {
            "~/.codex/config.toml, or ~/.codex/tollgate.config.toml for `codex --profile tollgate`"
        }
        Agent::Opencode => "~/.config/opencode/opencode.json, or opencode.json of a project",
        Agent::Pi => "~/.pi/agent/models.json",
        Agent::QwenCode => "~/.qwen/settings.json",
        Agent::Aider => "~/.aider.conf.yml, or .aider.conf.yml of a project",
    }
}

/// How to start an agent whose configuration cannot say which model it begins with.
pub(super) fn start(agent: Agent, target: &Target<'_>) -> Option<String> {
    match agent {
        Agent::Codex | Agent::Opencode | Agent::QwenCode => None,
        Agent::Pi => {
            Some(format!("start it with: pi --provider tollgate --model {}", target.model))
        }
        Agent::Aider => Some(format!("start it with: OPENAI_API_KEY=${} aider", target.key_env)),
    }
}

/// Writes an agent's configuration.
pub(super) fn write(agent: Agent, target: &Target<'_>) -> Result<String, Failure> {
    match agent {
        Agent::Codex => Ok(codex(target)),
        Agent::Opencode => json(&Opencode::of(target)),
        Agent::Pi => json(&Pi::of(target)),
        Agent::QwenCode => json(&QwenCode::of(target)),
        Agent::Aider => aider(target),
    }
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(Exit::Failed, format!("writing the output: {error}")))?;
    Ok(format!("{text}\n"))
}

/// Codex 0.169.0, over Responses.
///
/// It knows no limit of the answer's length, so that room is kept for one by compacting earlier.
fn codex(target: &Target<'_>) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let mut text = format!(
        "# Codex through Tollgate, as `ctl agent-config codex` writes it.\n\
         model = {}\nmodel_provider = \"tollgate\"\n",
        quoted(target.model)
    );
    // Writing to a string cannot fail.
    if let Some(context) = target.context {
        let _ = writeln!(text, "model_context_window = {context}");
        let room = target.output.and_then(|output| context.checked_sub(output));
        // by itself it compacts at nine tenths
        if let Some(room) = room.filter(|room| *room > 0 && *room < context / 10 * 9) {
            let _ = writeln!(text, "model_auto_compact_token_limit = {room}");
        }
    }
    let (url, key) = (quoted(target.base_url), quoted(target.key_env));
    let catalogue = quoted(&format!("{}/models", target.base_url));
    let _ = write!(
        text,
        "# Web search runs on OpenAI's servers alone; a request that offers it is refused.\n\
         web_search = \"disabled\"\n\
         \n\
         [model_providers.tollgate]\n\
         name = \"Tollgate\"\n\
         base_url = {url}\n\
         env_key = {key}\n\
         wire_api = \"responses\"\n\
         # To choose among the models here with /model (with short instructions instead of Codex's):\n\
         # model_catalog_url = {catalogue}\n"
    );
    text
}

/// aider 0.86.2, over chat. It offers no tools, and takes the key from a variable of its own.
fn aider(target: &Target<'_>) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Limits {
        #[serde(skip_serializing_if = "Option::is_none")]
        max_input_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output_tokens: Option<u64>,
        litellm_provider: &'static str,
        mode: &'static str,
    }
    // a JSON string is a YAML string, too
    let name = format!("openai/{}", target.model);
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = format!(
        "# aider through Tollgate, as `ctl agent-config aider` writes it.\n\
         # The key is read from OPENAI_API_KEY: start it as\n\
         #   OPENAI_API_KEY=${} aider\n\
         model: {}\n\
         openai-api-base: {}\n",
        target.key_env,
        quoted(&name),
        quoted(target.base_url)
    );
    if target.context.is_some() || target.output.is_some() {
        let limits = Limits {
            max_input_tokens: target.context,
            max_output_tokens: target.output,
            litellm_provider: "openai",
            mode: "chat",
        };
        let metadata = json(&std::collections::BTreeMap::from([(name, limits)]))?;
        text.push_str(
            "# What the model can take, for .aider.model.metadata.json beside this file:\n",
        );
        for line in metadata.lines() {
            let _ = writeln!(text, "# {line}");
        }
    }
    Ok(text)
}

/// opencode 1.18.33, over Responses.
#[derive(Serialize)]
struct Opencode<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    model: String,
    provider: Tollgate<OpencodeProvider<'a>>,
}

/// A table of one entry.
#[derive(Serialize)]
struct Tollgate<T> {
    tollgate: T,
}

#[derive(Serialize)]
struct OpencodeProvider<'a> {
    npm: &'static str,
    name: &'static str,
    options: OpencodeOptions<'a>,
    models: std::collections::BTreeMap<&'a str, OpencodeModel<'a>>,
}

#[derive(Serialize)]
struct OpencodeOptions<'a> {
    #[serde(rename = "baseURL")]
    base_url: &'a str,
    #[serde(rename = "apiKey")]
    api_key: String,
}

#[derive(Serialize)]
struct OpencodeModel<'a> {
    name: &'a str,
    tool_call: bool,
    reasoning: bool,
    attachment: bool,
    modalities: OpencodeModalities,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<OpencodeLimit>,
}

#[derive(Serialize)]
struct OpencodeModalities {
    input: &'static [&'static str],
    output: &'static [&'static str],
}

#[derive(Serialize)]
struct OpencodeLimit {
    context: u64,
    output: u64,
}

/// pi 0.73.1, over chat: the fields that only some upstreams take are left out.
#[derive(Serialize)]
struct Pi<'a> {
    providers: Tollgate<PiProvider<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PiProvider<'a> {
    base_url: &'a str,
    api: &'static str,
    /// The name of a variable, in pi's way.
    api_key: &'a str,
    compat: PiCompat,
    models: [PiModel<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PiCompat {
    supports_store: bool,
    supports_developer_role: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PiModel<'a> {
    id: &'a str,
    name: &'a str,
    reasoning: bool,
    input: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

/// Qwen Code 0.24.4, over chat.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QwenCode<'a> {
    security: QwenSecurity,
    model: QwenDefault<'a>,
    model_providers: QwenProviders<'a>,
}

#[derive(Serialize)]
struct QwenSecurity {
    auth: QwenAuth,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QwenAuth {
    selected_type: &'static str,
}

#[derive(Serialize)]
struct QwenDefault<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct QwenProviders<'a> {
    openai: [QwenModel<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QwenModel<'a> {
    id: &'a str,
    name: &'a str,
    base_url: &'a str,
    env_key: &'a str,
    generation_config: QwenGeneration,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct QwenGeneration {
    #[serde(skip_serializing_if = "Option::is_none")]
    context_window_size: Option<u64>,
    modalities: QwenModalities,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_params: Option<QwenSampling>,
}

#[derive(Serialize)]
struct QwenModalities {
    image: bool,
}

#[derive(Serialize)]
struct QwenSampling {
    max_tokens: u64,
}

// === impl Target ===

impl Target<'_> {
    /// What the model takes, as most agents write it.
    fn input(&self) -> &'static [&'static str] {
        if self.vision { &["text", "image"] } else { &["text"] }
    }
}

// === impl Opencode ===

impl<'a> Opencode<'a> {
    fn of(target: &'a Target<'a>) -> Self {
        let model = OpencodeModel {
            name: &target.name,
            tool_call: true,
            reasoning: target.reasoning,
            attachment: target.vision,
            modalities: OpencodeModalities { input: target.input(), output: &["text"] },
            // it wants both or none; 0 is its word for unknown
            limit: target.context.map(|context| OpencodeLimit {
                context,
                output: target.output.unwrap_or_default(),
            }),
        };
        let provider = OpencodeProvider {
            npm: "@ai-sdk/openai",
            name: "Tollgate",
            options: OpencodeOptions {
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

// === impl Pi ===

impl<'a> Pi<'a> {
    fn of(target: &'a Target<'a>) -> Self {
        let model = PiModel {
            id: target.model,
            name: &target.name,
            reasoning: target.reasoning,
            input: target.input(),
            context_window: target.context,
            max_tokens: target.output,
        };
        let provider = PiProvider {
            base_url: target.base_url,
            api: "openai-completions",
            api_key: target.key_env,
            compat: PiCompat { supports_store: false, supports_developer_role: false },
            models: [model],
        };
        Self { providers: Tollgate { tollgate: provider } }
    }
}

// === impl QwenCode ===

impl<'a> QwenCode<'a> {
    fn of(target: &'a Target<'a>) -> Self {
        let model = QwenModel {
            id: target.model,
            name: &target.name,
            base_url: target.base_url,
            env_key: target.key_env,
            generation_config: QwenGeneration {
                context_window_size: target.context,
                modalities: QwenModalities { image: target.vision },
                sampling_params: target.output.map(|max_tokens| QwenSampling { max_tokens }),
            },
        };
        Self {
            security: QwenSecurity { auth: QwenAuth { selected_type: "openai" } },
            model: QwenDefault { name: target.model },
            model_providers: QwenProviders { openai: [model] },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENTS: [Agent; 5] =
        [Agent::Codex, Agent::Opencode, Agent::Pi, Agent::QwenCode, Agent::Aider];

    fn target() -> Target<'static> {
        Target {
            base_url: "http://127.0.0.1:8080/v1",
            key_env: "TOLLGATE_API_KEY",
            model: "vendor/llama3:8b",
            name: "Llama \"3\"".to_owned(),
            context: Some(32_768),
            output: Some(8_192),
            vision: true,
            reasoning: true,
        }
    }

    fn written(agent: Agent, target: &Target<'_>) -> String {
        write(agent, target).expect("a configuration")
    }

    #[test]
    fn each_agent_gets_its_own_configuration() {
        for agent in AGENTS {
            insta::assert_snapshot!(format!("{agent:?}"), written(agent, &target()));
        }
    }

    #[test]
    fn what_is_not_known_of_a_model_is_left_out() {
        let target =
            Target { context: None, output: None, vision: false, reasoning: false, ..target() };
        for agent in AGENTS {
            let text = written(agent, &target);
            for word in ["limit", "context", "max_", "maxTokens", "null", "\"image\"\n"] {
                assert!(!text.contains(word), "{agent:?} says `{word}`: {text}");
            }
        }
    }

    #[test]
    fn codex_compacts_before_the_longest_answer_would_not_fit() {
        let limit = |output| {
            let text = codex(&Target { output, ..target() });
            let table: toml::Table = text.parse().expect("TOML");
            table.get("model_auto_compact_token_limit").and_then(toml::Value::as_integer)
        };
        assert_eq!(limit(Some(8_192)), Some(24_576));
        for nothing_to_say in [None, Some(1_024), Some(32_768), Some(1 << 40)] {
            assert_eq!(limit(nothing_to_say), None);
        }
    }

    #[test]
    fn odd_names_are_quoted() {
        let odd = Target { model: "a\"b\\c\n", ..target() };
        let table: toml::Table = codex(&odd).parse().expect("TOML");
        assert_eq!(table["model"].as_str(), Some("a\"b\\c\n"));
        for agent in [Agent::Opencode, Agent::Pi, Agent::QwenCode] {
            let text = written(agent, &odd);
            let _: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        }
        assert!(written(Agent::Aider, &odd).contains(r#"model: "openai/a\"b\\c\n""#));
    }
}
