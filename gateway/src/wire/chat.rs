//! A chat-completions request, as far as the gateway needs to know it.
//!
//! The body stays the bytes that the client sent. What must change on the way upstream is a list of
//! [`Edit`]s: the model's name, and `stream_options.include_usage`, which metering needs.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::splice::Edit;
use super::text::json_string;
use super::{first_byte, range_in};
use crate::domain::refusal::{Refusal, RequestFault};

/// A cap that is there and says nothing: `null`.
const NO_CAP: u64 = u64::MAX;

/// What is read of a request. Everything else passes through unread.
#[derive(Debug)]
pub struct ChatRequest<'a> {
    body: &'a str,
    /// The model as the client names it.
    pub model: Cow<'a, str>,
    model_raw: &'a RawValue,
    /// Whether the client wants a stream.
    pub stream: bool,
    stream_options: Option<&'a RawValue>,
    /// Whether the client wants the usage chunk at the end of its stream.
    pub include_usage: bool,
    /// The client's cap on each answer, in tokens, under its newer or its older name.
    pub max_output: Option<u64>,
    /// How many answers it wants.
    pub choices: u64,
    /// Where the caps stand, with their values.
    caps: [Option<(&'a RawValue, u64)>; 2],
}

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    model: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    stream_options: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    max_tokens: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    max_completion_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    n: Option<&'a RawValue>,
}

impl<'a> ChatRequest<'a> {
    /// Peeks at a body, in time and memory linear in its length.
    ///
    /// # Errors
    /// The body is not a JSON object in UTF-8, or a field that we read is missing or of a wrong type.
    pub fn peek(body: &'a [u8]) -> Result<Self, Refusal> {
        let body = std::str::from_utf8(body)
            .map_err(|_| broken("the request body is not valid UTF-8".to_owned()))?;
        if !body.trim_start().starts_with('{') {
            return Err(broken("the request body must be a JSON object".to_owned()));
        }
        let fields: Fields<'a> = serde_json::from_str(body)
            .map_err(|error| broken(format!("the request body is not valid JSON: {error}")))?;

        let model_raw = fields.model.ok_or_else(|| missing("model"))?;
        let model: Cow<'a, str> = string(model_raw).ok_or_else(|| mistyped("model", "a string"))?;
        if model.is_empty() {
            return Err(missing("model"));
        }
        let messages = fields.messages.ok_or_else(|| missing("messages"))?;
        match first_byte(messages) {
            b'[' if is_empty_array(messages) => {
                return Err(Refusal::invalid(
                    RequestFault::InvalidValue,
                    Some("messages"),
                    "`messages` must hold at least one message",
                ));
            }
            b'[' => {}
            _ => return Err(mistyped("messages", "an array")),
        }
        let stream = flag(fields.stream, "stream")?.unwrap_or_default();
        let include_usage = include_usage(fields.stream_options)?;
        let newer = count(fields.max_completion_tokens, "max_completion_tokens")?;
        let caps = [newer, count(fields.max_tokens, "max_tokens")?];
        Ok(Self {
            body,
            model,
            model_raw,
            stream,
            stream_options: fields.stream_options,
            include_usage,
            max_output: caps.into_iter().flatten().map(|(_, cap)| cap).find(|cap| *cap != NO_CAP),
            choices: count(fields.n, "n")?.map_or(1, |(_, value)| value),
            caps,
        })
    }

    /// The model as the client names it, as the JSON string that it came as.
    pub fn model_json(&self) -> &'a str {
        self.model_raw.get()
    }

    /// What must change for an upstream that calls the model `upstream_model`, and for an answer of at
    /// most `cap` tokens, if there is one; the upstream knows a cap as `cap_name`.
    pub fn edits(&self, upstream_model: &str, cap: Option<u64>, cap_name: &str) -> Vec<Edit> {
        let mut edits = Vec::with_capacity(1);
        let model_range = range_in(self.body, self.model_raw.get());
        let mut model_text = (self.model != upstream_model).then(|| json_string(upstream_model));
        if let Some(cap) = cap {
            for (given, _) in self.caps.into_iter().flatten().filter(|(_, value)| *value > cap) {
                let range = range_in(self.body, given.get());
                edits.push(Edit { range, with: cap.to_string().into() });
            }
            if self.caps.iter().all(Option::is_none) {
                let text = model_text.get_or_insert_with(|| self.model_raw.get().to_owned());
                _ = write!(text, ",\"{cap_name}\":{cap}");
            }
        }
        if self.stream && !self.include_usage {
            if let Some(given) = self.stream_options {
                let range = range_in(self.body, given.get());
                edits.push(Edit { range, with: with_usage(given).into() });
            } else {
                // in the same place as the model's name, so that one edit does for both
                let text = model_text.get_or_insert_with(|| self.model_raw.get().to_owned());
                text.push_str(r#","stream_options":{"include_usage":true}"#);
            }
        }
        if let Some(text) = model_text {
            edits.push(Edit { range: model_range, with: Bytes::from(text) });
        }
        edits.sort_by_key(|edit| edit.range.start);
        edits
    }
}

/// A value that is there, be it `null`: what is there must be replaced, not be given a second time.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    Deserialize::deserialize(value).map(Some)
}

fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str::<Text<'_>>(raw.get()).ok().map(|text| text.0)
}

fn is_empty_array(raw: &RawValue) -> bool {
    raw.get()[1..].trim_start().starts_with(']')
}

fn flag(raw: Option<&RawValue>, name: &str) -> Result<Option<bool>, Refusal> {
    match raw.map(RawValue::get) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(mistyped(name, "a boolean")),
    }
}

/// A count, and where it stands.
fn count<'a>(
    raw: Option<&'a RawValue>,
    name: &str,
) -> Result<Option<(&'a RawValue, u64)>, Refusal> {
    let Some(raw) = raw else { return Ok(None) };
    if raw.get() == "null" {
        return Ok(Some((raw, NO_CAP)));
    }
    match serde_json::from_str::<u64>(raw.get()) {
        Ok(value @ 1..) => Ok(Some((raw, value))),
        _ if matches!(first_byte(raw), b'-' | b'0'..=b'9') => Err(Refusal::invalid(
            RequestFault::InvalidValue,
            Some(name),
            format!("`{name}` must be a whole number of at least 1"),
        )),
        _ => Err(mistyped(name, "an integer")),
    }
}

fn include_usage(raw: Option<&RawValue>) -> Result<bool, Refusal> {
    #[derive(Deserialize)]
    struct Options<'a> {
        #[serde(borrow)]
        include_usage: Option<&'a RawValue>,
    }
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(false) };
    if first_byte(raw) != b'{' {
        return Err(mistyped("stream_options", "an object"));
    }
    let options: Options<'_> = serde_json::from_str(raw.get())
        .map_err(|error| broken(format!("`stream_options` is not valid: {error}")))?;
    Ok(flag(options.include_usage, "stream_options.include_usage")?.unwrap_or_default())
}

/// The client's options with `include_usage` set and all else as it was.
fn with_usage(given: &RawValue) -> String {
    let mut options: Map<String, Value> = serde_json::from_str(given.get()).unwrap_or_default();
    options.insert("include_usage".to_owned(), Value::Bool(true));
    Value::Object(options).to_string()
}

fn broken(message: String) -> Refusal {
    Refusal::invalid(RequestFault::InvalidJson, None, message)
}

fn missing(name: &str) -> Refusal {
    let message = format!("`{name}` is required");
    Refusal::invalid(RequestFault::MissingRequiredParameter, Some(name), message)
}

fn mistyped(name: &str, wanted: &str) -> Refusal {
    Refusal::invalid(RequestFault::InvalidType, Some(name), format!("`{name}` must be {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::super::splice::splice;
    use super::*;
    use bytes::Buf;

    fn sent_upstream(body: &'static str) -> String {
        let bytes = Bytes::from_static(body.as_bytes());
        let edits = ChatRequest::peek(&bytes).unwrap().edits("up/stream", None, "max_tokens");
        let mut payload = splice(&bytes, &edits);
        String::from_utf8(payload.copy_to_bytes(payload.remaining()).to_vec()).unwrap()
    }

    #[test]
    fn only_what_must_change_is_changed() {
        for (sent, forwarded) in [
            (
                r#"{ "x":[1, 2],"model" : "m","messages":[{}] }"#,
                r#"{ "x":[1, 2],"model" : "up/stream","messages":[{}] }"#,
            ),
            (
                r#"{"messages":[{}],"model":"up/stream"}"#,
                r#"{"messages":[{}],"model":"up/stream"}"#,
            ),
            (
                r#"{"model":"m","messages":[{}],"stream":true}"#,
                r#"{"model":"up/stream","stream_options":{"include_usage":true},"messages":[{}],"stream":true}"#,
            ),
            (
                r#"{"stream_options":{"x":1},"model":"m","messages":[{}],"stream":true}"#,
                r#"{"stream_options":{"include_usage":true,"x":1},"model":"up/stream","messages":[{}],"stream":true}"#,
            ),
            (
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":null}"#,
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":false}}"#,
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
            (
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
                r#"{"model":"up/stream","messages":[{}],"stream":true,"stream_options":{"include_usage":true}}"#,
            ),
        ] {
            assert_eq!(sent_upstream(sent), forwarded);
        }
    }

    #[test]
    fn a_cap_is_lowered_or_added_and_never_raised() {
        for (sent, forwarded) in [
            (
                r#"{"model":"m","max_tokens":900,"messages":[{}]}"#,
                r#"{"model":"up","max_tokens":50,"messages":[{}]}"#,
            ),
            (
                r#"{"max_completion_tokens":900,"max_tokens":40,"model":"up","messages":[{}]}"#,
                r#"{"max_completion_tokens":50,"max_tokens":40,"model":"up","messages":[{}]}"#,
            ),
            (
                r#"{"model":"m","max_tokens":null,"messages":[{}],"stream":true}"#,
                r#"{"model":"up","stream_options":{"include_usage":true},"max_tokens":50,"messages":[{}],"stream":true}"#,
            ),
            (r#"{"model":"m","messages":[{}]}"#, r#"{"model":"up","limit":50,"messages":[{}]}"#),
        ] {
            let bytes = Bytes::from_static(sent.as_bytes());
            let edits = ChatRequest::peek(&bytes).unwrap().edits("up", Some(50), "limit");
            let mut payload = splice(&bytes, &edits);
            let text = payload.copy_to_bytes(payload.remaining());
            assert_eq!(text, forwarded);
        }
        let body = br#"{"model":"m","messages":[{}],"n":3,"max_tokens":7}"#;
        let request = ChatRequest::peek(body).unwrap();
        assert_eq!((request.choices, request.max_output), (3, Some(7)));
    }

    #[test]
    fn faults_name_the_field() {
        use RequestFault::{InvalidJson, InvalidType, InvalidValue, MissingRequiredParameter};
        let deep = format!(r#"{{"model":"m","messages":[{}]}}"#, "[".repeat(100_000));
        for (body, expected_code, expected_param) in [
            ("", InvalidJson, None),
            ("[]", InvalidJson, None),
            ("{\"model\":", InvalidJson, None),
            (r#"{"model":"a","model":"b","messages":[{}]}"#, InvalidJson, None),
            (deep.as_str(), InvalidJson, None),
            ("{}", MissingRequiredParameter, Some("model")),
            (r#"{"model":null}"#, MissingRequiredParameter, Some("model")),
            (r#"{"model":7}"#, InvalidType, Some("model")),
            (r#"{"model":""}"#, MissingRequiredParameter, Some("model")),
            (r#"{"model":"m"}"#, MissingRequiredParameter, Some("messages")),
            (r#"{"model":"m","messages":"hi"}"#, InvalidType, Some("messages")),
            (r#"{"model":"m","messages":[ ]}"#, InvalidValue, Some("messages")),
            (r#"{"model":"m","messages":[{}],"stream":"yes"}"#, InvalidType, Some("stream")),
            (r#"{"model":"m","messages":[{}],"max_tokens":-1}"#, InvalidValue, Some("max_tokens")),
            (
                r#"{"model":"m","messages":[{}],"max_tokens":1e99}"#,
                InvalidValue,
                Some("max_tokens"),
            ),
            (
                r#"{"model":"m","messages":[{}],"max_completion_tokens":"9"}"#,
                InvalidType,
                Some("max_completion_tokens"),
            ),
            (
                r#"{"model":"m","messages":[{}],"stream_options":[]}"#,
                InvalidType,
                Some("stream_options"),
            ),
            (
                r#"{"model":"m","messages":[{}],"stream_options":{"include_usage":1}}"#,
                InvalidType,
                Some("stream_options.include_usage"),
            ),
        ] {
            let shown: String = body.chars().take(80).collect();
            match ChatRequest::peek(body.as_bytes()) {
                Err(Refusal::InvalidRequest { code, param, .. }) => {
                    assert_eq!(
                        (code, param.as_deref()),
                        (expected_code, expected_param),
                        "{shown}"
                    );
                }
                other => panic!("{shown}: {other:?}"),
            }
        }
        assert!(ChatRequest::peek(b"{\"model\":\"\xff\"}").is_err());
    }
}
