//! Text as the escaped JSON that it came as: of a raw value, and to and from what it stands for.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::first_byte;

/// The escaped text of a value: of a string, or of an array of strings and of parts with a `text`;
/// empty for anything else.
pub fn text_of(raw: Option<&RawValue>) -> Cow<'_, str> {
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

/// A string up to this length in a field such as `id` or `type` is a label; a longer one may be text that a
/// model wrote. In bytes.
const MAX_LABEL_BYTES: usize = 256;
/// The prefix of a data URL is looked for in as much of a string, in bytes.
const MAX_DATA_URL_PREFIX: usize = 128;

/// What the strings of a field are, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An id or a word of an enumeration, unless it is long.
    Label,
    /// Base64 of a recording, an image or something encrypted, if that is what it looks like.
    Data,
    /// Text.
    Text,
}

/// All strings of a value whose shape is not known, but for its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings<'a> {
    /// Escaped text.
    pub text: Cow<'a, str>,
    /// How much base64 there is, in bytes.
    pub data_bytes: usize,
}

impl FieldKind {
    /// The kind of a field with this name.
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

/// Whether a raw value is short and neither an object nor an array, so that nothing of an answer is in it.
pub fn is_label(raw: &RawValue) -> bool {
    match first_byte(raw) {
        b'"' => inner(raw).len() <= MAX_LABEL_BYTES,
        kind => kind != b'{' && kind != b'[',
    }
}

/// Returns the strings in the value of a field of this kind, however deep they are.
pub fn strings_in(kind: FieldKind, raw: &RawValue) -> Strings<'_> {
    let mut found = Strings::default();
    let mut add = |kind: FieldKind, string| match kind {
        FieldKind::Label if str::len(string) <= MAX_LABEL_BYTES => {}
        FieldKind::Data if is_base64(string) => found.data_bytes += string.len(),
        _ if is_data_url(string) => found.data_bytes += string.len(),
        _ if found.text.is_empty() => found.text = Cow::Borrowed(string),
        _ => found.text.to_mut().push_str(string),
    };
    if first_byte(raw) == b'"' {
        add(kind, inner(raw));
        return found;
    }
    // A raw value is valid JSON, so that a look at its quotes is enough to find its strings.
    let mut rest = raw.get();
    let mut kind = FieldKind::Text;
    while let Some(start) = memchr::memchr(b'"', rest.as_bytes()) {
        // The name of a field is that of the one value that follows it.
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

/// Splits JSON text behind a quote at the quote that ends the string.
fn split_string(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.as_bytes().get(at..)?)?;
        if text.as_bytes()[at] == b'"' {
            return Some((&text[..at], &text[at + 1..]));
        }
        // An escape has one more byte at least, and its further ones are digits.
        at += 2;
    }
}

fn is_data_url(string: &str) -> bool {
    const MARK: &str = ";base64,";
    let prefix = &string[..string.floor_char_boundary(MAX_DATA_URL_PREFIX)];
    let data = prefix.starts_with("data:").then(|| prefix.find(MARK)).flatten();
    data.is_some_and(|at| is_base64(&string[at + MARK.len()..]))
}

/// Whether escaped text is nothing but base64 in either of its alphabets.
fn is_base64(string: &str) -> bool {
    // A slash may be escaped.
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=-_\\".contains(&byte);
    string.bytes().all(is_digit)
}

/// What stands between the quotes of a raw string.
pub fn inner(raw: &RawValue) -> &str {
    &raw.get()[1..raw.get().len() - 1]
}

/// The text that JSON text without its quotes stands for.
pub fn decode(escaped: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', escaped.as_bytes()).is_none() {
        return Cow::Borrowed(escaped);
    }
    serde_json::from_str(&format!("\"{escaped}\""))
        .map_or(Cow::Borrowed(escaped), |decoded: String| Cow::Owned(decoded))
}

/// Appends to `out` the text that JSON text without its quotes stands for. Half of a surrogate pair is
/// kept in `high` until the other half comes, with the next piece maybe: some servers cut text between the
/// two. Half a pair that stays alone, and an escape that is none, become a replacement character.
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

/// `text` as a JSON string, quotes included.
pub fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string always serialises")
}

/// JSON text of `text`, without its quotes.
pub fn encode(text: &str) -> String {
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
    fn strings_are_found_in_values_of_any_shape() {
        let check = |json: &str, text: &str, data_bytes: usize| {
            let raw = RawValue::from_string(json.to_owned()).unwrap();
            let found = strings_in(FieldKind::Text, &raw);
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
    fn text_is_unescaped_however_its_pieces_are_cut() {
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
        // no JSON parser lets these through
        check(&[r"\q\u12", r"a\"], "\u{fffd}\u{fffd}12a");
        check(&[r"\u12é"], "\u{fffd}");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for text in ["", "a", "\"\\\n\u{1}é😀"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }
}
