//! Tests of the request's translation, by the rules of §1 and §2.

mod agents;
mod faults;
mod fields;
mod items;
mod properties;
mod stored_items;
mod strict;
mod turns;

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::InputModalities;
use super::{HostedTools, Request, StoredHistory, TranslateOptions, TranslatedRequest};
use crate::dialect::Dialect;
use crate::plan::{ReasoningOutput, ReasoningSealer};
use domain::refusal::{Refusal, RequestFault};
use domain::upstream::Profile;

/// Seals by a prefix.
struct Prefix;

impl ReasoningSealer for Prefix {
    fn seal(&self, text: &str) -> String {
        format!("sealed:{text}")
    }

    fn open(&self, sealed: &str) -> Option<String> {
        sealed.strip_prefix("sealed:").map(str::to_owned)
    }
}

/// Options for a profile, without stored responses.
pub(crate) fn options(profile: Profile) -> TranslateOptions<'static> {
    let dialect = Dialect::of(profile);
    TranslateOptions {
        dialect,
        inputs: InputModalities { images: true, files: dialect.files, audio: dialect.files },
        verbosity: false,
        strict: false,
        hosted_tools: HostedTools::Refuse,
        reasoning: ReasoningOutput::Summary,
        sealer: &Prefix,
        history: StoredHistory::Disabled,
    }
}

pub(crate) fn generic() -> TranslateOptions<'static> {
    options(Profile::Generic)
}

/// The contents of the response store.
#[derive(Default)]
pub(crate) struct StoredItems {
    items: Vec<Box<RawValue>>,
    references: HashMap<String, Box<RawValue>>,
}

impl StoredItems {
    /// Stores `items` of previous responses, and `references`.
    pub(crate) fn new(items: &[Value], references: &[Value]) -> Self {
        let raw = |value: &Value| RawValue::from_string(value.to_string()).unwrap();
        let by_id = |value: &Value| (value["id"].as_str().unwrap().to_owned(), raw(value));
        Self {
            items: items.iter().map(raw).collect(),
            references: references.iter().map(by_id).collect(),
        }
    }

    /// Returns generic options with the store on.
    pub(crate) fn options(&self) -> TranslateOptions<'_> {
        let history = StoredHistory::Loaded { items: &self.items, references: &self.references };
        TranslateOptions { history, ..generic() }
    }
}

/// Returns a request for model `m` with these members.
pub(crate) fn request(members: &Value) -> Value {
    let mut body = json!({"model": "m"});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    if !body.as_object().unwrap().contains_key("input") {
        body["input"] = json!("hi");
    }
    body
}

pub(crate) fn translate(
    body: &Value,
    options: &TranslateOptions<'_>,
) -> Result<TranslatedRequest, Refusal> {
    Request::parse(body.to_string().as_bytes())?.translate(options)
}

/// Returns the chat request.
pub(crate) fn chat(members: &Value, options: &TranslateOptions<'_>) -> Value {
    let body = request(members);
    match translate(&body, options) {
        Ok(translated) => serde_json::from_slice(&translated.chat_body("up", None)).unwrap(),
        Err(refusal) => panic!("{body} was refused: {refusal}"),
    }
}

/// Returns the echo as JSON.
pub(crate) fn echo(members: &Value, options: &TranslateOptions<'_>) -> Value {
    let echo = &translate(&request(members), options).unwrap().plan.echo;
    assert!(!echo.contains('\n'), "an event is one line");
    serde_json::from_str(&format!("{{{echo}}}")).unwrap()
}

/// Returns the value of the loss header.
pub(crate) fn losses(members: &Value, options: &TranslateOptions<'_>) -> Option<String> {
    translate(&request(members), options).unwrap().plan.report.header()
}

/// Checks that the request is refused with this code and param; returns the message.
pub(crate) fn refused(
    members: &Value,
    options: &TranslateOptions<'_>,
    expected: (RequestFault, &str),
) -> String {
    let body = request(members);
    match translate(&body, options) {
        Err(Refusal::InvalidRequest { code, param, message }) => {
            assert_eq!(
                (code, param.as_deref()),
                (expected.0, Some(expected.1)),
                "{body}: {message}"
            );
            message
        }
        other => panic!("{body}: {other:?}"),
    }
}

/// Checks the messages of a request with this input.
pub(crate) fn check_messages(input: &Value, options: &TranslateOptions<'_>, expected: &Value) {
    let sent = chat(&json!({"input": input}), options);
    assert_eq!(sent["messages"], *expected, "for {input}");
}
