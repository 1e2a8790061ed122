//! The single pass over a chat request's body. Collects the fields that the gateway reads and those
//! that must not be forwarded, and refuses fields that servers interpret differently.

use std::borrow::Cow;

use super::super::json::{JsonReader, RawJson};
use super::super::names::{self, Meaning, ambiguous, meaning};
use super::super::range_in;
use super::fault::{duplicate, misplaced, other_models, several_answers, too_deep, too_many};
use super::messages::Messages;
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
    pub(super) value: RawJson<'a>,
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

impl<'a> Fields<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// The body is not a JSON object, has a duplicate of a field that the gateway reads, or a field
    /// that some server would interpret as another one.
    pub(super) fn read(body: &'a str) -> Result<Self, Refusal> {
        let mut fields = Self::default();
        let mut json = JsonReader::new(body);
        json.peek();
        let (object, mut index) = (json.position(), 0);
        json.object(|json, key| {
            fields.read_field(json, body, &key, object, index)?;
            index += 1;
            Ok::<_, Refusal>(())
        })?;
        json.end()?;
        Ok(fields)
    }

    /// Reads the field `key` of the request, which has this index and is at `object` of the body.
    fn read_field(
        &mut self,
        json: &mut JsonReader<'a>,
        body: &'a str,
        key: &str,
        object: usize,
        index: usize,
    ) -> Result<(), Refusal> {
        match meaning(key) {
            None => _ = json.value()?,
            Some(Meaning::Ours(name)) if key != name => return Err(ambiguous("", key, name)),
            Some(Meaning::Ours(name @ "messages")) => {
                if self.messages.replace(Messages::read(json)?).is_some() {
                    return Err(duplicate(name));
                }
            }
            Some(meaning) => {
                let member = Member { value: json.value()?, object, index };
                match meaning {
                    Meaning::Ours(name) => self.set(name, member)?,
                    other => self.handle_unread(body, other, names::path("", key), member, 0)?,
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, name: &'static str, member: Member<'a>) -> Result<(), Refusal> {
        let field = match name {
            "model" => &mut self.model,
            "stream" => &mut self.stream,
            "stream_options" => &mut self.stream_options,
            "max_tokens" => &mut self.max_tokens,
            "max_completion_tokens" => &mut self.max_completion_tokens,
            _ => &mut self.n,
        };
        if field.replace(member).is_some() { Err(duplicate(name)) } else { Ok(()) }
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
            Meaning::Container if !value.starts_with('{') => {}
            Meaning::Container if depth == MAX_DEPTH => return Err(too_deep(&path)),
            Meaning::Container => {
                let object = range_in(body, value).start;
                for_each_member(member.value, |index, key, value| {
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
    object: RawJson<'a>,
    mut visit: impl FnMut(usize, Cow<'a, str>, RawJson<'a>) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut index = 0;
    JsonReader::new(object.get()).object(|json, key| {
        visit(index, key, json.value()?)?;
        index += 1;
        Ok(())
    })
}
