//! Converts the arguments of custom tool calls and of tool searches.

use bytes::BytesMut;
use serde_json::{Map, Value};

use super::events::{put, string};
use domain::wire::text::decode;

/// The first key of the arguments of a custom tool (`T-8`).
const KEY: &str = "\"input\"";

/// Returns the free text of a custom tool call (`T-9`): the `input` of the wrapper, else the only
/// string member of a wrapper that the model named otherwise, else the arguments unchanged.
pub(super) fn unwrap_input(arguments: &str) -> String {
    let arguments = decode(arguments);
    if let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(&arguments) {
        let key = if fields.get("input").is_some_and(Value::is_string) {
            Some("input".to_owned())
        } else {
            let mut strings = fields.iter().filter(|(_, value)| value.is_string());
            let only = strings.next().map(|(key, _)| key.clone());
            only.filter(|_| strings.next().is_none())
        };
        if let Some(Value::String(text)) = key.and_then(|key| fields.remove(&key)) {
            return text;
        }
    } else if let Some(text) = truncated_input(&arguments) {
        return text;
    }
    arguments.into_owned()
}

/// Returns the text of a wrapper that was truncated, so that clients never receive a wrapper.
fn truncated_input(arguments: &str) -> Option<String> {
    let rest = arguments.trim_start().strip_prefix('{')?.trim_start().strip_prefix(KEY)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let quoted = format!("\"{rest}");
    let mut strings = serde_json::Deserializer::from_str(&quoted).into_iter::<String>();
    if let Some(Ok(text)) = strings.next() {
        return Some(text);
    }
    // A truncated escape is at most 11 bytes of a surrogate pair.
    (0..12)
        .filter_map(|less| rest.get(..rest.len().checked_sub(less)?))
        .find_map(|rest| serde_json::from_str(&format!("\"{rest}\"")).ok())
}

/// Writes the arguments of a tool search as an object (`T-10`). Arguments that are not an object
/// are written as a string, so that the client can report them to the model.
pub(super) fn write_search(out: &mut BytesMut, arguments: &str) {
    let arguments = decode(arguments);
    let trimmed = arguments.trim();
    if trimmed.is_empty() {
        put(out, "{}");
    } else if let Ok(fields) = serde_json::from_str::<Map<String, Value>>(trimmed) {
        put(out, &Value::Object(fields).to_string());
    } else {
        string(out, &arguments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::text::encode;

    #[test]
    fn the_wrapper_is_removed() {
        let check = |arguments: &str, expected: &str| {
            assert_eq!(unwrap_input(&encode(arguments)), expected, "{arguments}");
        };
        check(r#"{"input":"a\nb"}"#, "a\nb");
        check(r#"{"input":"a","why":"b"}"#, "a");
        check(r#"{"patch":"a"}"#, "a");
        check(r#"{"code":"a","lines":3}"#, "a");
        check(r#"{"code":"a","command":"b"}"#, r#"{"code":"a","command":"b"}"#);
        check(r#"{"input":{"a":1}}"#, r#"{"input":{"a":1}}"#);
        check("*** Begin Patch", "*** Begin Patch");
        check(r#"[{"input":"a"}]"#, r#"[{"input":"a"}]"#);
        check("", "");
    }

    #[test]
    fn a_truncated_wrapper_is_removed() {
        let check = |arguments: &str, expected: &str| {
            assert_eq!(unwrap_input(&encode(arguments)), expected, "{arguments}");
        };
        check(r#"{"input":"*** Begin\nfo"#, "*** Begin\nfo");
        check(r#" { "input" : "a\"#, "a");
        check(r#"{"input":"a\ud83d\ude0"#, "a");
        check(r#"{"input":""#, "");
        check(r#"{"input":"a","why":"because of"#, "a");
        check(r#"{"inp"#, r#"{"inp"#);
    }

    #[test]
    fn search_arguments_are_an_object() {
        let check = |arguments: &str, expected: &str| {
            let mut out = BytesMut::new();
            write_search(&mut out, &encode(arguments));
            assert_eq!(out, expected, "{arguments}");
        };
        check(r#" {"query": "a"} "#, r#"{"query":"a"}"#);
        check("", "{}");
        check("mail \"x\"", r#""mail \"x\"""#);
        check("[1]", r#""[1]""#);
    }
}
