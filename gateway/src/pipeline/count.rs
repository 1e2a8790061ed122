//! Counts tokens that an upstream does not report.
//!
//! It uses the o200k tokenizer and the overheads that OpenAI documents for its chat format. Other models
//! tokenize differently, so the record says `counted`. The time is proportional to the text. Therefore only
//! short text is counted inline, by `coverage.rs`; all other counts run on blocking threads.

use std::ops::AddAssign;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use memchr::memmem::Finder;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use domain::usage::{Tokens, Usage};

/// The tokens of each message beside its text.
const TOKENS_PER_MESSAGE: u64 = 3;
/// The tokens that begin every answer.
const TOKENS_PER_ANSWER: u64 = 3;

/// Members of a request that are not part of its prompt.
const PARAMETERS: [&str; 14] = [
    "model",
    "user",
    "metadata",
    "stream_options",
    "logit_bias",
    "stop",
    "modalities",
    "tool_choice",
    "service_tier",
    "reasoning",
    "reasoning_effort",
    "safety_identifier",
    "prompt_cache_key",
    "previous_response_id",
];
/// Members of messages that are identifiers while they are short.
const IDS: [&str; 7] = ["id", "type", "tool_call_id", "call_id", "detail", "status", "index"];
/// A longer value of [`IDS`] is text, in bytes.
const MAX_ID_BYTES: usize = 64;
/// Members of messages whose values are text, or contain it in members of this list.
const TEXT_MEMBERS: [&str; 16] = [
    "role",
    "content",
    "name",
    "text",
    "refusal",
    "reasoning",
    "reasoning_content",
    "thinking",
    "tool_calls",
    "function",
    "function_call",
    "arguments",
    "output",
    "summary",
    "input",
    "image_url",
];
/// Members whose values are images, audio and files, as data URLs or encoded.
const DATA_MEMBERS: [&str; 4] = ["image_url", "url", "file_data", "data"];
/// The longest media type at the beginning of a data URL, in bytes.
const MAX_MEDIA_TYPE: usize = 128;
/// Shorter strings are text, in bytes.
const MIN_DATA_BYTES: usize = 256;

/// The number of concurrent counts; each occupies a core while it runs.
const MAX_CONCURRENT_COUNTS: usize = 2;

/// Longer requests are not counted before admission, in bytes: nothing has been paid for them yet.
const MAX_ADMISSION_BYTES: usize = 4 * 1024 * 1024;

/// Counts on blocking threads, a few at a time.
#[derive(Clone)]
pub struct Counter {
    slots: Arc<Semaphore>,
    /// A separate limit for requests that are not admitted yet, so that they do not delay answers.
    admission: Arc<Semaphore>,
}

/// A running count of a whole request; yields `None` if it panicked. Dropping the handle ends the task, but a
/// count that has begun on a blocking thread runs to its end.
pub type Counting = AbortOnDropHandle<Option<Usage>>;
/// A running count of a batch of an answer's text; dropped like [`Counting`].
pub type BatchCount = AbortOnDropHandle<Option<TextTokens>>;
/// A running count of a request's input; dropped like [`Counting`].
pub type InputCount = AbortOnDropHandle<Option<InputTokens>>;

/// The tokens of an answer's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextTokens {
    /// All tokens.
    pub output: u64,
    /// The reasoning tokens among them.
    pub reasoning: u64,
}

/// Text that was taken to be counted, each string separately.
#[derive(Clone, Debug, Default)]
pub struct UncountedText {
    /// Text, and the names and arguments of calls.
    pub output: Vec<String>,
    /// Reasoning.
    pub reasoning: Vec<String>,
}

/// The tokens of a request's text, without its images, audio and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputTokens(pub u64);

/// The JSON texts of a request: its body, and the items of earlier requests that it continues.
#[derive(Clone, Debug)]
pub struct InputText(Vec<Bytes>);

/// The size of a Responses request with the items that it continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSize {
    /// The length of its text, in bytes.
    pub text_bytes: u64,
    /// An estimate of the tokens of its images, audio and files.
    pub media_tokens: u64,
}

/// What is known of an answer before its rest is counted.
pub struct CountedSoFar {
    /// The request's input.
    pub input: Input,
    /// The tokens counted so far.
    pub counted: TextTokens,
    /// The running count of a batch of its text.
    pub batch: Option<BatchCount>,
}

/// The input of a request.
pub enum Input {
    /// Its token count.
    Counted(u64),
    /// Its body.
    Body(Bytes),
}

impl Default for Counter {
    fn default() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(MAX_CONCURRENT_COUNTS)),
            admission: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Counter {
    /// Counts the rest of an answer and everything before it; `None` if that panicked.
    pub async fn count(self, before: CountedSoFar, rest: UncountedText) -> Option<Usage> {
        let CountedSoFar { input, mut counted, batch } = before;
        if let Some(batch) = batch {
            counted += batch.await.ok()??;
        }
        self.run(move || {
            let input = match input {
                Input::Counted(tokens) => tokens,
                Input::Body(body) => count_request(&body),
            };
            counted += rest.count();
            Usage {
                input: Tokens(input),
                cached: None,
                output: Tokens(counted.output),
                reasoning: Some(Tokens(counted.reasoning)),
            }
        })
        .await
    }

    /// Counts a batch of an answer's text; `None` if that panicked.
    pub async fn count_batch(self, batch: UncountedText) -> Option<TextTokens> {
        self.run(move || batch.count()).await
    }

    /// Counts a request's input; `None` if that panicked.
    pub async fn count_input(self, input: InputText) -> Option<InputTokens> {
        self.run(move || InputTokens(input.0.iter().map(|text| count_request(text)).sum())).await
    }

    /// Counts the input of a request that is not admitted yet; `None` if it is too long, or if that panicked.
    pub async fn count_for_admission(self, input: InputText) -> Option<InputTokens> {
        if input.0.iter().map(Bytes::len).sum::<usize>() > MAX_ADMISSION_BYTES {
            return None;
        }
        let _place = self.admission.clone().acquire_owned().await.ok()?;
        self.count_input(input).await
    }

    async fn run<T: Send + 'static>(self, count: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let slot = self.slots.acquire_owned().await.expect("nobody closes it");
        let counting = tokio::task::spawn_blocking(move || {
            let counted = count();
            drop(slot);
            counted
        });
        counting.await.ok()
    }
}

impl AddAssign for TextTokens {
    fn add_assign(&mut self, more: Self) {
        self.output = self.output.saturating_add(more.output);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }
}

/// Returns the length of the text in a request's body, in bytes: all of it except for the data URLs of images
/// and files in their members.
pub fn text_bytes(body: &[u8]) -> u64 {
    static MARK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b";base64,"));
    let (mut text, mut at) = (0, 0);
    while let Some(found) = MARK.find(&body[at..]) {
        let start = at + found + MARK.needle().len();
        text += start - at;
        let end = memchr::memchr(b'"', &body[start..]).map_or(body.len(), |end| start + end);
        if !is_value_of_data_member(&body[..start - MARK.needle().len()]) {
            text += end - start;
        }
        at = end;
    }
    (text + body.len() - at) as u64
}

/// Returns whether `json` ends inside the value of one of [`DATA_MEMBERS`], given that the value contains no
/// quotes so far.
fn is_value_of_data_member(json: &[u8]) -> bool {
    let Some(start) = memchr::memrchr(b'"', &json[json.len().saturating_sub(MAX_MEDIA_TYPE)..])
    else {
        return false;
    };
    let start = json.len().saturating_sub(MAX_MEDIA_TYPE) + start;
    let before = json[..start].trim_ascii_end();
    let Some(name) = before.strip_suffix(b":") else { return false };
    let Some(name) = name.trim_ascii_end().strip_suffix(b"\"") else { return false };
    DATA_MEMBERS.iter().any(|member| {
        name.strip_suffix(member.as_bytes()).is_some_and(|rest| rest.ends_with(b"\""))
    })
}

impl From<Bytes> for InputText {
    fn from(body: Bytes) -> Self {
        Self(vec![body])
    }
}

impl InputText {
    /// Creates the text of a request with this body that continues `items`.
    pub fn of<'a>(body: &Bytes, items: impl Iterator<Item = &'a str>) -> Self {
        let items = items.map(|item| Bytes::copy_from_slice(item.as_bytes()));
        Self(std::iter::once(body.clone()).chain(items).collect())
    }
}

impl InputSize {
    /// The tokens of an image or file, beside those of its data.
    const PART_TOKENS: u64 = 4_096;
    /// The bytes of encoded data per token.
    const DATA_PER_TOKEN: u64 = 8;

    /// Returns the size of a request with this body that continues `items`.
    pub fn of<'a>(body: &'a [u8], items: impl Iterator<Item = &'a str>) -> Self {
        items.map(str::as_bytes).chain([body]).map(Self::of_json).fold(
            Self::default(),
            |sum, it| Self {
                text_bytes: sum.text_bytes.saturating_add(it.text_bytes),
                media_tokens: sum.media_tokens.saturating_add(it.media_tokens),
            },
        )
    }

    fn of_json(json: &[u8]) -> Self {
        static PART: LazyLock<[Finder<'_>; 3]> = LazyLock::new(|| {
            ["\"input_image\"", "\"input_file\"", "\"input_audio\""].map(Finder::new)
        });
        let text_bytes = text_bytes(json);
        let data_bytes = (json.len() as u64).saturating_sub(text_bytes);
        let parts = PART.iter().map(|part| part.find_iter(json).count() as u64).sum::<u64>();
        let of_parts = parts.saturating_mul(Self::PART_TOKENS);
        let media_tokens = of_parts.saturating_add(data_bytes / Self::DATA_PER_TOKEN);
        Self { text_bytes, media_tokens }
    }
}

/// Counts the text of a request, or of one of its items.
fn count_request(json: &[u8]) -> u64 {
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        // A text that is nested too deeply, or is not JSON, is counted as it is.
        return tokens(&String::from_utf8_lossy(json));
    };
    let mut count = TOKENS_PER_ANSWER;
    if let Some(members) = value.as_object() {
        for (name, value) in members {
            count += match (name.as_str(), value) {
                ("messages" | "input", Value::Array(messages)) => {
                    messages.iter().map(message_tokens).sum()
                }
                ("tools" | "functions", tools) => tokens(&tools.to_string()),
                (name, _) if PARAMETERS.contains(&name) => 0,
                (_, value) => prompt_tokens(value),
            };
        }
    }
    count
}

/// Counts one message, member by member.
fn message_tokens(message: &Value) -> u64 {
    let Some(members) = message.as_object() else {
        return TOKENS_PER_MESSAGE + prompt_tokens(message);
    };
    let of_members = members.iter().map(|(name, value)| {
        let mut text = String::new();
        append_member(name, value, &mut text);
        tokens(&text)
    });
    TOKENS_PER_MESSAGE + of_members.sum::<u64>()
}

/// Counts all text in a value.
fn prompt_tokens(value: &Value) -> u64 {
    let mut text = String::new();
    append_text(value, false, &mut text);
    tokens(&text)
}

/// Appends the text in a value to `text`. `with_numbers` includes numbers: the shape of the value is unknown,
/// and a server may write all of it into its prompt. [`append_member`] decides on the names of members.
fn append_text(value: &Value, with_numbers: bool, text: &mut String) {
    match value {
        Value::String(string) => text.push_str(string),
        Value::Array(items) => items.iter().for_each(|item| append_text(item, with_numbers, text)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| append_member(name, value, text));
        }
        Value::Number(number) if with_numbers => text.push_str(&number.to_string()),
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Appends the text in an object member to `text`, with its name unless that is one of [`TEXT_MEMBERS`].
fn append_member(name: &str, value: &Value, text: &mut String) {
    let is_data = DATA_MEMBERS.contains(&name) && value.as_str().is_some_and(is_encoded_data);
    let is_id = IDS.contains(&name) && value.as_str().is_none_or(|id| id.len() <= MAX_ID_BYTES);
    if is_data || is_id {
        return;
    }
    let is_known = TEXT_MEMBERS.contains(&name);
    if !is_known {
        text.push_str(name);
    }
    append_text(value, !is_known, text);
}

/// Returns whether a string is a data URL or encoded data.
fn is_encoded_data(string: &str) -> bool {
    let data = string.split_once(";base64,").map_or(string, |(_, data)| data);
    let is_encoded =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    data.len() >= MIN_DATA_BYTES && data.bytes().all(is_encoded)
}

/// Counts the tokens of a text.
pub(super) fn tokens(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    bpe_openai::o200k_base().count(text) as u64
}

// === impl UncountedText ===

impl UncountedText {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.output.iter().chain(&self.reasoning).map(String::len).sum()
    }

    /// Returns whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.output.is_empty() && self.reasoning.is_empty()
    }

    /// Returns all text as one string.
    pub(super) fn concat(&self) -> String {
        self.output.iter().chain(&self.reasoning).map(String::as_str).collect()
    }

    /// Counts the tokens.
    pub fn count(&self) -> TextTokens {
        let count = |texts: &[String]| texts.iter().map(|text| tokens(text)).sum::<u64>();
        let reasoning = count(&self.reasoning);
        TextTokens { output: count(&self.output) + reasoning, reasoning }
    }

    /// Appends a text, unless it is empty.
    pub(super) fn push(&mut self, text: String, is_reasoning: bool) {
        if !text.is_empty() {
            if is_reasoning { self.reasoning.push(text) } else { self.output.push(text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    fn count(body: &'static [u8], produced: UncountedText) -> Usage {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let input = Input::Body(Bytes::from_static(body));
        let before = CountedSoFar { input, counted: TextTokens::default(), batch: None };
        runtime.block_on(Counter::default().count(before, produced)).unwrap()
    }

    #[test]
    fn counts_what_was_sent_and_produced() {
        let body = br#"{"model":"m","messages":[{"role":"user","content":"hello world"},
            {"role":"user","content":[{"type":"text","text":"hello world"},{"type":"image_url"}]}]}"#;
        let produced = UncountedText {
            output: ["hello world", "hello", " world"].map(str::to_owned).to_vec(),
            reasoning: vec!["hello".to_owned()],
        };
        let usage = count(body, produced);
        assert_eq!(usage.input, Tokens(2 * (3 + 1 + 2) + 3));
        assert_eq!(usage.output, Tokens(2 + 1 + 2));
        assert_eq!(usage.reasoning, Some(Tokens(1)));
    }

    #[test]
    fn all_text_of_a_request_that_a_server_may_put_into_its_prompt_counts() {
        let text = "lorem ipsum dolor sit amet ".repeat(100);
        let least = tokens(&text);
        let message = |more: &str| {
            format!(
                r#"{{"messages":[{{"role":"user","content":"hi"}}]{}}}"#,
                more.replace('$', &text)
            )
        };
        for more in [
            r#","functions":[{"name":"f","description":"$","parameters":{}}]"#,
            r#","response_format":{"type":"json_schema","json_schema":{"description":"$"}}"#,
            r#","documents":[{"text":"$"}]"#,
            r#","prompt":"$""#,
            r#","anything":{"else":["$"]}"#,
            r#","extra":{"id":"$"}"#,
        ] {
            assert!(count_request(message(more).as_bytes()) >= least, "{more}");
        }
        for member in [
            r#""reasoning":"$""#,
            r#""function_call":{"name":"f","arguments":"$"}"#,
            r#""tool_calls":[{"id":"1","function":{"name":"f","arguments":"","description":"$"}}]"#,
            r#""content":[{"type":"new","value":{"deep":"$"}}]"#,
            r#""content":"data:text/plain;base64,$""#,
        ] {
            let body = format!(r#"{{"messages":[{{{}}}]}}"#, member.replace('$', &text));
            assert!(count_request(body.as_bytes()) >= least, "{member}");
        }
        let image = "A".repeat(1_000);
        let body = format!(
            r#"{{"messages":[{{"content":[{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{image}"}}}}]}}]}}"#
        );
        assert_eq!(count_request(body.as_bytes()), 6);
    }

    #[test]
    fn the_size_of_a_responses_request_has_its_media_apart() {
        let data = "A".repeat(8_000);
        let part =
            format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}"#);
        let size = InputSize::of(part.as_bytes(), std::iter::empty());
        assert_eq!(size.text_bytes, part.len() as u64 - 8_000);
        assert_eq!(size.media_tokens, 4_096 + 1_000);
        let text = format!(r#"{{"type":"input_text","text":"data:image/png;base64,{data}"}}"#);
        let size = InputSize::of(text.as_bytes(), [part.as_str()].into_iter());
        assert_eq!(size.text_bytes, (text.len() + part.len()) as u64 - 8_000);
    }

    #[tokio::test]
    async fn a_rest_is_counted_with_what_came_before() {
        let produced = |text: &str| UncountedText {
            output: vec![text.to_owned()],
            ..UncountedText::default()
        };
        let counter = Counter::default();
        let body = Bytes::from_static(br#"{"messages":[{"content":"hello"}]}"#);
        let batch = counter.clone().count_batch(produced("hello"));
        let batch = Some(AbortOnDropHandle::new(TaskTracker::new().spawn(batch)));
        let earlier = TextTokens { output: 10, reasoning: 4 };
        let before = CountedSoFar { input: Input::Body(body.clone()), counted: earlier, batch };
        let usage = counter.clone().count(before, produced(" world")).await.unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(3 + 1 + 3), Tokens(12)));
        assert_eq!(usage.reasoning, Some(Tokens(4)));
        let input = counter.clone().count_input(body.into()).await.unwrap();
        assert_eq!(input, InputTokens(7));
        let before = CountedSoFar { input: Input::Counted(input.0), counted: earlier, batch: None };
        let usage = counter.count(before, UncountedText::default()).await.unwrap();
        assert_eq!((usage.input, usage.output), (Tokens(7), Tokens(10)));
    }

    #[test]
    fn what_is_nested_too_deeply_to_be_read_is_counted_all_the_same() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for body in [
            format!(r#"{{"messages":[],"tools":[{deep}]}}"#),
            format!(r#"{{"messages":[{deep}]}}"#),
        ] {
            assert!(count_request(body.as_bytes()) > 500);
        }
    }

    #[test]
    fn the_data_of_images_is_no_text() {
        let body = br#"{"url":"data:image/png;base64,AAAABBBB"},{"url":"data:;base64,CC"}"#;
        assert_eq!(text_bytes(body), body.len() as u64 - 10);
        let text = br#"{"text":"data:;base64,AAAABBBB"},{"url": "a \"data:;base64,AAAA"}"#;
        assert_eq!(text_bytes(text), text.len() as u64, "what is no image is text");
        assert_eq!(text_bytes(b""), 0);
        let marks = ";base64,".repeat(1_000_000);
        let body = format!(r#"{{"url":"data:{marks}","text":"a"}}"#);
        assert_eq!(text_bytes(body.as_bytes()), 8 + r#"{"url":"data:","text":"a"}"#.len() as u64);
    }

    #[test]
    fn an_empty_body_counts_nothing() {
        assert_eq!(count(b"", UncountedText::default()).total(), Tokens(0));
    }
}
