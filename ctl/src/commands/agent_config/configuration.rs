//! The configuration files of coding agents, as pure functions from a target to text.
//!
//! One module per agent. Each was tested with the agent itself, in the version that the module
//! names.

mod aider;
mod codex;
mod opencode;
mod pi;
mod qwen_code;

use serde::Serialize;

use self::opencode::Opencode;
use self::pi::Pi;
use self::qwen_code::QwenCode;
use crate::cli::agent_config::Agent;
use crate::error::{Exit, Failure};

/// The model and the API endpoint to configure.
pub(super) struct Target<'a> {
    pub(super) base_url: &'a str,
    /// The environment variable that holds the key.
    pub(super) key_env: &'a str,
    /// The model id or alias for requests.
    pub(super) model: &'a str,
    /// The display name of the model.
    pub(super) name: String,
    /// The context window, input and output together, in tokens.
    pub(super) context: Option<u64>,
    /// The maximum output, in tokens.
    pub(super) output: Option<u64>,
    pub(super) vision: bool,
    pub(super) reasoning: bool,
}

/// A JSON object with the single key `tollgate`.
#[derive(Serialize)]
struct Tollgate<T> {
    tollgate: T,
}

/// Returns the path of an agent's configuration file, as text for a message.
pub(super) fn path(agent: Agent) -> &'static str {
    match agent {
        Agent::Codex => codex::PATH,
        Agent::Opencode => opencode::PATH,
        Agent::Pi => pi::PATH,
        Agent::QwenCode => qwen_code::PATH,
        Agent::Aider => aider::PATH,
    }
}

/// Returns a message with the start command of an agent, if it needs settings that are not in the
/// file.
pub(super) fn start_command(agent: Agent, target: &Target<'_>) -> Option<String> {
    match agent {
        Agent::Codex | Agent::Opencode | Agent::QwenCode => None,
        Agent::Pi => Some(pi::start_command(target)),
        Agent::Aider => Some(aider::start_command(target)),
    }
}

/// Generates the configuration of an agent.
pub(super) fn write(agent: Agent, target: &Target<'_>) -> Result<String, Failure> {
    match agent {
        Agent::Codex => Ok(codex::write(target)),
        Agent::Opencode => json(&Opencode::new(target)),
        Agent::Pi => json(&Pi::new(target)),
        Agent::QwenCode => json(&QwenCode::new(target)),
        Agent::Aider => aider::write(target),
    }
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::new(Exit::Failed, format!("writing the output: {error}")))?;
    Ok(format!("{text}\n"))
}

// === impl Target ===

impl Target<'_> {
    /// Returns the input modalities, in the form that most agents use.
    fn input(&self) -> &'static [&'static str] {
        if self.vision { &["text", "image"] } else { &["text"] }
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
    fn unknown_properties_of_a_model_are_omitted() {
        let target =
            Target { context: None, output: None, vision: false, reasoning: false, ..target() };
        for agent in AGENTS {
            let text = written(agent, &target);
            for word in ["limit", "context", "max_", "maxTokens", "null", "\"image\"\n"] {
                assert!(!text.contains(word), "{agent:?} contains `{word}`: {text}");
            }
        }
    }

    #[test]
    fn codex_compacts_while_the_maximum_output_still_fits() {
        let limit = |output| {
            let text = written(Agent::Codex, &Target { output, ..target() });
            let table: toml::Table = text.parse().expect("TOML");
            table.get("model_auto_compact_token_limit").and_then(toml::Value::as_integer)
        };
        assert_eq!(limit(Some(8_192)), Some(24_576));
        for output in [None, Some(1_024), Some(32_768), Some(1 << 40)] {
            assert_eq!(limit(output), None);
        }
    }

    #[test]
    fn special_characters_in_names_are_quoted() {
        let odd = Target { model: "a\"b\\c\n", ..target() };
        let table: toml::Table = written(Agent::Codex, &odd).parse().expect("TOML");
        assert_eq!(table["model"].as_str(), Some("a\"b\\c\n"));
        for agent in [Agent::Opencode, Agent::Pi, Agent::QwenCode] {
            let text = written(agent, &odd);
            let _: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        }
        assert!(written(Agent::Aider, &odd).contains(r#"model: "openai/a\"b\\c\n""#));
    }
}
