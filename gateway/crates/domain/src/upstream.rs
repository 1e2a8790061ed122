//! Upstreams: the chat servers that we call.

use std::time::Duration;

use jiff::Timestamp;

use super::id::UpstreamName;

/// One upstream. How to reach it, not whether it is well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its name.
    pub name: UpstreamName,
    /// The base URL, to which `/chat/completions` is added, or `sim:` for the built-in simulator.
    pub url: String,
    /// Where its credential comes from.
    pub credential: CredentialSource,
    /// Its dialect.
    pub profile: Profile,
    /// How long to wait for it.
    pub deadlines: Deadlines,
    /// The certificates to trust there, in PEM, instead of the host's and the public ones.
    pub ca_certificates: Option<String>,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Where a credential comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialSource {
    /// It wants none.
    None,
    /// An environment variable of ours, by name.
    Env(String),
    /// A file on our host, by path.
    File(String),
    /// Sealed in the store, as `control::seal` made it: useless without the data directory's key.
    Sealed(Vec<u8>),
}

/// What dialect of chat completions an upstream speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Profile {
    /// Any server that speaks chat completions.
    #[default]
    Generic,
    /// OpenAI itself.
    OpenAi,
    /// vLLM.
    Vllm,
    /// llama.cpp's server.
    LlamaCpp,
    /// Ollama.
    Ollama,
    /// SGLang.
    SgLang,
}

/// How long to wait for an upstream; `None` is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deadlines {
    /// To connect, TLS included.
    pub connect: Option<Duration>,
    /// From the request to the head of the answer.
    pub first_byte: Option<Duration>,
    /// Between two reads of the answer.
    pub idle: Option<Duration>,
}

impl Deadlines {
    /// To connect: 10 s unless set.
    pub fn connect(&self) -> Duration {
        self.connect.unwrap_or(Duration::from_secs(10))
    }

    /// To the head of the answer: 600 s unless set, because local servers read a long prompt for
    /// minutes before they answer.
    pub fn first_byte(&self) -> Duration {
        self.first_byte.unwrap_or(Duration::from_mins(10))
    }

    /// Between two reads: 300 s unless set.
    pub fn idle(&self) -> Duration {
        self.idle.unwrap_or(Duration::from_mins(5))
    }
}
