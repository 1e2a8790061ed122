//! Fuzzes requests to both endpoints. Invariant: even lenient JSON parsers read from the upstream request the same
//! values that the gateway used for holds and records.
//!
//! An input that begins with `{` is the body. Any other input is a program that generates a body from relevant
//! names, in several spellings, and relevant values.
#![no_main]

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use domain::upstream::Profile;
use translate::dialect::Dialect;
use translate::plan::{ReasoningOutput, ReasoningSealer};
use translate::request::{StoredHistory, HostedTools, InputModalities, Request, TranslateOptions};
use domain::wire::chat::ChatRequest;
use domain::wire::splice::join;
use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use unicase::UniCase;

/// The model's name at the upstream.
const UPSTREAM_MODEL: &str = "up";
/// The output cap that the balance allows.
const PAYABLE: u64 = 50;

/// The output caps that the gateway may send.
const CAPS: [&str; 2] = ["max_tokens", "max_completion_tokens"];
/// Output caps of other servers, and parameters that multiply the output.
const FOREIGN: [&str; 14] = [
    "n_predict",
    "num_predict",
    "max_new_tokens",
    "max_length",
    "max_output_tokens",
    "max_gen_len",
    "max_tokens_to_sample",
    "max_token_count",
    "request_output_len",
    "best_of",
    "n_cmpl",
    "num_return_sequences",
    "candidate_count",
    "num_generations",
];
/// Objects in which servers look for these parameters.
const CONTAINERS: [&str; 6] = [
    "options",
    "extra_body",
    "generation_config",
    "parameters",
    "sampling_params",
    "inference_config",
];
/// Further names for generated bodies.
const OTHERS: [&str; 16] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "include_usage",
    "n",
    "models",
    "fallbacks",
    "role",
    "content",
    "tool_calls",
    "temperature",
    "input",
    "tools",
    "a\\\"b",
    "\\u0000",
];
/// Values for generated bodies.
const VALUES: [&str; 24] = [
    "1",
    "3",
    "60",
    "1000000",
    "18446744073709551615",
    "18446744073709551616",
    "0",
    "-1",
    "-0",
    "1.0",
    "1e2",
    "null",
    "true",
    "false",
    "\"cheap\"",
    "\"flagship\"",
    "\"60\"",
    "\"},{\\\"\"",
    "[]",
    "[{}]",
    "[{\"role\":\"user\",\"content\":\"hi\"}]",
    "{}",
    "[1,[2],{\"n\":3}]",
    " 7 ",
];

/// How a server's JSON parser finds a member of an object.
#[derive(Clone, Copy, Debug)]
enum Reader {
    /// By exact name; the first of several members wins.
    FirstWins,
    /// By exact name; the last of several members wins.
    LastWins,
    /// Like Go's `encoding/json`: with simple case folding; the last of several members wins.
    Go,
    /// With full Unicode case folding; the last of several members wins.
    Unicode,
}

const READERS: [Reader; 4] = [Reader::FirstWins, Reader::LastWins, Reader::Go, Reader::Unicode];

/// A JSON value that keeps the order of members and duplicate names.
#[derive(Clone, Debug, PartialEq)]
enum Json {
    Null,
    Flag(bool),
    /// The number's text.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

struct Sealer;

impl ReasoningSealer for Sealer {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, sealed: &str) -> Option<String> {
        Some(sealed.to_owned())
    }
}

fuzz_target!(|input: &[u8]| {
    let body = match input.first() {
        Some(b'{') => input.to_vec(),
        _ => write_body(input).into_bytes(),
    };
    check_chat(&body);
    check_responses(&body);
});

fn check_chat(body: &[u8]) {
    let Ok(request) = ChatRequest::peek(body) else { return };
    for profile in [Profile::Generic, Profile::OpenAi] {
        let dialect = Dialect::of(profile);
        for cap in [None, Some(PAYABLE)] {
            let edits = request.edits(UPSTREAM_MODEL, cap, dialect.output_cap_fields);
            let sent = join(body, &edits);
            let Some(json) = parse(&sent) else { continue };
            let held = match (request.max_output, cap) {
                (Some(own), Some(cap)) => Some(own.min(cap)),
                (own, cap) => own.or(cap),
            };
            check_sent(&json, &request, held, dialect.output_cap_fields, &sent);
        }
    }
}

/// Parses the body of an upstream request; returns `None` if it is valid JSON that serde cannot represent, for
/// example because of its depth.
fn parse(sent: &Bytes) -> Option<Json> {
    match serde_json::from_slice(sent) {
        Ok(json) => Some(json),
        // Forwarding must not make a body less valid, but numbers of the client may be out of range.
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("recursion limit")
                    || text.contains("out of range")
                    || text.contains("surrogate")
                    || text.contains("hex escape"),
                "{text}: {}",
                String::from_utf8_lossy(sent)
            );
            None
        }
    }
}

fn check_sent(
    json: &Json,
    request: &ChatRequest<'_>,
    held: Option<u64>,
    caps: &[&str],
    sent: &[u8],
) {
    let shown = String::from_utf8_lossy(sent);
    for reader in READERS {
        let read = |name: &str| reader.find(json, name);
        assert_eq!(
            read("model"),
            Some(&Json::Text(UPSTREAM_MODEL.to_owned())),
            "{reader:?} {shown}"
        );
        let stream = read("stream") == Some(&Json::Flag(true));
        assert_eq!(stream, request.stream, "{reader:?} {shown}");
        if stream {
            let options = read("stream_options").expect("there are options");
            let usage = reader.find(options, "include_usage");
            assert_eq!(usage, Some(&Json::Flag(true)), "{reader:?} {shown}");
        }
        let choices = count(read("n")).unwrap_or(1);
        assert_eq!(choices, request.choices, "{reader:?} {shown}");
        for name in CAPS {
            let read = count(read(name));
            assert!(read.is_none() || read == held, "{reader:?} {name} {held:?} {shown}");
        }
        let obeyed: Vec<_> = caps.iter().filter_map(|name| count(read(name))).collect();
        assert_eq!(obeyed, Vec::from_iter(held), "one cap, {reader:?} {shown}");
        check_foreign(reader, json, &shown, 0);
        let Some(Json::Array(messages)) = read("messages") else { panic!("{shown}") };
        for message in messages {
            for name in ["role", "content", "tool_calls"] {
                let strict = Reader::LastWins.find(message, name);
                assert_eq!(reader.find(message, name), strict, "{reader:?} {shown}");
            }
        }
    }
}

/// Checks that no server finds a foreign cap or multiplier, neither at the top level nor in containers.
fn check_foreign(reader: Reader, json: &Json, shown: &str, depth: usize) {
    for name in FOREIGN {
        let found = reader.find(json, name);
        let harmless = match found {
            None | Some(Json::Null | Json::Flag(false)) => true,
            Some(Json::Number(number)) => number == "1" && FOREIGN[9..].contains(&name),
            Some(_) => false,
        };
        assert!(harmless, "{reader:?} {name} {found:?} {shown}");
    }
    if depth > 0 {
        for name in CAPS.into_iter().chain(["model", "n", "stream", "messages", "stream_options"]) {
            assert_eq!(reader.find(json, name), None, "{reader:?} {shown}");
        }
    }
    for name in CONTAINERS {
        if let Some(object @ Json::Object(_)) = reader.find(json, name) {
            check_foreign(reader, object, shown, depth + 1);
        }
    }
}

fn check_responses(body: &[u8]) {
    let Ok(request) = Request::parse(body) else { return };
    let Ok(json) = serde_json::from_slice::<Json>(body) else { return };
    let shown = String::from_utf8_lossy(body);
    for reader in READERS {
        let read = |name: &str| reader.find(&json, name);
        assert_eq!(
            read("model"),
            Some(&Json::Text(request.model.to_string())),
            "{reader:?} {shown}"
        );
        assert_eq!(read("stream") == Some(&Json::Flag(true)), request.stream, "{reader:?} {shown}");
        let cap = count(read("max_output_tokens"));
        assert_eq!(cap, request.max_output_tokens, "{reader:?} {shown}");
    }
    let references = HashMap::new();
    let options = TranslateOptions {
        dialect: Dialect::of(Profile::Generic),
        inputs: InputModalities { images: true, files: true, audio: true },
        verbosity: true,
        strict: false,
        hosted_tools: HostedTools::Omit,
        reasoning: ReasoningOutput::Summary,
        sealer: &Sealer,
        history: StoredHistory::Loaded { items: &[], references: &references },
    };
    let Ok(translated) = request.translate(&options) else { return };
    let sent = translated.chat_body(UPSTREAM_MODEL, Some(PAYABLE));
    let Some(json) = parse(&sent) else { return };
    let held = request.max_output_tokens.map_or(PAYABLE, |own| own.min(PAYABLE));
    for reader in READERS {
        let read = |name: &str| reader.find(&json, name);
        assert_eq!(
            read("model"),
            Some(&Json::Text(UPSTREAM_MODEL.to_owned())),
            "{reader:?} {shown}"
        );
        assert_eq!(read("stream"), Some(&Json::Flag(request.stream)), "{reader:?} {shown}");
        assert_eq!(count(read("max_tokens")), Some(held), "{reader:?} {shown}");
        assert_eq!(read("n"), None, "{reader:?} {shown}");
        assert_eq!(read("max_completion_tokens"), None, "{reader:?} {shown}");
        check_foreign(reader, &json, &shown, 0);
    }
}

fn count(value: Option<&Json>) -> Option<u64> {
    match value {
        Some(Json::Number(number)) => Some(number.parse().expect("a count")),
        None | Some(Json::Null) => None,
        Some(other) => panic!("{other:?} is no count"),
    }
}

/// Generates a body from `program`.
fn write_body(program: &[u8]) -> String {
    const ASKED: &str = r#""model":"cheap","messages":[{"role":"user","content":"hi"}]"#;
    const RESPONSE: &str = r#""model":"cheap","input":"hi""#;
    let mut bytes = program.iter().copied();
    let head = bytes.next().unwrap_or_default();
    let mut body = "{".to_owned();
    let mut open = Vec::new();
    let asked = if head & 4 == 0 { ASKED } else { RESPONSE };
    if head & 3 == 1 {
        body.push_str(asked);
    }
    while let (Some(name), Some(spelling)) = (bytes.next(), bytes.next()) {
        if name == 255 {
            if let Some(bracket) = open.pop() {
                body.push_str(bracket);
            }
            continue;
        }
        if !body.ends_with('{') {
            body.push(',');
        }
        let names = CAPS.len() + FOREIGN.len() + CONTAINERS.len() + OTHERS.len();
        let all = CAPS.iter().chain(&FOREIGN).chain(&CONTAINERS).chain(&OTHERS);
        let name = all.clone().nth(usize::from(name) % names).expect("below their number");
        body.push('"');
        body.push_str(&spell(name, spelling));
        body.push_str(if spelling & 128 == 0 { "\":" } else { "\" : " });
        let value = bytes.next().unwrap_or_default();
        if CONTAINERS.contains(name) && value & 1 == 0 {
            body.push('{');
            open.push("}");
        } else if value > 240 {
            body.push_str("[{");
            open.push("}]");
        } else {
            body.push_str(VALUES[usize::from(value) % VALUES.len()]);
        }
    }
    while let Some(bracket) = open.pop() {
        body.push_str(bracket);
    }
    if head & 3 != 1 {
        if !body.ends_with('{') {
            body.push(',');
        }
        body.push_str(asked);
    }
    body.push('}');
    body
}

/// Returns a spelling of `name` that some server may accept.
fn spell(name: &str, how: u8) -> String {
    let pick = usize::from(how >> 3 & 15);
    let at = pick % name.len().max(1);
    match how & 7 {
        1 => name.to_uppercase(),
        2 => name.replace('k', "\u{212a}").replace('s', "\u{17f}"),
        3 => name.replace('_', if pick & 1 == 0 { "" } else { "-" }),
        4 if name.is_char_boundary(at) && !name.contains('\\') => {
            let (before, rest) = name.split_at(at);
            let first = rest.chars().next().unwrap_or('x');
            format!("{before}\\u{:04x}{}", u32::from(first), &rest[first.len_utf8()..])
        }
        5 => name.replace("st", "\u{fb06}").replace('i', "\u{131}"),
        6 if !name.contains('\\') => {
            let turn = |(place, character): (usize, char)| {
                if place == at { character.to_ascii_uppercase() } else { character }
            };
            name.chars().enumerate().map(turn).collect()
        }
        _ => name.to_owned(),
    }
}

// === impl Reader ===

impl Reader {
    fn find<'j>(self, json: &'j Json, name: &str) -> Option<&'j Json> {
        let Json::Object(members) = json else { return None };
        let mut found = members.iter().filter(|(key, _)| self.matches(key, name));
        let member = match self {
            Self::FirstWins => found.next(),
            Self::LastWins | Self::Go | Self::Unicode => found.next_back(),
        };
        member.map(|(_, value)| value)
    }

    fn matches(self, key: &str, name: &str) -> bool {
        let folded = |character| match character {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        };
        match self {
            Self::FirstWins | Self::LastWins => key == name,
            Self::Go => key.chars().map(folded).eq(name.chars()),
            Self::Unicode => UniCase::unicode(key) == UniCase::unicode(name),
        }
    }
}

// === impl Json ===

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Json, M::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Json::Object(members))
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<Json, S::Error> {
        let mut array = Vec::new();
        while let Some(element) = elements.next_element()? {
            array.push(element);
        }
        Ok(Json::Array(array))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Flag(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number.to_string()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
}
