//! Finds the log probabilities of tokens in a body.
//!
//! They repeat the text token by token, also as numbers of bytes and with alternatives, so a secret in the text cannot be
//! found in them. They are left out as a whole.

use std::ops::Range;

use super::Removal;

/// The name of the member, in all APIs.
const NAME: &str = "\"logprobs\"";

/// Returns where the log probabilities are in a body. Those that are not complete reach to its end.
pub(super) fn removals(body: &str) -> Vec<Removal> {
    let mut removals = Vec::new();
    let mut at = 0;
    while let Some(found) = body[at..].find(NAME) {
        at += found + NAME.len();
        if let Some(value) = list_or_object(body, at) {
            at = value.end;
            removals.push(Removal { range: value, is_marked: true });
        }
    }
    removals
}

/// Returns where the list or the object is that is the value of the member whose name ends at `at`; `None` for another
/// value and if it is empty.
fn list_or_object(body: &str, at: usize) -> Option<Range<usize>> {
    let value = body[at..].trim_start().strip_prefix(':')?.trim_start();
    let start = body.len() - value.len();
    let (mut depth, mut is_in_string, mut is_escaped) = (0_usize, false, false);
    let mut end = value.len();
    for (position, byte) in value.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_string => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            _ if is_in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            end = position + 1;
            break;
        }
    }
    let is_empty = value.get(1..end.max(2) - 1).is_some_and(|inner| inner.trim().is_empty());
    (value.starts_with(['[', '{']) && !is_empty).then_some(start..start + end)
}

#[cfg(test)]
mod tests {
    use super::super::body_without_secrets;

    #[test]
    fn log_probabilities_are_left_out() {
        let token = |text: &str| {
            format!(
                r#"{{"token":"{text}","bytes":[115,107],"top_logprobs":[{{"token":"]}}\"x"}}]}}"#
            )
        };
        let stream = |first: &str, second: &str| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"logprobs\":{first}}}]}}\n\ndata: {{\"logprobs\" : {second},\"x\":1}}\n\n"
            )
        };
        let (tokens, object) =
            (format!("[{}]", token("sk-tg-")), format!("{{\"content\":[{}]}}", token("9f2c")));
        assert_eq!(
            body_without_secrets(&stream(&object, &tokens), &[]),
            stream("[redacted]", "[redacted]")
        );
        let json = |logprobs: &str| format!("{{\n\"logprobs\": {logprobs},\n\"usage\": {{}}}}");
        assert_eq!(body_without_secrets(&json(&object), &[]), json("[redacted]"));
        // The body is cut.
        assert_eq!(body_without_secrets(&json(&object)[..30], &[]), "{\n\"logprobs\": [redacted]");
        for shown in [
            json("null"),
            json("true"),
            json("[]"),
            json("{ }"),
            stream("null", "[]"),
            r#"{"a":"\"logprobs\":[1]","logprobs""#.to_owned(),
            r#"{"logprobs":["#.to_owned(),
            r#"{"logprobs":"#.to_owned(),
            r#"["logprobs",[1]]"#.to_owned(),
        ] {
            assert_eq!(body_without_secrets(&shown, &[]), shown);
        }
    }
}
