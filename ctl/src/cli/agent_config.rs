//! The arguments of `ctl agent-config`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Arguments of `ctl agent-config`.
#[derive(Debug, Args)]
pub(crate) struct AgentConfig {
    /// Coding agent
    #[arg(value_enum)]
    pub(crate) agent: Agent,
    /// Model for the agent, by id or alias [default: the first that supports tools]
    #[arg(long, value_name = "ID")]
    pub(crate) model: Option<String>,
    /// Environment variable from which the agent reads its key
    #[arg(long, value_name = "VAR", default_value = "TOLLGATE_API_KEY", value_parser = variable_name)]
    pub(crate) key_env: String,
    /// Base URL of the API for clients [default: as announced by the gateway, see its `public_url`]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Test one tool call as the agent would make it and report each step; prints no configuration
    #[arg(long)]
    pub(crate) check: bool,
    /// With --check: file that holds the key [default: the key in `TOLLGATE_API_KEY`]
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(crate) key_file: Option<PathBuf>,
}

/// A supported coding agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Agent {
    Codex,
    Opencode,
    Pi,
    QwenCode,
    Aider,
}

/// Parses the name of an environment variable, as POSIX shells export it.
fn variable_name(name: &str) -> Result<String, &'static str> {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if first && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(name.to_owned())
    } else {
        Err("a variable name has only letters, digits and `_`, and does not start with a digit")
    }
}
