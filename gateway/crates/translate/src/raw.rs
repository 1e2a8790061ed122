//! JSON that is read one level at a time and otherwise stays the text that it was.
//!
//! Nothing here builds a tree: a request may nest a thousand levels deep, and most of it is only
//! passed on.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::path::Path;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::first_byte;

/// The members of a JSON object, in order, their values unread. `null` counts as absent.
#[derive(Debug)]
pub(super) struct Object<'a, 'p> {
    members: Vec<(Cow<'a, str>, &'a RawValue)>,
    at: Path<'p>,
}

/// Members of an object being written, without its braces.
#[derive(Debug, Default)]
pub(super) struct ObjectWriter {
    out: Vec<u8>,
}

/// The elements of an array.
pub(super) fn elements<'a>(raw: &'a RawValue, at: &Path<'_>) -> Result<Vec<&'a RawValue>, Refusal> {
    if first_byte(raw) != b'[' {
        return Err(at.mistyped("an array"));
    }
    serde_json::from_str(raw.get()).map_err(|_| at.mistyped("an array"))
}

/// A string, borrowed where it has no escapes.
pub(super) fn string<'a>(raw: &'a RawValue, at: &Path<'_>) -> Result<Cow<'a, str>, Refusal> {
    if first_byte(raw) != b'"' {
        return Err(at.mistyped("a string"));
    }
    match serde_json::from_str::<BorrowedStr<'a>>(raw.get()) {
        Ok(text) => Ok(text.0),
        // the one fault that is left in a string that was scanned
        Err(_) => Err(at.invalid("holds half of a surrogate pair, which is no character")),
    }
}

/// JSON text without the white space between its tokens: fit for one line.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut from, mut in_string, mut escaped) = (0, false, false);
    for (index, byte) in json.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b' ' | b'\t' | b'\n' | b'\r' if !in_string => {
                out.push_str(&json[from..index]);
                from = index + 1;
            }
            _ => {}
        }
    }
    out.push_str(&json[from..]);
    out
}

/// JSON text as a raw value. It must be JSON.
pub(super) fn raw_value(json: String) -> Box<RawValue> {
    RawValue::from_string(json).expect("what we write is JSON")
}

#[derive(Deserialize)]
struct BorrowedStr<'a>(#[serde(borrow)] Cow<'a, str>);

struct MemberList<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

// === impl Object ===

impl<'a, 'p> Object<'a, 'p> {
    /// Reads the object at `at`.
    pub(super) fn read(raw: &'a RawValue, at: Path<'p>) -> Result<Self, Refusal> {
        if first_byte(raw) != b'{' {
            return Err(at.mistyped("an object"));
        }
        Self::parse(raw.get(), at)
    }

    /// Reads an object that was not scanned before.
    pub(super) fn parse(json: &'a str, at: Path<'p>) -> Result<Self, Refusal> {
        let broken =
            |what: fmt::Arguments<'_>| at.refuse(RequestFault::InvalidJson, what.to_string());
        let MemberList(members) = serde_json::from_str(json)
            .map_err(|error| broken(format_args!("the request body is not valid JSON: {error}")))?;
        if has_duplicate_keys(&members) {
            return Err(broken(format_args!("an object of the request has one member twice")));
        }
        Ok(Self { members, at })
    }

    /// Where the object is.
    pub(super) const fn at(&self) -> &Path<'p> {
        &self.at
    }

    /// Where a member is, or would be.
    pub(super) const fn path<'n>(&'n self, name: &'n str) -> Path<'n> {
        self.at.field(name)
    }

    /// All members, `null` ones too.
    pub(super) fn members(&self) -> &[(Cow<'a, str>, &'a RawValue)] {
        &self.members
    }

    /// Whether there is such a member, be it `null`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|(key, _)| key == name)
    }

    /// A member's value.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.members.iter().find(|(key, _)| key == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// A member that must be there.
    pub(super) fn require(&self, name: &'static str) -> Result<&'a RawValue, Refusal> {
        self.get(name).ok_or_else(|| self.path(name).missing())
    }

    /// A member that is a string.
    pub(super) fn string(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, Refusal> {
        self.get(name).map(|raw| string(raw, &self.path(name))).transpose()
    }

    /// A member that must be there and be a string.
    pub(super) fn required_string(&self, name: &'static str) -> Result<Cow<'a, str>, Refusal> {
        string(self.require(name)?, &self.path(name))
    }

    /// A member that must be there and be a string with something in it.
    pub(super) fn non_empty_string(&self, name: &'static str) -> Result<Cow<'a, str>, Refusal> {
        let text = self.required_string(name)?;
        if text.is_empty() { Err(self.path(name).invalid("must not be empty")) } else { Ok(text) }
    }

    /// A member that is `true` or `false`.
    pub(super) fn boolean(&self, name: &'static str) -> Result<Option<bool>, Refusal> {
        match self.get(name).map(RawValue::get) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(self.path(name).mistyped("a boolean")),
        }
    }

    /// A member that is a whole number of at least `least`.
    pub(super) fn integer(&self, name: &'static str, least: u64) -> Result<Option<u64>, Refusal> {
        let Some(raw) = self.number(name)? else { return Ok(None) };
        match raw.get().parse::<u64>() {
            Ok(count) if count >= least => Ok(Some(count)),
            _ => Err(self
                .path(name)
                .invalid(format_args!("must be a whole number of at least {least}"))),
        }
    }

    /// A member that is a number within the range of numbers.
    pub(super) fn number(&self, name: &'static str) -> Result<Option<&'a RawValue>, Refusal> {
        let Some(raw) = self.get(name) else { return Ok(None) };
        if !matches!(first_byte(raw), b'-' | b'0'..=b'9') {
            return Err(self.path(name).mistyped("a number"));
        }
        match serde_json::from_str::<f64>(raw.get()) {
            Ok(number) if number.is_finite() => Ok(Some(raw)),
            _ => Err(self.path(name).invalid("is too large a number")),
        }
    }

    /// A member that is an array; empty if there is none.
    pub(super) fn array(&self, name: &'static str) -> Result<Vec<&'a RawValue>, Refusal> {
        self.get(name).map_or_else(|| Ok(Vec::new()), |raw| elements(raw, &self.path(name)))
    }

    /// A member that is an object.
    pub(super) fn object(&self, name: &'static str) -> Result<Option<Object<'a, '_>>, Refusal> {
        self.get(name).map(|raw| Object::read(raw, self.path(name))).transpose()
    }
}

fn has_duplicate_keys(members: &[(Cow<'_, str>, &RawValue)]) -> bool {
    // most objects are small, and then comparing is faster than hashing
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

impl<'de> Deserialize<'de> for MemberList<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = MemberList<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((BorrowedStr(key), value)) =
                    map.next_entry::<BorrowedStr<'de>, &'de RawValue>()?
                {
                    members.push((key, value));
                }
                Ok(MemberList(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

// === impl ObjectWriter ===

impl ObjectWriter {
    /// Adds a member whose value is written by serde.
    pub(super) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.name(name);
        serde_json::to_writer(&mut self.out, value).expect("writing to memory does not fail");
    }

    /// Adds a member whose value is JSON text; white space is left out.
    pub(super) fn put_json(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(compact(json).as_bytes());
    }

    /// The members as text.
    pub(super) fn into_text(self) -> String {
        String::from_utf8(self.out).expect("JSON is UTF-8")
    }

    /// The members as an object.
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
