//! The text of a JSON value, whose parts are read when they are needed.

use std::borrow::Cow;

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{JsonReader, Malformed};

/// The text of a JSON value, without white space around it. Its only source is a validating reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawJson<'a>(pub(super) &'a str);

impl<'a> From<&'a RawValue> for RawJson<'a> {
    fn from(value: &'a RawValue) -> Self {
        Self(value.get())
    }
}

impl<'a> RawJson<'a> {
    /// Returns the text.
    pub const fn get(self) -> &'a str {
        self.0
    }

    /// Returns the first byte, which identifies the type of the value: `[`, `{`, `"` and so on.
    pub const fn first_byte(self) -> u8 {
        self.0.as_bytes()[0]
    }

    /// Whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// Returns the string, borrowed if it has no escape sequences; `None` if the value is no string, or has an unpaired
    /// surrogate.
    pub fn string(self) -> Option<Cow<'a, str>> {
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        if self.first_byte() != b'"' {
            return None;
        }
        let inner = self.inner();
        if memchr(b'\\', inner.as_bytes()).is_none() {
            return Some(Cow::Borrowed(inner));
        }
        serde_json::from_str::<Text<'_>>(self.0).ok().map(|Text(text)| text)
    }

    /// Returns what is between the quotes of a string, escaped. The value must be a string: of another one, the first and
    /// last bytes are left out.
    ///
    /// # Panics
    /// The value has one character.
    pub fn inner(self) -> &'a str {
        &self.0[1..self.0.len() - 1]
    }

    /// Returns the elements of an array; `None` if the value is no array.
    pub fn elements(self) -> Option<Vec<Self>> {
        let mut elements = Vec::new();
        let read = JsonReader::new(self.0).array::<Malformed>(|json| {
            elements.push(json.value()?);
            Ok(())
        });
        read.ok().map(|()| elements)
    }

    /// Returns the value of a member of an object, the last one of that name; `None` if there is none.
    pub fn member(self, name: &str) -> Option<Self> {
        let mut found = None;
        let read = JsonReader::new(self.0).object::<Malformed>(|json, key| {
            let value = json.value()?;
            if key == name {
                found = Some(value);
            }
            Ok(())
        });
        read.ok().and(found)
    }

    /// Converts the value to that type of `serde_json`, which validates it once more.
    pub fn to_raw_value(self) -> &'a RawValue {
        serde_json::from_str(self.0).expect("a validated text is JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_give_their_parts() {
        let value = |text| JsonReader::new(text).value().unwrap();
        let list = value(r#"[1, {"a": "x\u0079", "a": "z\n"}]"#).elements().unwrap();
        let [number, object] = list[..] else { panic!("{list:?}") };
        assert_eq!((number.get(), number.string(), number.elements()), ("1", None, None));
        assert_eq!(object.member("a").unwrap().string().unwrap(), "z\n");
        assert_eq!((object.member("b"), number.member("a")), (None, None));
        assert_eq!(value(r#""\ud800""#).string(), None);
        assert_eq!(object.to_raw_value().get(), object.get());
    }
}
