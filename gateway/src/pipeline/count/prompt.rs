//! Counts the tokens of a request's JSON: what a server may put into its prompt.
//!
//! The names of members decide: parameters and short identifiers do not count, images, audio and files are not text, and a
//! member that is not known counts with its name. A server may use any of it, so the count is rather too high.

use serde_json::Value;

use super::tokens;

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
pub(super) const DATA_MEMBERS: [&str; 4] = ["image_url", "url", "file_data", "data"];
/// Shorter strings are text, in bytes.
const MIN_DATA_BYTES: usize = 256;

/// Counts the text of a request, or of one of its items.
pub(super) fn count_request(json: &[u8]) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_nested_too_deeply_to_be_read_is_counted_all_the_same() {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(500), "}".repeat(500));
        for body in [
            format!(r#"{{"messages":[],"tools":[{deep}]}}"#),
            format!(r#"{{"messages":[{deep}]}}"#),
        ] {
            assert!(count_request(body.as_bytes()) > 500);
        }
    }
}
