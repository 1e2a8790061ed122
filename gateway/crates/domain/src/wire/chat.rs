//! A partially parsed chat-completions request.
//!
//! The body remains the client's bytes. Changes for the upstream are a list of
//! [`Edit`](super::splice::Edit)s: the model's name, the output cap, and
//! `stream_options.include_usage`, which metering needs. Invariant: a forwarded request has exactly
//! one model, at most one output cap and one number of answers, even for servers that match field
//! names leniently.

mod edits;
mod fault;
mod fields;
mod messages;
mod options;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::fault::{invalid_json, missing, wrong_type};
use self::fields::{Fields, Ignored, Member};
use self::messages::Messages;
use self::options::StreamOptions;
use super::content::Media;
use super::json::{RawJson, as_utf8};
use crate::refusal::{Refusal, RequestFault};

/// The maximum number of answers per request (`n`), which is OpenAI's.
const MAX_CHOICES: u64 = 128;

/// The fields of a request that the gateway reads. All others pass through unread.
#[derive(Debug)]
pub struct ChatRequest<'a> {
    body: &'a str,
    /// The requested model.
    pub model: Cow<'a, str>,
    model_raw: RawJson<'a>,
    /// Whether the client requests a stream.
    pub stream: bool,
    stream_options: Option<StreamOptions<'a>>,
    /// Whether the client requests the usage chunk at the end of its stream.
    pub include_usage: bool,
    /// The client's output cap, in tokens per answer: the larger of two.
    pub max_output: Option<u64>,
    /// The number of answers (`n`).
    pub choices: u64,
    /// Images, audio and files.
    pub media: Media,
    caps: [Option<Cap<'a>>; 2],
    ignored: Vec<Ignored<'a>>,
}

/// An output cap of the client.
#[derive(Debug)]
struct Cap<'a> {
    name: &'static str,
    /// In tokens; `None` for `null`.
    value: Option<u64>,
    member: Member<'a>,
}

impl<'a> ChatRequest<'a> {
    /// Parses the fields that the gateway reads, in time and memory linear in the length of the
    /// body.
    ///
    /// # Errors
    /// The body is not a JSON object in UTF-8; a field is missing, duplicate or of a wrong type; or
    /// some server would interpret another field as one of those.
    pub fn peek(body: &'a [u8]) -> Result<Self, Refusal> {
        let body = as_utf8(body)
            .ok_or_else(|| invalid_json("the request body is not valid UTF-8".to_owned()))?;
        if !body.trim_start().starts_with('{') {
            return Err(invalid_json("the request body must be a JSON object".to_owned()));
        }
        let fields = Fields::read(body)?;
        let model_raw = present(fields.model).ok_or_else(|| missing("model"))?;
        let model: Cow<'a, str> =
            model_raw.string().ok_or_else(|| wrong_type("model", "a string"))?;
        if model.is_empty() {
            return Err(missing("model"));
        }
        let media = match fields.messages {
            Some(Messages::Some(media)) => media,
            Some(Messages::Empty) => {
                return Err(Refusal::invalid(
                    RequestFault::InvalidValue,
                    Some("messages"),
                    "`messages` must hold at least one message",
                ));
            }
            Some(Messages::NoArray) => return Err(wrong_type("messages", "an array")),
            Some(Messages::Null) | None => return Err(missing("messages")),
        };
        let stream = flag(present(fields.stream), "stream")?.unwrap_or_default();
        let stream_options = fields.stream_options.map(StreamOptions::read).transpose()?;
        let include_usage = match &stream_options {
            Some(options) => options.include_usage()?,
            None => false,
        };
        let caps = [
            cap(fields.max_completion_tokens, "max_completion_tokens")?,
            cap(fields.max_tokens, "max_tokens")?,
        ];
        Ok(Self {
            body,
            model,
            model_raw,
            stream,
            stream_options,
            include_usage,
            max_output: caps.iter().flatten().filter_map(|cap| cap.value).max(),
            choices: choices(present(fields.n))?,
            media,
            caps,
            ignored: fields.ignored,
        })
    }

    /// Returns the requested model as the JSON string in the body.
    pub fn model_json(&self) -> &'a str {
        self.model_raw.get()
    }

    /// Returns the fields without effect, which are removed from the forwarded request: output caps
    /// that only some servers support, and the smaller of two caps.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        let smaller = self.caps().filter(|cap| cap.value.is_some() && cap.value < self.max_output);
        self.ignored.iter().map(|ignored| ignored.path.as_str()).chain(smaller.map(|cap| cap.name))
    }

    fn caps(&self) -> impl Iterator<Item = &Cap<'a>> {
        self.caps.iter().flatten()
    }
}

/// Returns a field's value unless it is `null`.
fn present(member: Option<Member<'_>>) -> Option<RawJson<'_>> {
    member.map(|member| member.value).filter(|value| !value.is_null())
}

fn flag(raw: Option<RawJson<'_>>, name: &str) -> Result<Option<bool>, Refusal> {
    match raw.map(RawJson::get) {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(wrong_type(name, "a boolean")),
    }
}

fn cap<'a>(member: Option<Member<'a>>, name: &'static str) -> Result<Option<Cap<'a>>, Refusal> {
    let Some(member) = member else { return Ok(None) };
    Ok(Some(Cap { name, value: count(present(Some(member)), name)?, member }))
}

fn choices(raw: Option<RawJson<'_>>) -> Result<u64, Refusal> {
    let choices = count(raw, "n")?.unwrap_or(1);
    if choices > MAX_CHOICES {
        let message = format!("`n` must be at most {MAX_CHOICES}");
        return Err(Refusal::invalid(RequestFault::InvalidValue, Some("n"), message));
    }
    Ok(choices)
}

fn count(raw: Option<RawJson<'_>>, name: &str) -> Result<Option<u64>, Refusal> {
    let Some(raw) = raw else { return Ok(None) };
    match raw.get().parse::<u64>() {
        Ok(value @ 1..) => Ok(Some(value)),
        _ if matches!(raw.first_byte(), b'-' | b'0'..=b'9') => Err(Refusal::invalid(
            RequestFault::InvalidValue,
            Some(name),
            format!("`{name}` must be a whole number of at least 1"),
        )),
        _ => Err(wrong_type(name, "an integer")),
    }
}
