//! `ctl agent-config …`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Input of `ctl agent-config`.
#[derive(Debug, Args)]
pub(crate) struct AgentConfig {
    /// The coding agent
    #[arg(value_enum)]
    pub(crate) agent: Agent,
    /// The model that it uses, by id or alias [default: the first that calls tools]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// The environment variable that the agent takes its key from
    #[arg(long, value_name = "VAR", default_value = "TOLLGATE_API_KEY", value_parser = variable)]
    pub(crate) key_env: String,
    /// Where clients reach the gateway [default: what the gateway says, see its `public_url`]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Print no configuration, but do one tool turn as the agent would and say what happened
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check, a file with the key to use [default: the one in `TOLLGATE_API_KEY`]
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(crate) key_file: Option<PathBuf>,
}

/// A coding agent whose configuration is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    Codex,
    Opencode,
    Pi,
    QwenCode,
    Aider,
}

/// A name that a shell lets be exported.
fn variable(name: &str) -> Result<String, &'static str> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(name.to_owned())
    } else {
        Err("a variable's name has letters, digits and `_`, and does not begin with a digit")
    }
}
