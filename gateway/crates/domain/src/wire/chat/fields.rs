//! The single pass over a chat request's body. Collects the fields that the gateway reads and those
//! that must not be forwarded, and refuses fields that servers interpret differently.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::names::{self, Meaning, ambiguous, meaning};
use super::super::{first_byte, range_in};
use super::fault::{invalid_json, misplaced, other_models, several_answers, too_deep, too_many};
use super::messages::{Messages, MessagesReader, stop};
use crate::refusal::Refusal;

/// The maximum number of removed fields per request.
const MAX_IGNORED: usize = 32;
/// The maximum nesting of parameter containers.
const MAX_DEPTH: usize = 3;

/// The fields of a request, unvalidated.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) model: Option<Member<'a>>,
    pub(super) messages: Option<Messages>,
    pub(super) stream: Option<Member<'a>>,
    pub(super) stream_options: Option<Member<'a>>,
    pub(super) max_tokens: Option<Member<'a>>,
    pub(super) max_completion_tokens: Option<Member<'a>>,
    pub(super) n: Option<Member<'a>>,
    pub(super) ignored: Vec<Ignored<'a>>,
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    /// The value, which may be `null`.
    pub(super) value: &'a RawValue,
    /// The byte offset of the object in the body.
    pub(super) object: usize,
    /// The number of preceding fields in the object.
    pub(super) index: usize,
}

/// A field that is removed from the forwarded request.
#[derive(Debug)]
pub(super) struct Ignored<'a> {
    /// The path, such as `options.num_predict`.
    pub(super) path: String,
    pub(super) member: Member<'a>,
}

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl<'a> Fields<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// The body is not a JSON object, has a duplicate of a field that the gateway reads, or a field
    /// that some server would interpret as another one.
    pub(super) fn read(body: &'a str) -> Result<Self, Refusal> {
        let (mut fields, mut refusal) = (Self::default(), None);
        let mut json = serde_json::Deserializer::from_str(body);
        let reader = FieldsReader { fields: &mut fields, refusal: &mut refusal, body };
        match json.deserialize_map(reader).and_then(|()| json.end()) {
            Ok(()) => Ok(fields),
            Err(error) => Err(refusal.unwrap_or_else(|| {
                invalid_json(format!("the request body is not valid JSON: {error}"))
            })),
        }
    }

    fn set<E: Error>(&mut self, name: &'static str, member: Member<'a>) -> Result<(), E> {
        let field = match name {
            "model" => &mut self.model,
            "stream" => &mut self.stream,
            "stream_options" => &mut self.stream_options,
            "max_tokens" => &mut self.max_tokens,
            "max_completion_tokens" => &mut self.max_completion_tokens,
            _ => &mut self.n,
        };
        if field.replace(member).is_some() { Err(E::duplicate_field(name)) } else { Ok(()) }
    }

    /// Handles a field that the gateway does not read, but that has a `meaning` for some servers:
    /// the field passes, is removed or is refused.
    fn handle_unread(
        &mut self,
        body: &'a str,
        meaning: Meaning,
        path: String,
        member: Member<'a>,
        depth: usize,
    ) -> Result<(), Refusal> {
        let value = member.value.get();
        match meaning {
            Meaning::Multiplier if !matches!(value, "null" | "false" | "1") => {
                return Err(several_answers(&path));
            }
            Meaning::ModelChoice if value != "null" => return Err(other_models(&path)),
            Meaning::Ours(_) | Meaning::Multiplier | Meaning::ModelChoice => {}
            Meaning::ForeignCap if self.ignored.len() == MAX_IGNORED => {
                return Err(too_many(&path));
            }
            Meaning::ForeignCap => self.ignored.push(Ignored { path, member }),
            Meaning::Container if first_byte(member.value) != b'{' => {}
            Meaning::Container if depth == MAX_DEPTH => return Err(too_deep(&path)),
            Meaning::Container => {
                let object = range_in(body, value).start;
                for_each_member(value, |index, key, value| {
                    let Some(meaning) = meaning_within(&key) else { return Ok(()) };
                    let path = names::path(&path, &key);
                    if let Meaning::Ours(name) = meaning {
                        return Err(misplaced(&path, name));
                    }
                    let member = Member { value, object, index };
                    self.handle_unread(body, meaning, path, member, depth + 1)
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the meaning of a field in a container. There, any output cap is one that the gateway
/// does not support.
fn meaning_within(key: &str) -> Option<Meaning> {
    Some(match meaning(key)? {
        Meaning::Ours("max_tokens" | "max_completion_tokens") => Meaning::ForeignCap,
        other => other,
    })
}

/// Calls `visit` with the index, name and value of each field of an object.
///
/// # Errors
/// The object is not valid, or `visit` returned an error.
pub(super) fn for_each_member<'a>(
    json: &'a str,
    visit: impl FnMut(usize, Cow<'a, str>, &'a RawValue) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut refusal = None;
    let reader = MemberReader { visit, refusal: &mut refusal };
    let read = serde_json::Deserializer::from_str(json).deserialize_map(reader);
    read.map_err(|error| {
        refusal
            .unwrap_or_else(|| invalid_json(format!("the request body is not valid JSON: {error}")))
    })
}

struct FieldsReader<'r, 'a> {
    fields: &'r mut Fields<'a>,
    refusal: &'r mut Option<Refusal>,
    body: &'a str,
}

struct MemberReader<'r, F> {
    visit: F,
    refusal: &'r mut Option<Refusal>,
}

impl<'a> Visitor<'a> for FieldsReader<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        let Self { fields, refusal, body } = self;
        let object = body.len() - body.trim_start().len();
        let mut index = 0;
        while let Some(Text(key)) = map.next_key()? {
            match meaning(&key) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(Meaning::Ours(name)) if key != name => {
                    return Err(stop(refusal, ambiguous("", &key, name)));
                }
                Some(Meaning::Ours("messages")) => {
                    let messages =
                        map.next_value_seed(MessagesReader { refusal: &mut *refusal })?;
                    if fields.messages.replace(messages).is_some() {
                        return Err(M::Error::duplicate_field("messages"));
                    }
                }
                Some(meaning) => {
                    let member = Member { value: map.next_value()?, object, index };
                    match meaning {
                        Meaning::Ours(name) => fields.set(name, member)?,
                        other => fields
                            .handle_unread(body, other, names::path("", &key), member, 0)
                            .map_err(|found| stop(refusal, found))?,
                    }
                }
            }
            index += 1;
        }
        Ok(())
    }
}

impl<'a, F> Visitor<'a> for MemberReader<'_, F>
where
    F: FnMut(usize, Cow<'a, str>, &'a RawValue) -> Result<(), Refusal>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(mut self, mut map: M) -> Result<(), M::Error> {
        let mut index = 0;
        while let Some((Text(key), value)) = map.next_entry::<Text<'a>, &'a RawValue>()? {
            (self.visit)(index, key, value).map_err(|found| stop(self.refusal, found))?;
            index += 1;
        }
        Ok(())
    }
}
