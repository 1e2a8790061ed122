//! Field names as lenient servers read them, and what those names stand for.
//!
//! Servers written in Go match the names of fields without regard to case, some ignore `_` and `-` as
//! well, others take camel case. A name is therefore compared in a folded form which is at least as
//! coarse as that of any such server, so that a field that one of them could take for a field of ours is
//! found. Names are never rewritten: what they stand for decides whether a field passes, is left out
//! or is refused.

use crate::refusal::{Refusal, RequestFault};

/// The longest folded name that stands for anything, in bytes.
const MAX_LENGTH: usize = 28;

/// The fields that the gateway reads.
const OURS: [&str; 7] =
    ["model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "n"];

/// What a field's name stands for, however it is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A field that the gateway reads, under its right spelling, which this is.
    Ours(&'static str),
    /// A cap on the output that some server obeys and the gateway does not.
    ForeignCap,
    /// A number of answers, which some server produces and bills.
    Multiplier,
    /// Other models that some server may answer with.
    ModelChoice,
    /// An object in which some server looks for any of these.
    Container,
}

/// A name in the form in which names are compared.
pub struct Folded {
    bytes: [u8; MAX_LENGTH],
    length: usize,
}

impl Folded {
    /// Folds a name; `None` if it is too long or folds to anything but ASCII, so that it stands for
    /// nothing.
    ///
    /// This is full case folding, with the tables of the standard library: to lower case, to upper case
    /// and back, so that `ſ` becomes `s`, the Kelvin sign `k`, and the ligature `ﬁ` `fi`. It also takes
    /// the dotless and the dotted `i` of Turkish for an `i`, as comparisons by upper case do, which case
    /// folding alone does not.
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

    /// Whether `name`, which is ASCII in lower case, folds to the same.
    pub fn is(&self, name: &str) -> bool {
        let name = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
        name.eq(self.as_str().bytes())
    }
}

/// What a field of a chat request stands for; `None` for a field that is of no concern to the gateway.
/// The right spelling of a field that the gateway reads is [`Meaning::Ours`], too.
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
        // LM Studio; adapters of LoRAX and SGLang, each of which is a model by another name
        | "draftmodel" | "adapters" | "adapterid" | "adaptersource" | "lorapath" => ModelChoice,
        // Ollama; LiteLLM; Gemini; text-generation-inference; SGLang; Bedrock; transformers; Dynamo
        "options" | "extrabody" | "generationconfig" | "parameters" | "samplingparams"
        | "inferenceconfig" | "samplingparameters" | "modelkwargs" | "generationkwargs"
        | "extraargs" | "nvext" | "additionalmodelrequestfields" | "textgenerationconfig" => Container,
        _ => return None,
    })
}

/// Refuses the member `key` of what is at `parent`, which some servers read as `name`.
pub fn ambiguous(parent: &str, key: &str, name: &str) -> Refusal {
    let path = path(parent, key);
    let message = format!(
        "`{path}` is not `{name}`, but some servers take it for that; remove it, or write `{name}`"
    );
    Refusal::invalid(RequestFault::UnsupportedParameter, Some(&path), message)
}

/// The path of the member `key` of what is at `parent`, as it is shown to a client: printable, and each
/// name no longer than 64 characters.
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
    fn names_are_found_in_every_case_and_spelling() {
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
    fn other_names_stand_for_nothing() {
        let long = "max_tokens".repeat(100_000);
        for name in ["", "_", "temperature", "top_p", "tools", "modell", "\u{430}model", &long] {
            check(name, None);
        }
    }

    /// The characters outside of ASCII that are letters of ASCII in another case, by Unicode's tables.
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
    fn a_name_is_shown_so_that_it_can_be_told_from_others() {
        assert_eq!(path("", "Model"), "Model");
        assert_eq!(path("a", "max_to\u{212a}ens\u{202e}"), r"a.max_to\u{212a}ens\u{202e}");
        assert_eq!(path("", &"x".repeat(100)).len(), 64);
    }
}
