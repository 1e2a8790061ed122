//! An upstream that reads requests leniently, in all ways that real servers do, and answers at the
//! length that such a parser permits.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use simulator::{RequestEnd, TruthEntry};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::{chunk, json_answer, stream_head};

/// The upstream's name of the model, the same for all parsers.
pub(super) const UPSTREAM_MODEL: &str = "upstream-model";
/// The tokens of an answer without a cap.
const UNCAPPED: u64 = 2_000;
/// The reported prompt tokens of every request.
const PROMPT: u64 = 10;
/// The fields that multiply answers.
const MULTIPLIERS: [&str; 5] =
    ["n", "best_of", "n_cmpl", "num_return_sequences", "candidate_count"];

/// How names of fields are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyMatching {
    /// Exactly; of duplicates, the first wins.
    FirstWins,
    /// Exactly; of duplicates, the last wins.
    LastWins,
    /// Ignoring case, as Go does; of duplicates, the last wins.
    Folded,
    /// Ignoring case, `_` and `-`; of duplicates, the last wins.
    Coarse,
}

/// How an upstream reads requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct LenientParser {
    /// The field with precedence over `max_tokens`, as a path: `options.num_predict`.
    pub(super) cap: &'static str,
    /// How it matches names.
    pub(super) keys: KeyMatching,
}

/// The upstream. Stops on drop.
pub(super) struct LenientUpstream {
    url: String,
    served: Arc<Mutex<Vec<TruthEntry>>>,
    _serving: JoinSet<()>,
}

/// A JSON value. Members of objects keep their order.
enum Json {
    Object(Vec<(String, Json)>),
    Number(f64),
    Text(String),
    Flag(bool),
    Other,
}

// === impl LenientParser ===

impl LenientParser {
    /// Returns a parser for each combination of a cap field and a way of matching names.
    pub(super) fn all() -> Vec<Self> {
        const CAPS: [&str; 16] = [
            "max_tokens",
            "max_completion_tokens",
            "n_predict",
            "num_predict",
            "max_new_tokens",
            "max_length",
            "max_output_tokens",
            "max_gen_len",
            "max_tokens_to_sample",
            "request_output_len",
            "options.num_predict",
            "parameters.max_new_tokens",
            "sampling_params.max_new_tokens",
            "generation_config.max_output_tokens",
            "extra_body.max_tokens",
            "extra_body.options.num_predict",
        ];
        let keys = [
            KeyMatching::FirstWins,
            KeyMatching::LastWins,
            KeyMatching::Folded,
            KeyMatching::Coarse,
        ];
        CAPS.into_iter().flat_map(|cap| keys.map(|keys| Self { cap, keys })).collect()
    }

    fn find<'j>(&self, mut json: &'j Json, path: &str) -> Option<&'j Json> {
        for name in path.split('.') {
            let Json::Object(members) = json else { return None };
            let mut found =
                members.iter().filter(|(key, _)| self.keys.fold(key) == self.keys.fold(name));
            let (_, value) = match self.keys {
                KeyMatching::FirstWins => found.next(),
                KeyMatching::LastWins | KeyMatching::Folded | KeyMatching::Coarse => {
                    found.next_back()
                }
            }?;
            json = value;
        }
        Some(json)
    }

    /// Returns the cap on each answer; `None` if it is negative or not a number.
    fn cap(&self, body: &Json) -> Option<u64> {
        let caps = [self.cap, "max_tokens", "max_completion_tokens"];
        let cap = caps.into_iter().find_map(|cap| match self.find(body, cap)? {
            Json::Number(cap) => Some(*cap),
            _ => None,
        })?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        (cap >= 0.0).then_some(cap as u64)
    }

    fn choices(&self, body: &Json) -> u64 {
        let counts = MULTIPLIERS.into_iter().filter_map(|name| match self.find(body, name)? {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it saturates"
            )]
            Json::Number(count) => Some((*count as u64).min(100)),
            _ => None,
        });
        counts.max().unwrap_or(1)
    }

    fn flag(&self, body: &Json, path: &str) -> bool {
        matches!(self.find(body, path), Some(Json::Flag(true)))
    }
}

impl KeyMatching {
    fn fold(self, name: &str) -> String {
        let lower = |character| match character {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        };
        match self {
            Self::FirstWins | Self::LastWins => name.to_owned(),
            Self::Folded => name.chars().map(lower).collect(),
            Self::Coarse => name.chars().filter(|c| !matches!(c, '_' | '-')).map(lower).collect(),
        }
    }
}

// === impl LenientUpstream ===

impl LenientUpstream {
    /// Listens on a free port.
    ///
    /// # Panics
    /// If there is none.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = Arc::new(Mutex::new(Vec::new()));
        let mut serving = JoinSet::new();
        let log = served.clone();
        serving.spawn(async move {
            let (parsers, mut answering) = (Arc::new(LenientParser::all()), JoinSet::new());
            while let Ok((stream, _)) = listener.accept().await {
                let (parsers, log) = (parsers.clone(), log.clone());
                answering.spawn(async move { _ = answer(stream, &parsers, &log).await });
                while answering.try_join_next().is_some() {}
            }
        });
        Self { url, served, _serving: serving }
    }

    /// Returns the base URL whose requests are read by the parser at `index` in
    /// [`LenientParser::all`].
    pub(super) fn url(&self, index: usize) -> String {
        format!("{}/{index}/v1", self.url)
    }

    /// Returns the requests and answers since the last call.
    pub(super) fn take(&self) -> Vec<TruthEntry> {
        std::mem::take(&mut self.served.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn answer(
    mut stream: TcpStream,
    parsers: &[LenientParser],
    log: &Mutex<Vec<TruthEntry>>,
) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "the request breaks off");
        let text = std::str::from_utf8(&bytes)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = header(head, "content-length").and_then(|length| length.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head, body);
        }
    };
    let index = head.split('/').nth(1).and_then(|index| index.parse::<usize>().ok());
    let parser = index.and_then(|index| parsers.get(index)).copied();
    let parser = parser.unwrap_or(LenientParser { cap: "max_tokens", keys: KeyMatching::LastWins });
    let body: Json = serde_json::from_str(body)?;

    let (cap, choices) = (parser.cap(&body), parser.choices(&body));
    let tokens = cap.unwrap_or(UNCAPPED).min(UNCAPPED);
    let is_stream = parser.flag(&body, "stream");
    let shows_usage = !is_stream || parser.flag(&body, "stream_options.include_usage");
    let completion = tokens * choices;
    let model = match parser.find(&body, "model") {
        Some(Json::Text(model)) => model.clone(),
        _ => String::new(),
    };
    let mut entry = TruthEntry {
        id: header(head, "x-request-id").map(str::to_owned),
        model,
        stream: is_stream,
        end: Some(RequestEnd::Gone),
        prompt_tokens: PROMPT,
        completion_tokens: completion,
        completion_tokens_whole: completion,
        usage_sent: shows_usage,
        ..TruthEntry::default()
    };
    let sent = if is_stream {
        send_stream(&mut stream, tokens, choices, shows_usage).await
    } else {
        let body = json!({ "choices": choices_of("message", tokens, choices), "usage": usage(completion) });
        stream.write_all(json_answer(200, &body.to_string()).as_bytes()).await
    };
    if sent.is_ok() {
        entry.end = Some(RequestEnd::Answered);
    }
    log.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    stream.shutdown().await?;
    Ok(())
}

async fn send_stream(
    stream: &mut TcpStream,
    tokens: u64,
    choices: u64,
    shows_usage: bool,
) -> std::io::Result<()> {
    let event = |json: &serde_json::Value| chunk(&format!("data: {json}\n\n"));
    stream.write_all(stream_head().as_bytes()).await?;
    let pieces = json!({ "choices": choices_of("delta", tokens, choices) });
    stream.write_all(event(&pieces).as_bytes()).await?;
    if shows_usage {
        let last = json!({ "choices": [], "usage": usage(tokens * choices) });
        stream.write_all(event(&last).as_bytes()).await?;
    }
    stream.write_all(chunk("data: [DONE]\n\n").as_bytes()).await?;
    stream.write_all(chunk("").as_bytes()).await
}

/// Returns `choices` choices of `tokens` tokens each; the first half of the tokens is reasoning.
fn choices_of(piece: &str, tokens: u64, choices: u64) -> serde_json::Value {
    let words = |count: u64| "a ".repeat(usize::try_from(count).unwrap_or(0));
    let of = |index: u64| {
        let text = json!({ "reasoning_content": words(tokens / 2), "content": words(tokens - tokens / 2) });
        let mut choice = json!({ "index": index, "finish_reason": "stop" });
        choice[piece] = text;
        choice
    };
    (0..choices).map(of).collect()
}

fn usage(completion: u64) -> serde_json::Value {
    json!({ "prompt_tokens": PROMPT, "completion_tokens": completion })
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
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
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Json::Other)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Json, E> {
        Ok(Json::Flag(flag))
    }

    #[expect(clippy::cast_precision_loss, reason = "a cap need not be exact here")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    #[expect(clippy::cast_precision_loss, reason = "a cap need not be exact here")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Number(number as f64))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }
}
