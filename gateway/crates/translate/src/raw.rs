//! Reads and writes JSON one level at a time; deeper levels stay text.
//!
//! Invariant: no tree of values is built. A request may be nested a thousand levels deep, and most
//! of it is only forwarded.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use super::path::Path;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::{JsonReader, Malformed, RawJson};
use domain::wire::text::split_string;

/// The members of a JSON object in order, with unparsed values. [`get`](Self::get) and the typed
/// getters treat `null` as absent.
#[derive(Debug)]
pub(super) struct Object<'a, 'p> {
    members: Vec<(Cow<'a, str>, RawJson<'a>)>,
    at: Path<'p>,
}

/// Writes the members of an object, without its braces.
#[derive(Debug, Default)]
pub(super) struct ObjectWriter {
    out: Vec<u8>,
}

/// Returns the elements of the array at `at`.
pub(super) fn elements<'a>(raw: RawJson<'a>, at: &Path<'_>) -> Result<Vec<RawJson<'a>>, Refusal> {
    raw.elements().ok_or_else(|| at.mistyped("an array"))
}

/// Returns the string at `at`, borrowed if it has no escapes.
pub(super) fn string<'a>(raw: RawJson<'a>, at: &Path<'_>) -> Result<Cow<'a, str>, Refusal> {
    if raw.first_byte() != b'"' {
        return Err(at.mistyped("a string"));
    }
    // The only error left in a string that was already read.
    raw.string().ok_or_else(|| at.invalid("has an unpaired surrogate"))
}

/// Removes the white space between tokens, which makes JSON fit on one line.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    let is_quote_or_space = |byte| matches!(byte, b'"' | b' ' | b'\t' | b'\n' | b'\r');
    while let Some(at) = rest.bytes().position(is_quote_or_space) {
        out.push_str(&rest[..at]);
        let (token, after) = rest[at..].split_at(1);
        rest = after;
        if token == "\"" {
            let (string, after) = split_string(rest).unwrap_or((rest, ""));
            out.extend([token, string, token]);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Converts JSON text to a raw value. Panics if `json` is invalid.
pub(super) fn raw_value(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("what we write is JSON")
}

// === impl Object ===

impl<'a, 'p> Object<'a, 'p> {
    /// Reads the object at `at`.
    pub(super) fn read(raw: RawJson<'a>, at: Path<'p>) -> Result<Self, Refusal> {
        if raw.first_byte() != b'{' {
            return Err(at.mistyped("an object"));
        }
        Self::parse(raw.get(), at)
    }

    /// Reads an object from text that was not scanned before.
    pub(super) fn parse(json: &'a str, at: Path<'p>) -> Result<Self, Refusal> {
        let broken =
            |what: fmt::Arguments<'_>| at.refuse(RequestFault::InvalidJson, what.to_string());
        let members = members(json)
            .map_err(|error| broken(format_args!("the request body is not valid JSON: {error}")))?;
        if has_duplicate_keys(&members) {
            return Err(broken(format_args!("an object of the request has a duplicate member")));
        }
        Ok(Self { members, at })
    }

    /// Returns the path of the object.
    pub(super) const fn at(&self) -> &Path<'p> {
        &self.at
    }

    /// Returns the path of a member, present or not.
    pub(super) const fn path<'n>(&'n self, name: &'n str) -> Path<'n> {
        self.at.field(name)
    }

    /// Returns all members, including `null` ones.
    pub(super) fn members(&self) -> &[(Cow<'a, str>, RawJson<'a>)] {
        &self.members
    }

    /// Returns whether the member is present, `null` included.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(key, _)| key == name)
    }

    /// Returns the value of a member; `None` if it is absent or `null`.
    pub(super) fn get(&self, name: &str) -> Option<RawJson<'a>> {
        let (_, value) = self.members.iter().find(|(key, _)| key == name)?;
        (!value.is_null()).then_some(*value)
    }

    /// Returns a required member.
    pub(super) fn require(&self, name: &'static str) -> Result<RawJson<'a>, Refusal> {
        self.get(name).ok_or_else(|| self.path(name).missing())
    }

    /// Returns an optional string.
    pub(super) fn string(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, Refusal> {
        self.get(name).map(|raw| string(raw, &self.path(name))).transpose()
    }

    /// Returns a required string.
    pub(super) fn required_string(&self, name: &'static str) -> Result<Cow<'a, str>, Refusal> {
        string(self.require(name)?, &self.path(name))
    }

    /// Returns a required string that is not empty.
    pub(super) fn non_empty_string(&self, name: &'static str) -> Result<Cow<'a, str>, Refusal> {
        let text = self.required_string(name)?;
        if text.is_empty() { Err(self.path(name).invalid("must not be empty")) } else { Ok(text) }
    }

    /// Returns an optional boolean.
    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<bool>, Refusal> {
        match self.get(name).map(RawJson::get) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.path(name).mistyped("a boolean")),
        }
    }

    /// Returns an optional integer of at least `least`.
    pub(super) fn integer(&self, name: &'static str, least: u64) -> Result<Option<u64>, Refusal> {
        let Some(raw) = self.number(name)? else { return Ok(None) };
        match raw.get().parse::<u64>() {
            Ok(count) if count >= least => Ok(Some(count)),
            _ => Err(self
                .path(name)
                .invalid(format_args!("must be a whole number of at least {least}"))),
        }
    }

    /// Returns an optional number in the range of `f64`.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<RawJson<'a>>, Refusal> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        if !matches!(raw.first_byte(), b'-' | b'0'..=b'9') {
            return Err(self.path(name).mistyped("a number"));
        }
        match serde_json::from_str::<f64>(raw.get()) {
            Ok(number) if number.is_finite() => Ok(Some(raw)),
            _ => Err(self.path(name).invalid("is out of the range of numbers")),
        }
    }

    /// Returns the elements of an optional array; none if it is absent.
    pub(super) fn array(&self, name: &'static str) -> Result<Vec<RawJson<'a>>, Refusal> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |raw| elements(raw, &self.path(name)))
    }

    /// Returns an optional object.
    pub(super) fn object(&self, name: &'static str) -> Result<Option<Object<'a, '_>>, Refusal> {
        self.get(name).map(|raw| Object::read(raw, self.path(name))).transpose()
    }
}

fn has_duplicate_keys(members: &[(Cow<'_, str>, RawJson<'_>)]) -> bool {
    // For small objects, which most are, comparing is faster than hashing.
    if members.len() <= 16 {
        let mut rest = members;
        while let [(key, _), others @ ..] = rest {
            if others.iter().any(|(other, _)| other == key) {
                return true;
            }
            rest = others;
        }
        return false;
    }
    let mut seen = HashSet::with_capacity(members.len());
    !members.iter().all(|(key, _)| seen.insert(key.as_ref()))
}

/// Reads the members of an object in order.
fn members(json: &str) -> Result<Vec<(Cow<'_, str>, RawJson<'_>)>, Malformed> {
    let mut members = Vec::new();
    let mut reader = JsonReader::new(json);
    reader.object::<Malformed>(|json, name| {
        members.push((name, json.value()?));
        Ok(())
    })?;
    reader.end().map(|()| members)
}

// === impl ObjectWriter ===

impl ObjectWriter {
    /// Appends a member with a serialized value.
    pub(super) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        serde_json::to_writer(&mut self.out, value).expect("writing to memory does not fail");
    }

    /// Appends a member whose value is JSON text, without its white space.
    pub(super) fn put_json(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(compact(json).as_bytes());
    }

    /// Returns the members as text.
    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.out).expect("JSON is UTF-8")
    }

    /// Returns the members as an object.
    pub(super) fn into_object(self) -> String {
        format!("{{{}}}", self.into_text())
    }

    fn name(&mut self, name: &str) {
        if !self.out.is_empty() {
            self.out.push(b',');
        }
        serde_json::to_writer(&mut self.out, name).expect("writing to memory does not fail");
        self.out.push(b':');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compact_json_keeps_the_space_in_strings() {
        for (json, expected) in [
            ("", ""),
            (" [ 1 ,\t2\r\n] ", "[1,2]"),
            (r#"{ "a b" : " \" \\" , "é ":[ ] }"#, r#"{"a b":" \" \\","é ":[]}"#),
        ] {
            assert_eq!(compact(json), expected);
        }
    }
}
