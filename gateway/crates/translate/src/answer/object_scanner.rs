//! Detects the end of a JSON object in text that arrives in fragments.
//!
//! Each fragment is scanned once; the whole text is parsed once more when the braces balance.

use serde::de::IgnoredAny;

use domain::wire::text::decode;

/// The state of a scan.
#[derive(Debug, Default)]
pub(super) struct ObjectScanner {
    /// The scanned length of the escaped text, in bytes.
    seen: usize,
    state: ScanState,
}

/// `Open`, `String` and `Escape` carry the nesting depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Start,
    Open(usize),
    String(usize),
    /// After a backslash.
    Escape(usize),
    /// The brackets are balanced; not yet parsed.
    Closed,
    /// The text is an object.
    Valid,
    /// The text is not an object, and no suffix can make it one.
    Invalid,
}

impl ObjectScanner {
    /// Returns whether `text` is a complete object. `text` is the content of a JSON string, still
    /// escaped, and must start with the text of the previous call.
    pub(super) fn is_complete(&mut self, text: &str) -> bool {
        let fresh = decode(text.get(self.seen..).unwrap_or_default());
        self.seen = text.len();
        self.state = fresh.bytes().fold(self.state, ScanState::next);
        if self.state == ScanState::Closed {
            let is_object = serde_json::from_str::<IgnoredAny>(&decode(text)).is_ok();
            self.state = if is_object { ScanState::Valid } else { ScanState::Invalid };
        }
        self.state == ScanState::Valid
    }
}

impl ScanState {
    fn next(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start, b'{') => Self::Open(1),
            (Self::Start | Self::Closed | Self::Valid, b' ' | b'\t' | b'\n' | b'\r') => self,
            (Self::Start | Self::Closed | Self::Valid | Self::Invalid, _) => Self::Invalid,
            (Self::Open(1), b'}' | b']') => Self::Closed,
            (Self::Open(depth), b'}' | b']') => Self::Open(depth - 1),
            (Self::Open(depth), b'{' | b'[') => Self::Open(depth + 1),
            (Self::Open(depth), b'"') | (Self::Escape(depth), _) => Self::String(depth),
            (Self::String(depth), b'"') => Self::Open(depth),
            (Self::String(depth), b'\\') => Self::Escape(depth),
            (Self::Open(_) | Self::String(_), _) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::wire::text::encode;

    /// Feeds `json` one character at a time and returns the lengths at which it is a complete
    /// object.
    fn ends(json: &str) -> Vec<usize> {
        let mut end = ObjectScanner::default();
        let mut text = String::new();
        let reached = json.char_indices().filter_map(|(at, char)| {
            text.push_str(&encode(char.encode_utf8(&mut [0; 4])));
            end.is_complete(&text).then_some(at + 1)
        });
        reached.collect()
    }

    #[test]
    fn the_scanner_agrees_with_a_json_parser() {
        for json in [
            "{}",
            " {\"a\": {\"b\": [1, {}]}, \"c\": \"}\\\"}\\\\\"} \n",
            "{\"a\":\"ü}\"}",
            "{\"a\":[}]}",
            "{a}",
            "{}}",
            "{\"a\":1}{\"a\":2}",
            "[{}]",
            "3",
            "\"{}\"",
            "",
        ] {
            let whole = |at: &usize| {
                json.is_char_boundary(*at)
                    && json[..*at].trim_start().starts_with('{')
                    && serde_json::from_str::<IgnoredAny>(&json[..*at]).is_ok()
            };
            let expected: Vec<_> = (1..=json.len()).filter(whole).collect();
            assert_eq!(ends(json), expected, "{json:?}");
        }
    }

    #[test]
    fn a_million_fragments_with_braces_are_each_scanned_once() {
        let mut end = ObjectScanner::default();
        let mut text = r#"{\"a\":\""#.to_owned();
        for _ in 0..1_000_000 {
            text.push('}');
            // Parsing the whole text each time would take hours.
            assert!(!end.is_complete(&text));
        }
        text.push_str(r#"\"}"#);
        assert!(end.is_complete(&text));
    }

    #[test]
    fn any_escapes_and_fragments_are_scanned() {
        let mut end = ObjectScanner::default();
        for (text, is_complete) in [
            ("", false),
            (r"\u007b\u0022", false),
            (r#"\u007b\u0022a\":1"#, false),
            (r#"\u007b\u0022a\":1\u007d"#, true),
            (r#"\u007b\u0022a\":1\u007d\n"#, true),
            (r#"\u007b\u0022a\":1\u007d\nx"#, false),
            (r#"\u007b\u0022a\":1\u007d\nx}"#, false),
        ] {
            assert_eq!(end.is_complete(text), is_complete, "{text}");
        }
    }
}
