//! Field names as lenient servers match them, and their meaning.
//!
//! Servers written in Go match field names case-insensitively, some also ignore `_` and `-`, others
//! accept camel case. Names are therefore compared in a folded form that is at least as coarse as
//! that of any such server, so that every field that a server could interpret as one of ours is
//! found. Names are never rewritten: their meaning decides whether a field passes, is removed or is
//! refused.

use crate::refusal::{Refusal, RequestFault};

/// The maximum length of a folded name with a meaning, in bytes.
const MAX_LENGTH: usize = 28;

/// The fields that the gateway reads.
const OURS: [&str; 7] =
    ["model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n"];

/// The meaning of a field, independent of the spelling of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A field that the gateway reads, with its correct spelling.
    Ours(&'static str),
    /// An output cap that some servers obey and the gateway does not support.
    ForeignCap,
    /// A number of answers that some servers produce and bill.
    Multiplier,
    /// Other models that some servers may use.
    ModelChoice,
    /// An object in which some servers look for the fields above.
    Container,
}

/// A folded field name, for comparison.
pub struct Folded {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl Folded {
    /// Folds a name; `None` if the result is too long or not ASCII, so that the name has no
    /// meaning.
    ///
    /// Performs full case folding with the tables of the standard library: to lower case, to upper
    /// case and back, so that `ſ` becomes `s`, the Kelvin sign `k`, and the ligature `ﬁ` `fi`. Also
    /// folds the Turkish dotless and dotted `i` to `i`, as comparisons in upper case do, unlike
    /// case folding alone.
    pub fn new(name: &str) -> Option<Self> {
        const DOT_ABOVE: char = '\u{307}';
        let mut folded = Self { bytes: [0; MAX_LENGTH], length: 0 };
        if name.is_ascii() {
            name.bytes().try_for_each(|byte| folded.push(byte))?;
            return Some(folded);
        }
        for character in name.chars() {
            let lower = character.to_lowercase();
            for character in lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase) {
                if character != DOT_ABOVE {
                    folded.push(u8::try_from(character).ok().filter(u8::is_ascii)?)?;
                }
            }
        }
        Some(folded)
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        if matches!(byte, b'_' | b'-') {
            return Some(());
        }
        *self.bytes.get_mut(self.length)? = byte.to_ascii_lowercase();
        self.length += 1;
        Some(())
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }

    /// Whether `name`, which must be lower-case ASCII, has the same folded form.
    pub fn is(&self, name: &str) -> bool {
        let name = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        name.eq(self.as_str().bytes())
    }
}

/// Returns the meaning of a field of a chat request; `None` for a field that the gateway passes
/// through. The correct spelling of a field that the gateway reads is [`Meaning::Ours`] as well.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    use Meaning::{Container, ForeignCap, ModelChoice, Multiplier, Ours};
    if let Some(name) = OURS.into_iter().find(|ours| *ours == name) {
        return Some(Ours(name));
    }
    Some(match Folded::new(name)?.as_str() {
        "model" => Ours("model"),
        "messages" => Ours("messages"),
        "stream" => Ours("stream"),
        "streamoptions" => Ours("stream_options"),
        "maxtokens" => Ours("max_tokens"),
        "maxcompletiontokens" => Ours("max_completion_tokens"),
        "n" => Ours("n"),
        // llama.cpp; Ollama
        "npredict" | "numpredict"
        // text-generation-inference, LMDeploy, SGLang; transformers, KoboldCpp
        | "maxnewtokens" | "maxlength"
        // Gemini and the Responses API; Llama, Claude and Titan on Bedrock
        | "maxoutputtokens" | "maxgenlen" | "maxtokenstosample" | "maxtokencount"
        // TensorRT-LLM; Anthropic's completions; NeMo; Aleph Alpha
        | "requestoutputlen" | "maxtokenstogenerate" | "tokenstogenerate" | "maxoutputlength"
        | "maxoutputlen" | "maximumtokens" => ForeignCap,
        // completions of OpenAI and vLLM; llama.cpp; transformers; Gemini; Cohere; AI21
        "bestof" | "ncmpl" | "numreturnsequences" | "candidatecount" | "numgenerations"
        | "numresults" | "numbeams" | "usebeamsearch" => Multiplier,
        // OpenRouter; LiteLLM
        "models" | "fallbacks" | "contextwindowfallbacks" | "contentpolicyfallbacks"
        | "defaultfallbacks" | "modellist" | "apibase" | "baseurl"
        // LM Studio; adapters of LoRAX and SGLang, each of which selects another model
        | "draftmodel" | "adapters" | "adapterid" | "adaptersource" | "lorapath" => ModelChoice,
        // Ollama; LiteLLM; Gemini; text-generation-inference; SGLang; Bedrock; transformers; Dynamo
        "options" | "extrabody" | "generationconfig" | "parameters" | "samplingparams"
        | "inferenceconfig" | "samplingparameters" | "modelkwargs" | "generationkwargs"
        | "extraargs" | "nvext" | "additionalmodelrequestfields" | "textgenerationconfig" => Container,
        _ => return None,
    })
}

/// Refuses the field `key` of the object at `parent`, which some servers interpret as `name`.
pub fn ambiguous(parent: &str, key: &str, name: &str) -> Refusal {
    let path = path(parent, key);
    let message = format!(
        "`{path}` is not `{name}`, but some servers take it for that; remove it, or write `{name}`"
    );
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(&path), message)
}

/// Returns the path of the field `key` of the object at `parent`, for messages to clients:
/// printable, with at most 64 characters per name.
pub fn path(parent: &str, key: &str) -> String {
    let mut path = parent.to_owned();
    if !path.is_empty() {
        path.push('.');
    }
    for character in key.chars().take(64) {
        if character.is_ascii_graphic() {
            path.push(character);
        } else {
            path.extend(character.escape_unicode());
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, expected: Option<Meaning>) {
        assert_eq!(meaning(name), expected, "{name}");
    }

    #[test]
    fn recognises_names_in_every_case_and_spelling() {
        for name in ["stream", "Stream", "STREAM", "\u{17f}tream", "\u{fb06}ream", "_stream"] {
            check(name, Some(Meaning::Ours("stream")));
        }
        for name in ["max_tokens", "maxTokens", "MAX-TOKENS", "max_to\u{212a}en\u{17f}"] {
            check(name, Some(Meaning::Ours("max_tokens")));
        }
        for name in ["max_complet\u{131}on_tokens", "MAX_COMPLET\u{130}ON_TOKENS"] {
            check(name, Some(Meaning::Ours("max_completion_tokens")));
        }
        for name in ["n_predict", "N_Predict", "nPredict", "numPredict", "maxOutputTokens"] {
            check(name, Some(Meaning::ForeignCap));
        }
        check("bestOf", Some(Meaning::Multiplier));
        check("Models", Some(Meaning::ModelChoice));
        for name in ["contextWindowFallbacks", "content_policy_fallbacks", "draft_model"] {
            check(name, Some(Meaning::ModelChoice));
        }
        for name in ["max_tokens_to_generate", "tokensToGenerate"] {
            check(name, Some(Meaning::ForeignCap));
        }
        for name in ["extra_body", "model_kwargs", "additionalModelRequestFields"] {
            check(name, Some(Meaning::Container));
        }
    }

    #[test]
    fn other_names_have_no_meaning() {
        let long = "max_tokens".repeat(100_000);
        for name in ["", "_", "temperature", "top_p", "tools", "modell", "\u{430}model", &long] {
            check(name, None);
        }
    }

    /// The non-ASCII characters that fold to ASCII letters by Unicode's tables.
    #[test]
    fn folding_finds_every_character_that_folds_to_ascii() {
        let folded = |character: char| {
            let folded = Folded::new(character.encode_utf8(&mut [0; 4]))?;
            Some((character, folded.as_str().to_owned())).filter(|(_, text)| !text.is_empty())
        };
        let found: Vec<_> = ('\u{80}'..=char::MAX).filter_map(folded).collect();
        let expected = [
            ('ß', "ss"),
            ('\u{130}', "i"),
            ('\u{131}', "i"),
            ('\u{17f}', "s"),
            ('\u{1e9e}', "ss"),
            ('\u{212a}', "k"),
            ('\u{fb00}', "ff"),
            ('\u{fb01}', "fi"),
            ('\u{fb02}', "fl"),
            ('\u{fb03}', "ffi"),
            ('\u{fb04}', "ffl"),
            ('\u{fb05}', "st"),
            ('\u{fb06}', "st"),
        ];
        assert_eq!(found, expected.map(|(character, text)| (character, text.to_owned())));
    }

    #[test]
    fn paths_escape_and_truncate_names() {
        assert_eq!(path("", "Model"), "Model");
        assert_eq!(path("a", "max_to\u{212a}ens\u{202e}"), r"a.max_to\u{212a}ens\u{202e}");
        assert_eq!(path("", &"x".repeat(100)).len(), 64);
    }
}
