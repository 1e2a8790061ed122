//! `finish_reason` values of upstreams.

/// The reason why a choice ended (rule §4.3 of the crate `translate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The answer is complete, or the model calls a tool.
    Complete,
    /// A length limit truncated the answer.
    Length,
    /// A content filter truncated the answer.
    Filter,
    /// The upstream failed.
    Failed,
    /// The reason is an empty string. Some servers send it with every chunk, so it only ends the
    /// choice if the stream's end marker follows.
    Empty,
}

impl FinishReason {
    /// Length limits of OpenAI, Mistral, Gemini, the Responses API and Claude.
    const LENGTH: [&str; 6] = [
        "length",
        "max_tokens",
        "model_length",
        "max_output_tokens",
        "max_length",
        "model_context_window_exceeded",
    ];
    /// Content filters of OpenAI, Claude, Gemini and Zhipu.
    const FILTER: [&str; 8] = [
        "content_filter",
        "safety",
        "refusal",
        "sensitive",
        "recitation",
        "prohibited_content",
        "blocklist",
        "spii",
    ];
    /// Failures of vLLM and SGLang, `DeepSeek`, Zhipu and `OpenRouter`.
    const FAILED: [&str; 8] = [
        "error",
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "timeout",
        "network_error",
        "insufficient_system_resource",
    ];
    /// Placeholders that some servers send with chunks before the last one.
    const PLACEHOLDERS: [&str; 2] = ["null", "none"];

    /// Returns the reason with this name, case-insensitively; `None` for a placeholder.
    pub(super) fn named(name: &str) -> Option<Self> {
        let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if name.is_empty() {
            Some(Self::Empty)
        } else if is_in(&Self::PLACEHOLDERS) {
            None
        } else if is_in(&Self::LENGTH) {
            Some(Self::Length)
        } else if is_in(&Self::FILTER) {
            Some(Self::Filter)
        } else if is_in(&Self::FAILED) {
            Some(Self::Failed)
        } else {
            Some(Self::Complete)
        }
    }
}
