//! Counts tokens that an upstream does not report.
//!
//! It uses the o200k tokenizer and the overheads that OpenAI documents for its chat format. Other models
//! tokenize differently, so the record says `counted`. The time is proportional to the text. Therefore only
//! short text is counted inline, by `coverage.rs`; all other counts run on blocking threads.

mod prompt;
mod size;

use std::ops::AddAssign;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

use self::prompt::count_request;
use domain::usage::{Tokens, Usage};

pub use size::{InputSize, text_bytes};

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
    fn an_empty_body_counts_nothing() {
        assert_eq!(count(b"", UncountedText::default()).total(), Tokens(0));
    }
}
