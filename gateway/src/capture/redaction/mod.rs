//! Removes secrets from captured messages and from traced text.
//!
//! Bodies are searched as they are, in JSON or percent-encoding: characters may be escaped, also several times over where
//! JSON contains JSON as a string ([`escapes`]). [`formats`] and [`urls`] know what looks like a secret, [`split`] finds
//! those that a stream splits over its events, and [`logprobs`] finds the tokens that would give a removed secret away.

mod escapes;
mod formats;
mod logprobs;
mod split;
mod urls;

use std::ops::Range;

use http::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use self::escapes::{decode_escape, skip_backslashes, skip_char};

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
/// The number of characters from which the beginning of a secret is removed at the end of a text that is cut.
const MIN_CUT_CHARS: usize = 4;
/// The length of the longest escape without repeated backslashes, in bytes.
const MAX_ESCAPE_BYTES: usize = "\\u002d".len();

/// How a text is searched.
#[derive(Clone, Copy)]
struct Search {
    /// Whether it is JSON, where a quote that is not escaped ends a string.
    is_json: bool,
    /// Whether it is the beginning of a longer text; then it may end in the beginning of a secret.
    is_cut: bool,
}

/// A part of a text that is not shown.
struct Removal {
    /// Its bytes.
    range: Range<usize>,
    /// Whether [`REDACTED`] takes its place; the further parts of a split secret have no mark.
    is_marked: bool,
}

/// Returns the lines of headers, with the values of those that cannot be secret.
pub(super) fn shown_headers(headers: &HeaderMap) -> impl Iterator<Item = String> {
    headers.iter().map(|(name, value)| {
        let is_shown = SHOWN_HEADERS.contains(&name.as_str());
        let value = value.to_str().ok().filter(|_| is_shown).unwrap_or(REDACTED);
        format!("{name}: {value}")
    })
}

/// Returns a text without `secrets`, and without what looks like one. `is_cut` says whether the text is the beginning of
/// a longer one; then it may end in the beginning of a secret.
pub(super) fn without_secrets(text: &str, secrets: &[SecretString], is_cut: bool) -> String {
    let marked = |range| Removal { range, is_marked: true };
    let search = Search { is_json: false, is_cut };
    without(text, find_all(text, secrets, search).into_iter().map(marked).collect())
}

/// Like [`without_secrets`], for the body of a message. If it is an event stream, secrets that are split over events are
/// removed, too, and so is an incomplete event at its end, which may have the rest of one. The body and the texts of a
/// stream may end in the beginning of a secret: a stream may be in progress, break off, or reach a limit of tokens.
pub(super) fn body_without_secrets(body: &str, secrets: &[SecretString]) -> String {
    let search = Search { is_json: true, is_cut: true };
    let marked = |range| Removal { range, is_marked: true };
    let mut removals: Vec<_> = find_all(body, secrets, search).into_iter().map(marked).collect();
    removals.extend(split::removals(body, |text| find_all(text, secrets, search)));
    removals.extend(logprobs::removals(body));
    without(body, removals)
}

/// Returns a text without some of its parts, which may overlap.
fn without(text: &str, mut removals: Vec<Removal>) -> String {
    removals.sort_by_key(|removal| removal.range.start);
    let mut shown = String::with_capacity(text.len());
    let mut end = 0;
    for Removal { range, is_marked } in removals {
        let begins_within = range.start < end;
        if !begins_within {
            shown.push_str(&text[end..range.start]);
        }
        if is_marked && !(begins_within && shown.ends_with(REDACTED)) {
            shown.push_str(REDACTED);
        }
        end = end.max(range.end);
    }
    shown.push_str(&text[end..]);
    shown
}

/// Returns where `secrets` are in a text, and what looks like one, in ascending order.
fn find_all(text: &str, secrets: &[SecretString], search: Search) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut boundary = Boundary::default();
    while let Some(next) = rest.chars().next() {
        // Of two secrets, one may be the beginning of the other.
        let after_secret = secrets
            .iter()
            .filter_map(|secret| skip_secret(rest, secret.expose_secret(), search.is_cut))
            .min_by_key(|after| after.len());
        let secret = after_secret.map(|after| (rest, after));
        if let Some((secret, after)) =
            secret.or_else(|| formats::find(rest, boundary.is_here(), search))
        {
            found.push(text.len() - secret.len()..text.len() - after.len());
            rest = after;
            boundary = Boundary::default();
            continue;
        }
        rest = if let Some((_, after)) = decode_escape(rest) {
            boundary = Boundary::default();
            after
        } else {
            boundary.pass(next);
            &rest[next.len_utf8()..]
        };
    }
    found
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    proptest! {
        #[test]
        fn no_text_is_refused(
            pieces in prop::collection::vec(prop_oneof![
                prop::sample::select(&[
                    "\\", "\\\\", "%", "\\u", "\\u00", "%2", "%+f", "\"", "\n", "data: {\"index\":", "\"delta\":\"", "\"}\n",
                    "\"logprobs\":[", "]", "{", "}", "://", ":", "@h", "%3A%2F%2F", "-----BEGIN PRIVATE KEY-----",
                    "-----END ", "Bearer ", "sk-", "secret_key=", "pass/", "é",
                ][..]).prop_map(str::to_owned),
                "[A-Za-z0-9+/]{0,20}",
                any::<String>(),
            ], 0..24),
        ) {
            let secrets = ["pass/é\\".into()];
            let text = pieces.concat();
            for is_cut in [false, true] {
                prop_assert!(without_secrets(&text, &secrets, is_cut).len() <= 4 * text.len());
            }
            let shown = body_without_secrets(&text, &secrets);
            prop_assert!(shown.len() <= 4 * text.len(), "{shown}");
        }
    }
}
