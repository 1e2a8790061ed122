//! aider 0.86.2, over chat completions. It offers no tools, and reads the key from
//! `OPENAI_API_KEY`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::{Target, json};
use crate::error::Failure;

/// The path of the configuration file.
pub(super) const PATH: &str = "~/.aider.conf.yml, or .aider.conf.yml of a project";

/// Returns the start command, which passes the key.
pub(super) fn start_command(target: &Target<'_>) -> String {
    format!("start it with: OPENAI_API_KEY=${} aider", target.key_env)
}

/// Generates the configuration.
pub(super) fn write(target: &Target<'_>) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Limits {
        #[serde(skip_serializing_if = "Option::is_none")]
        max_input_tokens: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_output_tokens: Option<u64>,
        litellm_provider: &'static str,
        mode: &'static str,
    }
    // A JSON string is a valid YAML string.
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
        let metadata = json(&BTreeMap::from([(name, limits)]))?;
        text.push_str(
            "# What the model can take, for .aider.model.metadata.json beside this file:\n",
        );
        for line in metadata.lines() {
            let _ = writeln!(text, "# {line}");
        }
    }
    Ok(text)
}
