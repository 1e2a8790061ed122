//! Reads JSON texts of which most is skipped, such as the messages of a request, which only its upstream reads.
//!
//! Skipped values are validated (RFC 8259), with vectorized searches for the ends of strings. Nothing is allocated for
//! them but a stack of open arrays and objects, so that any depth of nesting can be skipped.

mod raw;
mod search;

use std::borrow::Cow;

use serde::de::IgnoredAny;

pub use self::raw::RawJson;
use self::search::{find_special, is_code_unit};

/// Reads a JSON text from its beginning to its end.
pub struct JsonReader<'a> {
    text: &'a str,
    /// The number of bytes that were read.
    at: usize,
    /// The closing brackets of the arrays and objects that are open in the value that is skipped.
    open: Vec<u8>,
}

/// Describes why a text is not JSON or not of the expected structure, by kind and position. It contains nothing of the
/// text, which may be data of a user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

/// Returns the text of a body; `None` if it is not valid UTF-8.
pub fn as_utf8(body: &[u8]) -> Option<&str> {
    simdutf8::basic::from_utf8(body).ok()
}

// === impl JsonReader ===

impl<'a> JsonReader<'a> {
    /// Creates a reader of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, open: Vec::new() }
    }

    /// Returns the first byte of the next token, which identifies the type of a value; `None` at the end of the text.
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                next => return next.copied(),
            }
        }
    }

    /// Returns the number of bytes that were read.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Skips a value and returns its text.
    ///
    /// # Errors
    /// There is no value.
    pub fn value(&mut self) -> Result<RawJson<'a>, Malformed> {
        self.peek();
        let start = self.at;
        self.open.clear();
        loop {
            match self.next_token()? {
                b'"' => _ = self.skip_string()?,
                b'{' if self.take(b'}') => {}
                b'{' => {
                    self.open.push(b'}');
                    self.skip_name()?;
                    continue;
                }
                b'[' if self.take(b']') => {}
                b'[' => {
                    self.open.push(b']');
                    continue;
                }
                b't' => self.skip_literal("rue")?,
                b'f' => self.skip_literal("alse")?,
                b'n' => self.skip_literal("ull")?,
                first @ (b'-' | b'0'..=b'9') => self.skip_number(first)?,
                _ => return Err(self.malformed()),
            }
            // A value has ended, and with it those that end with it.
            loop {
                let Some(&closing) = self.open.last() else {
                    return Ok(RawJson(&self.text[start..self.at]));
                };
                if self.take(closing) {
                    self.open.pop();
                    continue;
                }
                self.expect(b',')?;
                if closing == b'}' {
                    self.skip_name()?;
                }
                break;
            }
        }
    }

    /// Reads an object: calls `member` with the name of each member; it must read the value.
    ///
    /// # Errors
    /// There is no object, or `member` failed.
    pub fn object<E: From<Malformed>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            member(self, name)?;
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads an array: calls `element` for each element, which it must read.
    ///
    /// # Errors
    /// There is no array, or `element` failed.
    pub fn array<E: From<Malformed>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// Something does.
    pub fn end(&mut self) -> Result<(), Malformed> {
        if self.peek().is_none() { Ok(()) } else { Err(self.malformed()) }
    }

    /// Reads `null` if it is next, and returns whether it was.
    ///
    /// # Errors
    /// Another literal is next.
    pub fn null(&mut self) -> Result<bool, Malformed> {
        let is_next = self.peek() == Some(b'n');
        if is_next {
            self.value()?;
        }
        Ok(is_next)
    }

    /// Describes what is wrong with the text where it was read last. It is parsed once more, which finds the line and
    /// column of a syntax error.
    #[cold]
    pub fn malformed(&self) -> Malformed {
        Malformed(match serde_json::from_str::<IgnoredAny>(self.text) {
            Err(error) => error.to_string(),
            Ok(_) => return self.error("unexpected value"),
        })
    }

    /// Reports `what` where the text was read last.
    #[cold]
    pub(super) fn error(&self, what: &str) -> Malformed {
        Malformed(format!("{what} before byte {}", self.at))
    }

    /// Reads the name of a member and the colon after it.
    fn name(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let start = self.opening_quote()?;
        let has_escapes = self.skip_string()?;
        let name = RawJson(&self.text[start..self.at]);
        self.expect(b':')?;
        if !has_escapes {
            return Ok(Cow::Borrowed(name.inner()));
        }
        name.string().ok_or_else(|| self.error("unpaired surrogate in the name of a field"))
    }

    fn skip_name(&mut self) -> Result<(), Malformed> {
        self.opening_quote()?;
        self.skip_string()?;
        self.expect(b':')
    }

    /// Reads the opening quote of a string and returns its position.
    fn opening_quote(&mut self) -> Result<usize, Malformed> {
        self.expect(b'"')?;
        Ok(self.at - 1)
    }

    /// Skips a string whose opening quote was read, and returns whether it has escape sequences.
    fn skip_string(&mut self) -> Result<bool, Malformed> {
        let mut has_escapes = false;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(length) = find_special(rest) else { return Err(self.malformed()) };
            self.at += length + 1;
            match rest[length] {
                b'"' => return Ok(has_escapes),
                b'\\' => has_escapes = true,
                _ => return Err(self.malformed()),
            }
            self.at += match rest.get(length + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 1,
                Some(b'u') if is_code_unit(&rest[length + 2..]) => 5,
                _ => return Err(self.malformed()),
            };
        }
    }

    /// Skips a literal whose first letter was read.
    fn skip_literal(&mut self, rest: &str) -> Result<(), Malformed> {
        if !self.text.as_bytes()[self.at..].starts_with(rest.as_bytes()) {
            return Err(self.malformed());
        }
        self.at += rest.len();
        Ok(())
    }

    /// Skips a number whose first character was read.
    fn skip_number(&mut self, first: u8) -> Result<(), Malformed> {
        let is_negative = first == b'-';
        let leading =
            if is_negative { self.next_if(|it| it.is_ascii_digit()) } else { Some(first) };
        match leading {
            Some(b'0') => {}
            Some(_) => _ = self.skip_digits(),
            None => return Err(self.malformed()),
        }
        if self.next_if(|byte| byte == b'.').is_some() && self.skip_digits() == 0 {
            return Err(self.malformed());
        }
        if self.next_if(|byte| matches!(byte, b'e' | b'E')).is_some() {
            self.next_if(|byte| matches!(byte, b'+' | b'-'));
            if self.skip_digits() == 0 {
                return Err(self.malformed());
            }
        }
        Ok(())
    }

    /// Skips digits and returns their number.
    fn skip_digits(&mut self) -> usize {
        let start = self.at;
        while self.next_if(|byte| byte.is_ascii_digit()).is_some() {}
        self.at - start
    }

    /// Reads the next byte if it is as wanted.
    fn next_if(&mut self, is_wanted: impl FnOnce(u8) -> bool) -> Option<u8> {
        let byte = *self.text.as_bytes().get(self.at)?;
        is_wanted(byte).then(|| {
            self.at += 1;
            byte
        })
    }

    /// Reads the first byte of the next token.
    fn next_token(&mut self) -> Result<u8, Malformed> {
        let Some(byte) = self.peek() else { return Err(self.malformed()) };
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next token if it is `token`.
    fn take(&mut self, token: u8) -> bool {
        let is_next = self.peek() == Some(token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: u8) -> Result<(), Malformed> {
        if self.take(token) { Ok(()) } else { Err(self.malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_value(text: &str) -> bool {
        let mut json = JsonReader::new(text);
        json.value().is_ok() && json.end().is_ok()
    }

    #[track_caller]
    fn check(text: &str) {
        let expected = serde_json::from_str::<IgnoredAny>(text).is_ok();
        assert_eq!(is_value(text), expected, "{text:?}");
    }

    #[test]
    fn accepts_what_is_json_and_nothing_else() {
        let atoms = [
            "",
            " ",
            "null",
            " true ",
            "false",
            "nul",
            "nulll",
            "truefalse",
            "0",
            "-0",
            "-",
            "01",
            "1.",
            "1.5",
            ".5",
            "1e",
            "1e5",
            "1E+05",
            "1e-",
            "-1.25e-7",
            "+1",
            "1e999",
            "1 2",
            "\u{a0}1",
        ];
        let nested = [
            "[]",
            "[ ]",
            "[,]",
            "[1,]",
            "[1 2]",
            "[1,2",
            "]",
            "[1}",
            "{}",
            "{ }",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1,"b":[{}]}"#,
            "{1:2}",
            r#"{"a":1}}"#,
        ];
        let strings = [
            r#""""#,
            r#"""#,
            r#""a"#,
            r#""\\""#,
            r#""\""#,
            r#""\q""#,
            r#""\u12""#,
            r#""\u12é""#,
            r#""\ud800""#,
            "\"\\n\"",
            "\"\n\"",
            "\"\u{1f}\"",
            "\"\u{7f}é\u{2028}\"",
        ];
        for text in atoms.into_iter().chain(nested).chain(strings) {
            check(text);
            check(&format!(r#"{{"a": [{text}, "b"]}}"#));
            check(&format!(r#"["{}{text}"]"#, "x".repeat(100)));
        }
    }

    #[test]
    fn strings_of_any_length_are_validated() {
        for length in 0..100 {
            let plain = "é".repeat(length / 2) + &"x".repeat(length % 2);
            check(&format!("\"{plain}\""));
            check(&format!("\"{plain}\u{1f}\""));
        }
    }

    #[test]
    fn values_are_skipped_at_any_depth() {
        let deep = format!("{}1{}", "[{\"a\":".repeat(100_000), "}]".repeat(100_000));
        assert!(is_value(&deep));
        assert!(!is_value(&deep[..deep.len() - 1]));
    }

    #[test]
    fn members_and_elements_are_read_in_order() {
        let text = r#" { "a" : [ 1 , {"x":"]"} ] , "b\u0063" : "é" , "a":null } "#;
        let mut json = JsonReader::new(text);
        let mut seen = Vec::new();
        let read: Result<(), Malformed> = json.object(|json, name| {
            if json.peek() == Some(b'[') {
                return json.array(|json| {
                    seen.push(format!("{name}: {}", json.value()?.get()));
                    Ok(())
                });
            }
            seen.push(format!("{name}: {}", json.value()?.get()));
            Ok(())
        });
        read.unwrap();
        json.end().unwrap();
        assert_eq!(seen, ["a: 1", r#"a: {"x":"]"}"#, r#"bc: "é""#, "a: null"]);
    }

    #[test]
    fn errors_give_kind_and_position() {
        let error = |text| JsonReader::new(text).value().unwrap_err().to_string();
        assert_eq!(error("[1,\n2"), "EOF while parsing a list at line 2 column 1");
        let names =
            |text| JsonReader::new(text).object::<Malformed>(|json, _| json.value().map(drop));
        let error = names(r#"{"\ud800":1}"#).unwrap_err().to_string();
        assert_eq!(error, "unpaired surrogate in the name of a field before byte 10");
        assert_eq!(names("[]").unwrap_err().to_string(), "unexpected value before byte 0");
        assert!(JsonReader::new(" null").null().unwrap());
        assert!(!JsonReader::new("1").null().unwrap());
        assert!(JsonReader::new("nil").null().is_err());
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "a", "\"a\"", "\"b\":", "1", "-", ".", "e", "0", "true", "null",
            " ", "\n", "u00e9", "é", "\u{1}", "\"a text that is longer than what is searched by words\"",
        ]), 0..24)) {
            check(&tokens.concat());
        }
    }
}
