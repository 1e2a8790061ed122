//! Searches a JSON text for secrets, whichever escapes its encoder chose.
//!
//! A text may have 64 MiB, so it is not unescaped as a whole.

use memchr::{memchr, memmem};

/// The size of the part of a text that is unescaped at a time, in bytes. It must exceed the longest secret.
const WINDOW_BYTES: usize = 32 * 1024;

/// Returns whether the strings of a JSON text contain one of `secrets`. Escapes are undone everywhere, which is not exact
/// outside of strings, but there they do not occur.
pub(super) fn contains_any(json: &[u8], secrets: &[&[u8]]) -> bool {
    let has_secret =
        |text: &[u8]| secrets.iter().any(|secret| memmem::find(text, secret).is_some());
    if has_secret(json) {
        return true;
    }
    if memchr(b'\\', json).is_none() {
        return false;
    }
    let overlap = secrets.iter().map(|secret| secret.len()).max().unwrap_or_default();
    let mut window = Vec::with_capacity(WINDOW_BYTES.max(2 * overlap));
    let mut rest = json;
    while !rest.is_empty() {
        // The end of the last window may begin a secret.
        window.drain(..window.len().saturating_sub(overlap));
        while window.len() < window.capacity() && !rest.is_empty() {
            let room = rest.len().min(window.capacity() - window.len());
            let plain = memchr(b'\\', &rest[..room]).unwrap_or(room);
            window.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            if plain < room {
                let (byte, length) = unescape(rest);
                window.push(byte);
                rest = &rest[length..];
            }
        }
        if has_secret(&window) {
            return true;
        }
    }
    false
}

/// Returns the character of the escape that begins a text, and the length of the escape. A character outside of ASCII
/// becomes a zero: no header carries either.
fn unescape(text: &[u8]) -> (u8, usize) {
    match text {
        [_, b'u', digits @ ..] if digits.len() >= 4 => {
            let digits = std::str::from_utf8(&digits[..4]).ok();
            let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            let byte = code.and_then(|code| u8::try_from(code).ok()).filter(u8::is_ascii);
            (byte.unwrap_or_default(), 6)
        }
        [_, escaped @ (b'"' | b'\\' | b'/'), ..] => (*escaped, 2),
        // A control character.
        _ => (0, text.len().min(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = r#"c2V\jcm"V0/+dXBz<&>"#;

    fn check(json: &str, expected: bool) {
        let secrets = [&b"another-secret"[..], SECRET.as_bytes()];
        assert_eq!(contains_any(json.as_bytes(), &secrets), expected, "{json:.80}");
    }

    #[test]
    fn a_secret_is_found_whatever_is_escaped() {
        let all = SECRET.bytes().fold(String::new(), |all, it| all + &format!("\\u{it:04X}"));
        let some = SECRET.replace('\\', r"\\").replace('"', "\\\"");
        let slash = some.replace('/', r"\/");
        let html = some.replace('+', r"\u002b").replace('<', r"\u003C").replace('&', r"\u0026");
        for form in [all, some, slash, html, "another-secret".to_owned()] {
            check(&format!(r#"{{"a":"b\n{form}\n"}}"#), true);
            check(&format!(r#"{{"a":"b\n{}\n"}}"#, &form[..form.len() - 1]), false);
        }
        for harmless in
            ["", "{}", "\\", "\\u", "\\u00e", "\\uzzzz", r#"{"a":"\ud83d\ude00\u00e9"}"#]
        {
            check(harmless, false);
        }
    }

    #[test]
    fn a_secret_is_found_at_any_place_of_a_long_text() {
        let form = SECRET.replace('\\', r"\\").replace('"', "\\\"").replace('/', r"\/");
        for before in (WINDOW_BYTES - 40..WINDOW_BYTES + 40).chain([3 * WINDOW_BYTES]) {
            check(&format!(r"\n{}{form}\n", "x".repeat(before)), true);
        }
        check(&r"x\n".repeat(WINDOW_BYTES), false);
    }
}
