//! Why a choice ended, in the words of the upstreams.

/// Why a choice ended (§4.3 of the mapping).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model said all that it had to say, or wants a tool called.
    Whole,
    /// A length limit cut it.
    Length,
    /// A content filter cut it.
    Filter,
    /// The upstream broke it off.
    Broken,
    /// The reason is empty. Some servers write that on every chunk, so it is an end only where the
    /// stream's end marker follows.
    Unnamed,
}

impl FinishReason {
    /// Length limits; of OpenAI, Mistral, Gemini, the Responses API and Claude.
    const LENGTH: [&str; 6] = [
        "length",
        "max_tokens",
        "model_length",
        "max_output_tokens",
        "max_length",
        "model_context_window_exceeded",
    ];
    /// Content filters; of OpenAI, Claude, Gemini and Zhipu.
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
    /// Failures; of vLLM and SGLang, `DeepSeek`, Zhipu and `OpenRouter`.
    const BROKEN: [&str; 8] = [
        "error",
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "timeout",
        "network_error",
        "insufficient_system_resource",
    ];
    /// What some servers write on chunks that are not the last.
    const NONE: [&str; 2] = ["null", "none"];

    /// The reason that servers call `name`, in any case; `None` for a word that means no reason.
    pub(super) fn named(name: &str) -> Option<Self> {
        let is_in = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if name.is_empty() {
            Some(Self::Unnamed)
        } else if is_in(&Self::NONE) {
            None
        } else if is_in(&Self::LENGTH) {
            Some(Self::Length)
        } else if is_in(&Self::FILTER) {
            Some(Self::Filter)
        } else if is_in(&Self::BROKEN) {
            Some(Self::Broken)
        } else {
            Some(Self::Whole)
        }
    }
}
