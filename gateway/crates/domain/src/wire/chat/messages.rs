//! Validation of a chat request's messages: at least one, and none that servers interpret
//! differently.
//!
//! Reads only the field names of a message and the parts of its content; other values are skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::content::Media;
use super::super::names::{Folded, ambiguous};
use crate::refusal::Refusal;

const CONTENT: &str = "content";
/// The fields of a message that servers read.
const NAMES: [&str; 9] = [
    "role",
    CONTENT,
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "reasoning",
    "reasoning_content",
];

/// The value of `messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    /// An array of at least one message, with the media of all messages.
    Some(Media),
    /// An empty array.
    Empty,
    /// `null`.
    Null,
    /// Any other value.
    NoArray,
}

/// Reads the value of `messages`.
pub(super) struct MessagesReader<'r> {
    pub(super) refusal: &'r mut Option<Refusal>,
}

/// Reads one message.
struct MessageReader<'r> {
    refusal: &'r mut Option<Refusal>,
    media: &'r mut Media,
    /// The index of the message.
    index: usize,
}

/// Stores a refusal for the caller and returns the error that stops the deserialisation.
pub(super) fn stop<E: Error>(slot: &mut Option<Refusal>, refusal: Refusal) -> E {
    *slot = Some(refusal);
    E::custom("the request is refused")
}

impl<'de> DeserializeSeed<'de> for MessagesReader<'_> {
    type Value = Messages;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<Messages, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> DeserializeSeed<'de> for MessageReader<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

/// Reads a field name of a message.
struct NameReader;

/// A field name of a message.
enum Name {
    /// One of [`NAMES`], by index.
    Known(usize),
    /// A name that some server may interpret as one of [`NAMES`].
    Like(Box<str>, &'static str),
    /// Any other name.
    Other,
}

/// Visitor methods for values that are neither objects nor arrays, which both readers accept.
macro_rules! scalars {
    ($value:ty, $null:expr, $other:expr) => {
        type Value = $value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("any value")
        }

        fn visit_unit<E: Error>(self) -> Result<$value, E> {
            Ok($null)
        }

        fn visit_bool<E: Error>(self, _: bool) -> Result<$value, E> {
            Ok($other)
        }

        fn visit_u64<E: Error>(self, _: u64) -> Result<$value, E> {
            Ok($other)
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<$value, E> {
            Ok($other)
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<$value, E> {
            Ok($other)
        }

        fn visit_str<E: Error>(self, _: &str) -> Result<$value, E> {
            Ok($other)
        }
    };
}

impl<'de> Visitor<'de> for MessagesReader<'_> {
    scalars!(Messages, Messages::Null, Messages::NoArray);

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Messages, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Messages::NoArray)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut messages: S) -> Result<Messages, S::Error> {
        let (mut index, mut media) = (0, Media::default());
        while messages
            .next_element_seed(MessageReader {
                refusal: &mut *self.refusal,
                media: &mut media,
                index,
            })?
            .is_some()
        {
            index += 1;
        }
        Ok(if index == 0 { Messages::Empty } else { Messages::Some(media) })
    }
}

impl<'de> Visitor<'de> for MessageReader<'_> {
    scalars!((), (), ());

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> Result<(), S::Error> {
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        let mut seen = [false; NAMES.len()];
        while let Some(name) = map.next_key_seed(NameReader)? {
            match name {
                Name::Known(known) if std::mem::replace(&mut seen[known], true) => {
                    return Err(M::Error::duplicate_field(NAMES[known]));
                }
                Name::Like(key, name) => {
                    let parent = format!("messages[{}]", self.index);
                    return Err(stop(self.refusal, ambiguous(&parent, &key, name)));
                }
                Name::Known(known) if NAMES[known] == CONTENT => {
                    let content = map.next_value::<&RawValue>()?;
                    *self.media = self.media.plus(Media::of_content(content.get()));
                    continue;
                }
                Name::Known(_) | Name::Other => {}
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for NameReader {
    type Value = Name;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Name, D::Error> {
        name.deserialize_identifier(self)
    }
}

impl Visitor<'_> for NameReader {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Name, E> {
        if let Some(known) = NAMES.iter().position(|name| *name == key) {
            return Ok(Name::Known(known));
        }
        let like = Folded::new(key).and_then(|key| NAMES.into_iter().find(|name| key.is(name)));
        Ok(like.map_or(Name::Other, |name| Name::Like(key.into(), name)))
    }
}
