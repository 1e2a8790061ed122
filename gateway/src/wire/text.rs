//! Text as the escaped JSON that it came as: of a raw value, and to and from what it stands for.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::first_byte;

/// The escaped text of a value: of a string, or of an array of strings and of parts with a `text`;
/// empty for anything else.
pub(crate) fn text_of(raw: Option<&RawValue>) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }
    let Some(raw) = raw else { return Cow::Borrowed("") };
    match first_byte(raw) {
        b'"' => Cow::Borrowed(inner(raw)),
        b'[' => {
            let parts: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            let texts = parts.into_iter().filter_map(|part| match first_byte(part) {
                b'{' => serde_json::from_str::<Part<'_>>(part.get()).ok()?.text,
                _ => Some(part),
            });
            Cow::Owned(texts.filter(|raw| first_byte(raw) == b'"').map(inner).collect())
        }
        _ => Cow::Borrowed(""),
    }
}

/// What stands between the quotes of a raw string.
pub(crate) fn inner(raw: &RawValue) -> &str {
    &raw.get()[1..raw.get().len() - 1]
}

/// The text that JSON text without its quotes stands for.
pub(crate) fn decode(escaped: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', escaped.as_bytes()).is_none() {
        return Cow::Borrowed(escaped);
    }
    serde_json::from_str(&format!("\"{escaped}\""))
        .map_or(Cow::Borrowed(escaped), |decoded: String| Cow::Owned(decoded))
}

/// `text` as a JSON string, quotes included.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string always serialises")
}

/// JSON text of `text`, without its quotes.
pub(crate) fn encode(text: &str) -> String {
    let mut quoted = json_string(text);
    quoted.pop();
    quoted.remove(0);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_as_a_string_or_in_parts() {
        let check = |json: &str, expected: &str| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            assert_eq!(text_of(Some(&raw)), expected, "{json}");
        };
        check(r#""a\nb""#, r"a\nb");
        check(r#"[{"type":"text","text":"a"},{"type":"image"},"b",{"text":3},null]"#, "ab");
        for json in ["[]", "3", "true", r#"{"text":"a"}"#, "[3]"] {
            check(json, "");
        }
        assert_eq!(text_of(None), "");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["", "a", "\"\\\n\u{1}é😀"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }
}
