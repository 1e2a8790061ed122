//! Error bodies: the API's own, `{"error": {"message", "type", "param", "code"}}`, always with all
//! four keys, and those of upstreams.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An error in the response to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorBody<'a> {
    /// The cause and the next step, for people.
    pub message: &'a str,
    /// The class, such as `invalid_request_error`.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// The invalid field of the request.
    pub param: Option<&'a str>,
    /// The error code, for programs.
    pub code: Option<&'a str>,
}

/// An upstream's error, parsed from any known form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedError {
    /// The message; at most [`MAX_MESSAGE_CHARS`] characters.
    pub message: Option<String>,
    /// The invalid field of the request.
    pub param: Option<String>,
    /// The code; a number as text.
    pub code: Option<String>,
}

/// The maximum number of characters to repeat of an upstream's message, so that a whole HTML page
/// is not repeated.
pub const MAX_MESSAGE_CHARS: usize = 2_000;
const MAX_NAME_CHARS: usize = 128;
/// What replaces a secret.
const REDACTED: &str = "[redacted]";
/// The prefixes of the keys of well-known providers.
const KEY_PREFIXES: [&str; 9] =
    ["sk-", "sk_", "pk-", "gsk_", "hf_", "xai-", "nvapi-", "AIza", "eyJ"];
/// Shorter words with such a prefix are words.
const MIN_KEY_LENGTH: usize = 10;
const MAX_PLAIN_CHARS: usize = 200;

impl ErrorBody<'_> {
    /// Serialises the body, including the `error` key.
    pub fn to_json(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Envelope<'a> {
            error: &'a ErrorBody<'a>,
        }
        serde_json::to_vec(&Envelope { error: self }).expect("strings always serialise")
    }
}

/// Replaces a secret in a text.
pub fn redact_text(text: &mut String, secret: &str) {
    if !secret.is_empty() && text.contains(secret) {
        *text = text.replace(secret, REDACTED);
    }
}

impl ReportedError {
    /// Whether the prompt exceeds the model's context window. Recognised by the messages of known
    /// servers, since few of them send a code.
    pub fn is_context_overflow(&self) -> bool {
        const PHRASES: [&str; 7] = [
            "context length",
            "context window",
            "context size",
            "maximum context",
            "prompt is too long",
            "input is too long",
            "too many tokens",
        ];
        let message = self.message.as_deref().unwrap_or_default().to_ascii_lowercase();
        self.code.as_deref() == Some("context_length_exceeded")
            || PHRASES.iter().any(|phrase| message.contains(phrase))
    }

    /// Parses the forms that chat servers use: OpenAI's, `{"error": "text"}`, `{"message": …}`,
    /// `{"detail": …}` (FastAPI), or plain text.
    pub fn parse(body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Self::from_value(&value),
            Err(_) => Self { message: plain_text(body), ..Self::default() },
        }
    }

    /// Replaces each occurrence of `secret`.
    pub fn redact(&mut self, secret: &str) {
        for text in [&mut self.message, &mut self.param, &mut self.code].into_iter().flatten() {
            redact_text(text, secret);
        }
    }

    /// Parses the value of an `error` key, or a body that contains one.
    pub fn from_value(value: &Value) -> Self {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Fields {
            message: Value,
            detail: Value,
            param: Value,
            code: Value,
        }
        let inner = value.get("error").unwrap_or(value);
        if let Some(text) = inner.as_str() {
            return Self { message: Some(shorten(text)), ..Self::default() };
        }
        if !inner.is_object() {
            return Self::default();
        }
        let fields = Fields::deserialize(inner).unwrap_or_default();
        Self {
            message: text(&fields.message)
                .or_else(|| text(&fields.detail))
                .map(|text| shorten(&text)),
            param: fields.param.as_str().map(shorten_name),
            code: text(&fields.code).map(|text| shorten_name(&text)),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) if text.is_empty() => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Truncates a code or a field's name.
fn shorten_name(text: &str) -> String {
    text.chars().take(MAX_NAME_CHARS).collect()
}

fn shorten(text: &str) -> String {
    mask_keys(&text.chars().take(MAX_MESSAGE_CHARS).collect::<String>())
}

/// Replaces words that look like API keys. A server that complains about its credential may repeat it, and not only
/// in full.
fn mask_keys(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_of_word) {
        let (between, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_of_word(c)).unwrap_or(from.len()));
        let is_key = word.len() >= MIN_KEY_LENGTH
            && KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        masked.push_str(between);
        masked.push_str(if is_key { REDACTED } else { word });
        rest = after;
    }
    masked.push_str(rest);
    masked
}

/// Returns the beginning of a plain-text body; `None` if it is empty, HTML or not UTF-8.
fn plain_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    if text.is_empty() || text.starts_with('<') {
        return None;
    }
    Some(text.chars().filter(|c| !c.is_control()).take(MAX_PLAIN_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, message: Option<&str>, param: Option<&str>, code: Option<&str>) {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let expected =
            ReportedError { message: owned(message), param: owned(param), code: owned(code) };
        assert_eq!(ReportedError::parse(body.as_bytes()), expected, "{body}");
    }

    #[test]
    fn error_body_has_all_four_keys() {
        let body = ErrorBody { message: "m", kind: "server_error", param: None, code: None };
        assert_eq!(
            String::from_utf8(body.to_json()).unwrap(),
            r#"{"error":{"message":"m","type":"server_error","param":null,"code":null}}"#
        );
    }

    #[test]
    fn parses_errors_of_upstreams() {
        check(
            r#"{"error":{"message":"too long","type":"x","param":"messages","code":"context_length_exceeded"}}"#,
            Some("too long"),
            Some("messages"),
            Some("context_length_exceeded"),
        );
        check(
            r#"{"error":{"code":400,"message":"bad","type":"x"}}"#,
            Some("bad"),
            None,
            Some("400"),
        );
        check(r#"{"error":"model 'x' not found"}"#, Some("model 'x' not found"), None, None);
        check(r#"{"object":"error","message":"m","code":40301}"#, Some("m"), None, Some("40301"));
        check(r#"{"detail":[{"msg":"x"}]}"#, Some(r#"[{"msg":"x"}]"#), None, None);
        check("upstream connect\nerror", Some("upstream connecterror"), None, None);
        check("<html>502</html>", None, None, None);
        check("", None, None, None);
        check("[1]", None, None, None);
    }

    #[test]
    fn words_that_look_like_keys_are_masked() {
        for (text, masked) in [
            (
                "Incorrect API key provided: sk-proj-1***9f.",
                "Incorrect API key provided: [redacted]",
            ),
            ("bad key 'gsk_0123456789abc', retry", "bad key '[redacted]', retry"),
            ("hf_0123456789", "[redacted]"),
            ("the task-list of a risk-free sk-8", "the task-list of a risk-free sk-8"),
            ("größer als 8", "größer als 8"),
        ] {
            let body = serde_json::json!({ "error": { "message": text } }).to_string();
            assert_eq!(ReportedError::parse(body.as_bytes()).message.unwrap(), masked);
        }
    }

    #[test]
    fn a_secret_is_replaced_in_every_field() {
        let body = r#"{"error":{"message":"no hunter2","param":"hunter2","code":"hunter2!"}}"#;
        let mut error = ReportedError::parse(body.as_bytes());
        error.redact("");
        error.redact("hunter2");
        let texts = [error.message, error.param, error.code].map(Option::unwrap);
        assert_eq!(texts, ["no [redacted]", "[redacted]", "[redacted]!"]);
    }
}
