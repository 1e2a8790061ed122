//! What each kind of upstream accepts, as one table of switches.
//!
//! The operator sets the profile of an upstream; nothing is inferred from a model name.

use domain::upstream::Profile;

/// The variant of chat completions that an upstream accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "upstreams differ in each of them by itself")]
pub struct Dialect {
    /// The fields that cap the output, the preferred one first (`Q-8`). A field is listed only if
    /// every version of the server honours it: a server that ignores an unknown field would run
    /// without a cap.
    pub output_cap_fields: &'static [&'static str],
    /// The role of `instructions` and of developer messages (`Q-5`, `I-3`).
    pub developer_role: &'static str,
    /// The placement of a system message after the first other message (`I-5`).
    pub late_system: LateSystem,
    /// Whether an assistant's refusal is sent as a `refusal` part; if not, as text (§2.1).
    pub refusal_part: bool,
    /// Whether files and audio are sent if the model's catalogue entry does not specify it (§2.1).
    pub files: bool,
    /// The field of an assistant message for its reasoning (`I-12`); `None` drops the reasoning.
    pub reasoning_field: Option<&'static str>,
    /// The placement of images and files of a tool result (`I-19`).
    pub tool_result_media: ToolResultMedia,
    /// Whether the upstream supports `strict` on functions (`T-1b`).
    pub strict: bool,
    /// Whether the upstream honours `tool_choice` (§3.6).
    pub tool_choice: bool,
    /// Whether the upstream supports a `tool_choice` of type `allowed_tools` (§3.6).
    pub allowed_tools: bool,
    /// Request fields that are forwarded under the same name (`Q-22`, `Q-23`, `Q-25`).
    pub forwarded_fields: &'static [&'static str],
}

/// The placement of a system message that is not at the head (`I-5`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateSystem {
    /// Keeps its position, and with it the prompt prefix that the upstream has cached.
    Keep,
    /// Merged into the message at the head: many chat templates accept only one.
    Hoist,
}

/// The placement of images and files of a tool result (`I-19`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolResultMedia {
    /// In a user message after the tool messages.
    UserMessage,
    /// In the tool message.
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
    /// Returns the preferred field that caps the output.
    pub const fn output_cap_field(&self) -> &'static str {
        self.output_cap_fields[0]
    }

    /// Returns the dialect of `profile`.
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
                    // Not `metadata` (`Q-24`): OpenAI refuses it without `store: true`.
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
