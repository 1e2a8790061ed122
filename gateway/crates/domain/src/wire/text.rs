//! Escaped JSON text: extraction of strings from raw values, escaping and unescaping.

use std::borrow::Cow;

use super::json::{JsonReader, Malformed, RawJson};

/// Returns the escaped text of a string, or of an array of strings and parts with a `text`; empty
/// for any other value.
pub fn text_of(raw: Option<RawJson<'_>>) -> Cow<'_, str> {
    let Some(raw) = raw else { return Cow::Borrowed("") };
    match raw.first_byte() {
        b'"' => Cow::Borrowed(raw.inner()),
        b'[' => {
            let mut text = String::new();
            let read = JsonReader::new(raw.get()).array::<Malformed>(|json| {
                let part = json.value()?;
                let of_part =
                    if part.first_byte() == b'{' { part.member("text") } else { Some(part) };
                if let Some(found) = of_part.filter(|raw| raw.first_byte() == b'"') {
                    text.push_str(found.inner());
                }
                Ok(())
            });
            debug_assert!(read.is_ok(), "a raw value is valid JSON");
            Cow::Owned(text)
        }
        _ => Cow::Borrowed(""),
    }
}

/// The maximum length of a string in a field such as `id` or `type` that counts as a label, in
/// bytes. A longer one may be text from a model.
const MAX_LABEL_BYTES: usize = 256;
/// The maximum length of the prefix of a data URL, in bytes.
const MAX_DATA_URL_PREFIX: usize = 128;

/// The kind of strings in a field, by the field's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An id or an enumeration value. Long strings are text nevertheless.
    Label,
    /// Base64 of audio, an image or encrypted data. Strings that are not base64 are text
    /// nevertheless.
    Data,
    /// Text.
    Text,
}

/// All strings of a value of unknown structure, without its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings<'a> {
    /// The concatenated text, escaped.
    pub text: Cow<'a, str>,
    /// The amount of base64, in bytes.
    pub data_bytes: usize,
}

impl FieldKind {
    /// Returns the kind of a field with this name.
    pub fn of(name: &str) -> Self {
        match name {
            "role"
            | "name"
            | "id"
            | "type"
            | "index"
            | "object"
            | "model"
            | "status"
            | "code"
            | "format"
            | "severity"
            | "finish_reason"
            | "native_finish_reason"
            | "stop_reason"
            | "matched_stop"
            | "tool_call_id"
            | "mime_type"
            | "media_type"
            | "detail" => Self::Label,
            "data"
            | "b64_json"
            | "signature"
            | "reasoning_signature"
            | "thought_signature"
            | "encrypted_content" => Self::Data,
            _ => Self::Text,
        }
    }
}

/// Whether a raw value is a short string, a number, a boolean or `null`, and so contains no answer
/// text.
pub fn is_label(raw: RawJson<'_>) -> bool {
    match raw.first_byte() {
        b'"' => raw.inner().len() <= MAX_LABEL_BYTES,
        kind => kind != b'{' && kind != b'[',
    }
}

/// Returns all strings in the value of a field of this kind, at any depth.
pub fn strings_in(kind: FieldKind, raw: RawJson<'_>) -> Strings<'_> {
    let mut found = Strings::default();
    let mut add = |kind: FieldKind, string| match kind {
        FieldKind::Label if str::len(string) <= MAX_LABEL_BYTES => {}
        FieldKind::Data if is_base64(string) => found.data_bytes += string.len(),
        _ if is_data_url(string) => found.data_bytes += string.len(),
        _ if found.text.is_empty() => found.text = Cow::Borrowed(string),
        _ => found.text.to_mut().push_str(string),
    };
    if raw.first_byte() == b'"' {
        add(kind, raw.inner());
        return found;
    }
    // A raw value is valid JSON, so quotes are sufficient to find its strings.
    let mut rest = raw.get();
    let mut kind = FieldKind::Text;
    while let Some(start) = memchr::memchr(b'"', rest.as_bytes()) {
        // A field's name applies only to the value that directly follows it.
        if !rest[..start].bytes().all(|byte| byte == b':' || byte.is_ascii_whitespace()) {
            kind = FieldKind::Text;
        }
        let Some((string, after)) = split_string(&rest[start + 1..]) else { break };
        rest = after;
        if after.trim_ascii_start().starts_with(':') {
            kind = FieldKind::of(string);
            add(FieldKind::Label, string);
        } else {
            add(std::mem::replace(&mut kind, FieldKind::Text), string);
        }
    }
    found
}

/// Splits the JSON text after an opening quote at the closing quote; `None` if there is none.
pub fn split_string(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
        if text.as_bytes()[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        // An escape has at least two bytes; any others are hexadecimal digits.
        at += 2;
    }
}

fn is_data_url(string: &str) -> bool {
    const MARK: &str = ";base64,";
    let prefix = &string[..string.floor_char_boundary(MAX_DATA_URL_PREFIX)];
    let data = prefix.starts_with("data:").then(|| prefix.find(MARK)).flatten();
    data.is_some_and(|at| is_base64(&string[at + MARK.len()..]))
}

/// Whether escaped text consists of base64 characters only, in either alphabet.
fn is_base64(string: &str) -> bool {
    // A slash may be escaped.
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte);
    string.bytes().all(is_digit)
}

/// Unescapes JSON text without quotes. Returns invalid input unchanged.
pub fn decode(escaped: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', escaped.as_bytes()).is_none() {
        return Cow::Borrowed(escaped);
    }
    serde_json::from_str(&format!("\"{escaped}\""))
        .map_or(Cow::Borrowed(escaped), |decoded: String| Cow::Owned(decoded))
}

/// Unescapes JSON text without quotes and appends it to `out`. A high surrogate is kept in `high`
/// until the low surrogate arrives, possibly with the next chunk, since some servers split text
/// between the two. Unpaired surrogates and invalid escapes become replacement characters.
pub fn unescape_into(escaped: &str, high: &mut Option<u16>, out: &mut String) {
    let mut rest = escaped;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        push_plain(&rest[..at], high, out);
        let Some(kind) = rest[at + 1..].chars().next() else { return };
        rest = &rest[at + 1 + kind.len_utf8()..];
        let plain = match kind {
            'n' => "\n",
            't' => "\t",
            'r' => "\r",
            'b' => "\u{8}",
            'f' => "\u{c}",
            '"' => "\"",
            '\\' => "\\",
            '/' => "/",
            'u' => {
                let digits = rest.get(..4).unwrap_or_default();
                rest = &rest[digits.len()..];
                push_unit(u16::from_str_radix(digits, 16).unwrap_or(0xfffd), high, out);
                continue;
            }
            _ => "\u{fffd}",
        };
        push_plain(plain, high, out);
    }
    push_plain(rest, high, out);
}

fn push_plain(text: &str, high: &mut Option<u16>, out: &mut String) {
    if !text.is_empty() {
        if high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
        out.push_str(text);
    }
}

fn push_unit(unit: u16, high: &mut Option<u16>, out: &mut String) {
    let first = high.take();
    if let Some(first) = first
        && let Some(Ok(character)) = char::decode_utf16([first, unit]).next()
    {
        return out.push(character);
    }
    if first.is_some() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    if (0xd800..0xdc00).contains(&unit) {
        *high = Some(unit);
    } else {
        out.push(char::from_u32(unit.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}

/// Returns `text` as a JSON string with quotes.
pub fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string always serialises")
}

/// Returns `text` as an escaped JSON string without quotes.
pub fn encode(text: &str) -> String {
    let mut quoted = json_string(text);
    quoted.pop();
    quoted.remove(0);
    quoted
}

#[cfg(test)]
mod tests {
    use super::super::json::JsonReader;
    use super::*;

    #[test]
    fn reads_text_from_strings_and_parts() {
        let check = |json: &str, expected: &str| {
            let raw = JsonReader::new(json).value().unwrap();
            assert_eq!(text_of(Some(raw)), expected, "{json}");
        };
        check(r#""a\nb""#, r"a\nb");
        check(r#"[{"type":"text","text":"a"},{"type":"image"},"b",{"text":3},null]"#, "ab");
        for json in ["[]", "3", "true", r#"{"text":"a"}"#, "[3]"] {
            check(json, "");
        }
        assert_eq!(text_of(None), "");
    }

    #[test]
    fn finds_strings_in_values_of_any_structure() {
        let check = |json: &str, text: &str, data_bytes: usize| {
            let raw = JsonReader::new(json).value().unwrap();
            let found = strings_in(FieldKind::Text, raw);
            assert_eq!((&*found.text, found.data_bytes), (text, data_bytes), "{json}");
        };
        check(r#""a\n\"""#, r#"a\n\""#, 0);
        check(r#"{"a":{"b" : [{"text":"x"},["y"]],"type":"t","id":"i"},"n":[1,null]}"#, "xy", 0);
        check(r#"[{"id":"i"},"x",{"type":["y"]},{"type" : "t"}]"#, "xy", 0);
        check(r#"{"a\"b":"c\\","role":"d\\\""}"#, r"c\\", 0);
        check(r#"{"url":"data:image/png;base64,AAAA"}"#, "", 26);
        check(r#"{"data":"UklG\/w==","signature":"not base64"}"#, "not base64", 9);
        for json in ["3", "null", "{}", "[]", r#"{"id":"a"}"#] {
            check(json, "", 0);
        }
        let long = "x".repeat(MAX_LABEL_BYTES + 1);
        check(&format!(r#"{{"id":"{long}"}}"#), &long, 0);
        check(&format!(r#"{{"{long}":1}}"#), &long, 0);
        check(&format!(r#"{}"x"{}"#, "[".repeat(100), "]".repeat(100)), "x", 0);
    }

    #[test]
    fn unescapes_text_split_at_any_position() {
        let check = |pieces: &[&str], expected: &str| {
            let (mut high, mut out) = (None, String::new());
            for piece in pieces {
                unescape_into(piece, &mut high, &mut out);
            }
            assert_eq!(out, expected, "{pieces:?}");
        };
        check(&[r#"a\n\t\"\\\/\u00e9"#, r"\u0e01\b\f\r"], "a\n\t\"\\/\u{e9}\u{e01}\u{8}\u{c}\r");
        check(&[r"\ud83d\ude00"], "\u{1f600}");
        check(&[r"\ud83d", r"\ude00!"], "\u{1f600}!");
        check(&[r"\ud83d", "x"], "\u{fffd}x");
        check(&[r"\ude00"], "\u{fffd}");
        check(&[r"\ud83d\ud83d", r"\ude00"], "\u{fffd}\u{1f600}");
        check(&[r"\ud83d\u0041"], "\u{fffd}A");
        // Invalid JSON, which a parser would reject.
        check(&[r"\q\u12", r"a\"], "\u{fffd}\u{fffd}12a");
        check(&[r"\u12é"], "\u{fffd}");
    }

    #[test]
    fn encoded_text_round_trips() {
        for text in ["", "a", "\"\\\n\u{1}é😀"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }
}
