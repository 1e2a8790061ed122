//! Removes secrets from captured messages.
//!
//! Bodies are searched as they are, in JSON or percent-encoding: characters may be escaped, also several times over where
//! JSON contains JSON as a string.

use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

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
    "tgi-",
    "tgo-",
    "tgr-",
    "tgs-",
    "whsec_",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xai-",
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
/// The number of characters from which the beginning of a secret is removed at the end of a text that is cut.
const MIN_CUT_CHARS: usize = 4;
/// The length of the longest escape without repeated backslashes, in bytes.
const MAX_ESCAPE_BYTES: usize = "\\u002d".len();
/// The number of backslashes that one character may have: JSON within JSON doubles them.
const MAX_BACKSLASHES: usize = 16;

/// Returns the lines of headers, with the values of those that cannot be secret.
pub(super) fn shown_headers(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers.iter().map(|(name, value)| {
        let is_shown = SHOWN_HEADERS.contains(&name.as_str());
        let value = value.to_str().ok().filter(|_| is_shown).unwrap_or(REDACTED);
        format!("{name}: {value}")
    })
}

/// Returns a text without `secrets`, and without what looks like a key. `is_cut` says whether the text is the beginning of
/// a longer one; then it may end in the beginning of a secret.
pub(super) fn without_secrets(text: &str, secrets: &[SecretString], is_cut: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let mut boundary = Boundary::default();
    while let Some(next) = rest.chars().next() {
        // Of two secrets, one may be the beginning of the other.
        let after_secret = secrets
            .iter()
            .filter_map(|secret| skip_secret(rest, secret.expose_secret(), is_cut))
            .min_by_key(|after| after.len());
        let after_secret = after_secret.or_else(|| {
            if !boundary.is_here() {
                return None;
            }
            if let Some(token) = skip_bearer(rest) {
                shown.push_str(&rest[..rest.len() - token.len()]);
                return Some(skip_while(token, is_token_part));
            }
            skip_key(rest)
        });
        if let Some(after) = after_secret {
            shown.push_str(REDACTED);
            rest = after;
            boundary = Boundary::default();
            continue;
        }
        let after = if let Some((_, after)) = decode_escape(rest) {
            boundary = Boundary::default();
            after
        } else {
            boundary.pass(next);
            &rest[next.len_utf8()..]
        };
        shown.push_str(&rest[..rest.len() - after.len()]);
        rest = after;
    }
    shown
}

/// Whether a key may begin: not within a word, but after an escape.
#[derive(Default)]
struct Boundary {
    /// Whether the last character belongs to a word.
    is_in_word: bool,
    /// Whether the last character is a backslash; the next one may be a part of the escape.
    is_escaped: bool,
}

impl Boundary {
    fn is_here(&self) -> bool {
        !self.is_in_word
    }

    fn pass(&mut self, passed: char) {
        self.is_in_word = passed.is_ascii_alphanumeric() && !self.is_escaped;
        self.is_escaped = passed == '\\';
    }
}

/// Returns what follows the secret that begins `text`; `None` if there is none.
fn skip_secret<'a>(text: &'a str, secret: &str, is_cut: bool) -> Option<&'a str> {
    let mut rest = text;
    for (passed, expected) in secret.chars().enumerate() {
        let Some(after) = skip_char(rest, expected) else {
            let is_cut_escape =
                rest.starts_with(['\\', '%']) && skip_backslashes(rest).len() < MAX_ESCAPE_BYTES;
            let is_at_end = rest.is_empty() || is_cut_escape;
            return (is_cut && passed >= MIN_CUT_CHARS && is_at_end).then_some("");
        };
        rest = after;
    }
    (!secret.is_empty()).then_some(rest)
}

/// Returns what follows the key that begins `text`; `None` if there is none. At the end of the text, where a key may be
/// cut, it need not have the length of one.
fn skip_key(text: &str) -> Option<&str> {
    if text.starts_with('\\') && decode_escape(text).is_none() {
        return None;
    }
    let skip = |prefix: &str| prefix.chars().try_fold(text, skip_char);
    let begun = PREFIXES.iter().find_map(|prefix| skip(prefix))?;
    let after = skip_while(begun, |part| part.is_ascii_alphanumeric() || "-_.".contains(part));
    (after.is_empty() || text.len() - after.len() >= MIN_KEY_BYTES).then_some(after)
}

/// Returns the token after the word `Bearer` that begins `text`; `None` if there is none.
fn skip_bearer(text: &str) -> Option<&str> {
    const BEARER: &str = "bearer";
    let word = text.get(..BEARER.len()).filter(|word| word.eq_ignore_ascii_case(BEARER))?;
    let token = skip_char(&text[word.len()..], ' ')?;
    token.starts_with(is_token_part).then_some(token)
}

/// Returns whether a token of `Authorization: Bearer` may contain a character (RFC 6750, 2.1).
fn is_token_part(part: char) -> bool {
    part.is_ascii_alphanumeric() || "-._~+/=".contains(part)
}

/// Returns what follows the longest beginning of `text` whose characters are `is_part`, with escapes undone.
fn skip_while(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    let mut rest = text;
    loop {
        let decoded = decode_escape(rest).filter(|(part, _)| is_part(*part));
        let Some((_, after)) = decoded.or_else(|| rest.strip_prefix(&is_part).map(|it| (' ', it)))
        else {
            return rest;
        };
        rest = after;
    }
}

/// Returns what follows the character that begins `text`, escaped or not; `None` if another one does.
fn skip_char(text: &str, expected: char) -> Option<&str> {
    if let Some((_, after)) = decode_escape(text).filter(|(decoded, _)| *decoded == expected) {
        return Some(after);
    }
    text.strip_prefix(expected).or_else(|| skip_backslashes(text).strip_prefix(expected))
}

/// Returns the character of the numeric escape that begins `text`, in JSON or percent-encoding, and what follows it.
fn decode_escape(text: &str) -> Option<(char, &str)> {
    let (digits, after) = match text.strip_prefix('%') {
        Some(digits) => digits.split_at_checked(2)?,
        None if text.starts_with('\\') => {
            skip_backslashes(text).strip_prefix('u')?.split_at_checked(4)?
        }
        None => return None,
    };
    let code = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(code)?, after))
}

fn skip_backslashes(text: &str) -> &str {
    let backslashes = text.bytes().take(MAX_BACKSLASHES).take_while(|byte| *byte == b'\\');
    &text[backslashes.count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_is_removed() {
        for (text, shown) in [
            ("the prompt", "the prompt"),
            ("key=sk-tg-d954a5ca9647-abc,x", "key=[redacted],x"),
            ("op tgo-dc4b0123456789abcdef, s", "op [redacted], s"),
            ("tgs-0b69af0123456789 tgi-6b3a4c0123456789", "[redacted] [redacted]"),
            ("\"AKIAIOSFODNN7EXAMPLE\"", "\"[redacted]\""),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc é", "[redacted] é"),
            ("Authorization: Bearer s3cret!", "Authorization: Bearer [redacted]!"),
            ("Authorization: bearer a+b/c==\"", "Authorization: bearer [redacted]\""),
            ("a bearer, of", "a bearer, of"),
            ("sk-short task-force", "sk-short task-force"),
            ("a-desk-sized-long-hyphenated-word", "a-desk-sized-long-hyphenated-word"),
            ("KEY_sk-0123456789abcdef", "KEY_[redacted]"),
            ("cut sk-tg-1", "cut [redacted]"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(text, &[], false), shown, "{text}");
        }
    }

    #[test]
    fn a_key_is_found_after_an_escape_and_with_escapes() {
        let key = "sk-tg-9f2c0123456789abcdef";
        for before in
            ["\\n", "\\t", "\\r", "\\\"", "\\u0022", "\\u0041", "\\\\n", "\\\\\\\"", "%20", "%0A"]
        {
            let text = format!("{{\"a\":\"x{before}{key}\"}}");
            let expected = format!("{{\"a\":\"x{before}[redacted]\"}}");
            assert_eq!(without_secrets(&text, &[], false), expected);
        }
        for text in [
            "sk\\u002dtg-9f2c0123456789abcdef",
            "sk-tg\\\\u002d9f2c0123456789abcdef",
            "sk%2Dtg%2d9f2c0123456789abcdef",
            "\\u0073k-tg-9f2c0123456789abcdef",
        ] {
            assert_eq!(without_secrets(&format!("\"{text}\""), &[], false), "\"[redacted]\"");
        }
        // A backslash in a path of JSON, whose next letter begins the key.
        assert_eq!(without_secrets("\\\\tg-0123456789abcdef ", &[], false), "\\\\[redacted] ");
        assert_eq!(without_secrets("Bearer\\u0020a+b c", &[], false), "Bearer\\u0020[redacted] c");
    }

    #[test]
    fn a_secret_is_found_escaped_and_cut() {
        let secrets = ["pass/w\"ord+é\\-1", "pass/"].map(SecretString::from);
        for text in [
            "pass/w\"ord+é\\-1",
            "pass\\/w\\\"ord+\\u00e9\\\\-1",
            "pass\\\\/w\\\\\\\"ord+\\\\u00E9\\\\\\\\-1",
            "pass%2Fw%22ord%2B\\u00e9%5C-1",
        ] {
            let shown = without_secrets(&format!("x{text}x"), &secrets, false);
            assert_eq!(shown, "x[redacted]x", "{text}");
            let cut = format!("x{}", &text[..7]);
            assert_eq!(without_secrets(&cut, &secrets[..1], true), "x[redacted]", "{cut}");
            assert_eq!(without_secrets(&cut, &secrets[..1], false), cut);
        }
        assert_eq!(without_secrets("a pas", &secrets, true), "a pas");
        assert_eq!(without_secrets("none", &[String::new().into()], true), "none");
    }
}
