//! Fuzzes the translation of Responses requests: every input is either refused or becomes a chat completions request
//! that is valid JSON.
#![no_main]

use std::collections::HashMap;

use domain::upstream::Profile;
use translate::dialect::Dialect;
use translate::plan::{ReasoningOutput, ReasoningSealer};
use translate::request::{StoredHistory, HostedTools, InputModalities, Request, TranslateOptions};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The part of a chat body that every translation has. Texts that pass as they came may contain lone surrogates
/// (`"\\ud800"`), which are JSON (RFC 8259, 8.2) although no Rust string can hold them.
#[derive(Deserialize)]
struct ChatBody<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// A sealer that leaves text unchanged.
struct Sealer;

impl ReasoningSealer for Sealer {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, sealed: &str) -> Option<String> {
        Some(sealed.to_owned())
    }
}

const PROFILES: [Profile; 6] = [
    Profile::Generic,
    Profile::OpenAi,
    Profile::Vllm,
    Profile::LlamaCpp,
    Profile::Ollama,
    Profile::SgLang,
];

fuzz_target!(|body: &[u8]| {
    let Ok(request) = Request::parse(body) else { return };
    let references = HashMap::new();
    for (number, profile) in PROFILES.into_iter().enumerate() {
        let options = TranslateOptions {
            dialect: Dialect::of(profile),
            inputs: InputModalities { images: number != 3, files: number != 4, audio: number != 5 },
            verbosity: number % 2 == 0,
            strict: number == 1,
            hosted_tools: if number == 2 { HostedTools::Omit } else { HostedTools::Refuse },
            reasoning: ReasoningOutput::Summary,
            sealer: &Sealer,
            history: StoredHistory::Loaded { items: &[], references: &references },
        };
        let Ok(translated) = request.translate(&options) else { continue };
        let chat = translated.chat_body("upstream", None);
        let chat: ChatBody<'_> = serde_json::from_slice(&chat).expect("it is JSON");
        assert!(!chat.messages.is_empty());
        let echo = format!("{{{}}}", translated.plan.echo);
        serde_json::from_str::<IgnoredAny>(&echo).expect("it is JSON");
    }
    for item in request.input_items(7, &references) {
        serde_json::from_str::<IgnoredAny>(item.json.get()).expect("it is JSON");
    }
});
