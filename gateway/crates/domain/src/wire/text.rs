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

/// The escaped text of a value whose shape is not known: of a string, of an object under the names that
/// text has in objects, or of an array of those.
pub fn any_text_of(raw: &RawValue) -> Cow<'_, str> {
    #[derive(Deserialize)]
    struct Holder<'a> {
        #[serde(borrow)]
        text: Option<&'a RawValue>,
        #[serde(borrow)]
        transcript: Option<&'a RawValue>,
        #[serde(borrow)]
        thinking: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    match first_byte(raw) {
        b'"' => Cow::Borrowed(inner(raw)),
        b'{' => {
            let Ok(holder) = serde_json::from_str::<Holder<'_>>(raw.get()) else {
                return Cow::Borrowed("");
            };
            let names = [holder.text, holder.transcript, holder.thinking, holder.content];
            let texts = names.into_iter().map(text_of);
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
        }
        b'[' => {
            let values: Vec<&RawValue> = serde_json::from_str(raw.get()).unwrap_or_default();
            let flat = values.into_iter().filter(|value| first_byte(value) != b'[');
            Cow::Owned(flat.map(any_text_of).collect())
        }
        _ => Cow::Borrowed(""),
    }
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
