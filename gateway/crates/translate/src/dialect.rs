//! What each kind of upstream takes, as one table of switches.
//!
//! Nothing here is guessed from a model's name: an operator sets the upstream's profile.

use domain::upstream::Profile;

/// The dialect of chat completions that an upstream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "upstreams differ in each of them by itself")]
pub struct Dialect {
    /// The fields that cap the output and are obeyed, the preferred one first (`Q-8`). Versions of a server
    /// that know only one of two would read the other as no cap at all, so it is not among them.
    pub output_cap_fields: &'static [&'static str],
    /// The role of `instructions` and of developer messages (`Q-5`, `I-3`).
    pub developer_role: &'static str,
    /// What becomes of a system message after the first other one (`I-5`).
    pub late_system: LateSystem,
    /// Whether an assistant's refusal stays a part of its own (§2.1).
    pub refusal_part: bool,
    /// Whether files and audio are passed on where the model's entry does not say whether it takes them
    /// (§2.1).
    pub files: bool,
    /// The field in which an assistant message carries its reasoning back (`I-12`); `None` drops it.
    pub reasoning_field: Option<&'static str>,
    /// What becomes of images and files in a tool's result (`I-19`).
    pub tool_result_media: ToolResultMedia,
    /// Whether a function's `strict` is understood (`T-1b`).
    pub strict: bool,
    /// Whether `tool_choice` is obeyed (§3.6).
    pub tool_choice: bool,
    /// Whether `tool_choice` may be of type `allowed_tools` (§3.6).
    pub allowed_tools: bool,
    /// Fields of the request that are passed on under their own name (`Q-22`, `Q-23`, `Q-25`).
    pub forwarded_fields: &'static [&'static str],
}

/// What becomes of a system message that is not at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateSystem {
    /// It stays where it is, and so does the prefix that the upstream has cached.
    Keep,
    /// It joins the one at the head: many chat templates take no other.
    Hoist,
}

/// What becomes of images and files in a tool's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolResultMedia {
    /// They follow in a message of the user.
    UserMessage,
    /// They stay in the tool's message.
    Inline,
}

const GENERIC: Dialect = Dialect {
    output_cap_fields: &["max_tokens"],
    developer_role: "system",
    late_system: LateSystem::Keep,
    refusal_part: false,
    files: true,
    reasoning_field: Some("reasoning_content"),
    tool_result_media: ToolResultMedia::UserMessage,
    strict: true,
    tool_choice: true,
    allowed_tools: false,
    forwarded_fields: &[],
};

impl Dialect {
    /// The preferred field that output_cap_fields the output.
    pub const fn output_cap_field(&self) -> &'static str {
        self.output_cap_fields[0]
    }

    /// The dialect of a profile.
    pub const fn of(profile: Profile) -> &'static Self {
        match profile {
            Profile::Generic => &GENERIC,
            Profile::OpenAi => {
                const OPENAI: Dialect = Dialect {
                    output_cap_fields: &["max_completion_tokens", "max_tokens"],
                    developer_role: "developer",
                    refusal_part: true,
                    reasoning_field: None,
                    allowed_tools: true,
                    // not `metadata` (`Q-24`): OpenAI refuses it without `store: true`
                    forwarded_fields: &[
                        "prompt_cache_key",
                        "prompt_cache_retention",
                        "safety_identifier",
                        "service_tier",
                        "user",
                        "verbosity",
                    ],
                    ..GENERIC
                };
                &OPENAI
            }
            Profile::Vllm => {
                const VLLM: Dialect = Dialect {
                    late_system: LateSystem::Hoist,
                    reasoning_field: Some("reasoning"),
                    tool_result_media: ToolResultMedia::Inline,
                    files: false,
                    strict: false,
                    ..GENERIC
                };
                &VLLM
            }
            Profile::LlamaCpp => {
                const LLAMACPP: Dialect = Dialect {
                    late_system: LateSystem::Hoist,
                    files: false,
                    strict: false,
                    ..GENERIC
                };
                &LLAMACPP
            }
            Profile::Ollama => {
                const OLLAMA: Dialect = Dialect {
                    reasoning_field: Some("reasoning"),
                    files: false,
                    strict: false,
                    tool_choice: false,
                    ..GENERIC
                };
                &OLLAMA
            }
            Profile::SgLang => {
                const SGLANG: Dialect = Dialect {
                    late_system: LateSystem::Hoist,
                    files: false,
                    strict: false,
                    ..GENERIC
                };
                &SGLANG
            }
        }
    }
}
