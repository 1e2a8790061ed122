//! `ctl upstream …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use proto::v1::Profile;

use super::value;

/// A command on upstreams.
#[derive(Debug, Subcommand)]
pub(crate) enum UpstreamCommand {
    /// Lists upstreams, and whether requests are sent to them
    #[command(after_help = "Example:\n  ctl upstream list")]
    List,
    /// Lists how upstreams do: breaker, requests, failures, latency, last error
    #[command(after_help = "Example:\n  ctl upstream health")]
    Health,
    /// Adds an upstream
    #[command(after_help = "Example:\n  \
        ctl upstream add openai --url https://api.openai.com/v1 --key-env OPENAI_API_KEY --profile openai\n  \
        ctl upstream add local --url http://127.0.0.1:8000/v1 --profile vllm\n  \
        ctl upstream add inner --url https://models.internal/v1 --upstream-ca-file internal-ca.pem")]
    Add(Add),
    /// Changes the given fields of an upstream
    #[command(after_help = "Example:\n  ctl upstream update openai --key-stdin < key.txt")]
    Update(Update),
    /// Removes an upstream that no model is deployed on; asks first on a terminal
    #[command(after_help = "Example:\n  ctl upstream remove local")]
    Remove(Remove),
}

/// Where an upstream's credential comes from.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Credential {
    /// The credential is in this environment variable of the gateway
    #[arg(long = "key-env", value_name = "VAR")]
    pub(crate) env: Option<String>,
    /// The credential is in this file on the gateway's host
    #[arg(long = "key-file", value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Read the credential from one line of stdin; the gateway stores it sealed
    #[arg(long = "key-stdin")]
    pub(crate) stdin: bool,
}

/// How long the gateway waits for an upstream.
#[derive(Debug, Args)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name")]
pub(crate) struct Deadlines {
    /// To connect, in milliseconds; 0 for the default of 10,000
    #[arg(long, value_name = "MS")]
    pub(crate) connect_ms: Option<u64>,
    /// To the head of the answer, in milliseconds; 0 for the default of 600,000
    #[arg(long, value_name = "MS")]
    pub(crate) first_byte_ms: Option<u64>,
    /// Between two pieces of the answer, in milliseconds; 0 for the default of 300,000
    #[arg(long, value_name = "MS")]
    pub(crate) idle_ms: Option<u64>,
}

/// Input of `ctl upstream add`.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// What to call it
    pub(crate) name: String,
    /// Its base URL, to which `/chat/completions` is added; `sim:` for the simulator
    #[arg(long)]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) credential: Credential,
    /// What dialect of chat completions it speaks
    #[arg(long, value_parser = value::profile(), default_value = "generic")]
    pub(crate) profile: Profile,
    /// Certificates to trust there instead of the host's and the public ones: a PEM file of this host, which
    /// the gateway stores
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) deadlines: Deadlines,
}

/// Input of `ctl upstream update`.
#[derive(Debug, Args)]
pub(crate) struct Update {
    /// The upstream's name
    pub(crate) name: String,
    /// The new base URL
    #[arg(long)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) credential: Credential,
    /// It wants no credential any more
    #[arg(long, conflicts_with_all = ["env", "file", "stdin"])]
    pub(crate) no_key: bool,
    /// The new dialect
    #[arg(long, value_parser = value::profile())]
    pub(crate) profile: Option<Profile>,
    /// Certificates to trust there instead of the host's and the public ones: a PEM file of this host, which
    /// the gateway stores
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca_file: Option<PathBuf>,
    /// Trust the host's certificates and the public ones there again
    #[arg(long, conflicts_with = "upstream_ca_file")]
    pub(crate) no_upstream_ca: bool,
    #[command(flatten)]
    pub(crate) deadlines: Deadlines,
}

/// Input of `ctl upstream remove`.
#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The upstream's name
    pub(crate) name: String,
}
