//! Removes secrets from captured messages.

use http::HeaderMap;

/// What replaces a secret.
const REDACTED: &str = "[redacted]";
/// The headers whose values are shown: those that say how a message is to be read.
const SHOWN_HEADERS: &[&str] = &[
    "accept",
    "cache-control",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "retry-after",
    "server",
    "transfer-encoding",
    "user-agent",
    "x-request-id",
];
/// How keys and tokens begin, of this gateway and of others.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "pk_",
    "rk_",
    "tg-",
    "tgr-",
    "whsec_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "gsk_",
    "nvapi-",
    "eyJ",
];
/// The length from which a word that begins like a key is taken for one, in bytes.
const MIN_KEY_BYTES: usize = 16;

/// Returns the lines of headers, with the values of those that cannot be secret.
pub(super) fn shown_headers(headers: &HeaderMap) -> Vec<String> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        let is_shown = SHOWN_HEADERS.contains(&name.as_str());
        let value = value.to_str().ok().filter(|_| is_shown).unwrap_or(REDACTED);
        format!("{name}: {value}")
    };
    headers.iter().map(line).collect()
}

/// Returns a text without the words that look like keys. At the end of the text, where a word may be cut, it need not have the length of one.
pub(super) fn without_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let mut follows_bearer = false;
    while let Some(start) = rest.find(is_part) {
        let (between, from_word) = rest.split_at(start);
        let end = from_word.find(|c| !is_part(c)).unwrap_or(from_word.len());
        let (word, after) = from_word.split_at(end);
        let has_length = word.len() >= MIN_KEY_BYTES || after.is_empty();
        let is_key = has_length && PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        let is_token = follows_bearer && between == " ";
        shown.push_str(between);
        shown.push_str(if is_key || is_token { REDACTED } else { word });
        follows_bearer = word.eq_ignore_ascii_case("bearer");
        rest = after;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_keys_are_removed() {
        for (text, shown) in [
            ("the prompt", "the prompt"),
            ("key=sk-tg-d954a5ca9647-abc,x", "key=[redacted],x"),
            ("\"AKIAIOSFODNN7EXAMPLE\"", "\"[redacted]\""),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc é", "[redacted] é"),
            ("Authorization: Bearer s3cret!", "Authorization: Bearer [redacted]!"),
            ("a bearer, of", "a bearer, of"),
            ("sk-short task-force", "sk-short task-force"),
            ("cut sk-tg-1", "cut [redacted]"),
            ("", ""),
        ] {
            assert_eq!(without_keys(text), shown, "{text}");
        }
    }
}
