//! Validation of a chat request's messages: at least one, and none that servers interpret
//! differently.
//!
//! Reads only the field names of a message and the parts of its content; other values are skipped.

use super::super::content::Media;
use super::super::json::JsonReader;
use super::super::names::{Folded, ambiguous};
use super::fault::duplicate;
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

impl Messages {
    /// Reads the value of `messages`.
    ///
    /// # Errors
    /// The value is not JSON, or a message has a field twice or one that some servers interpret as another.
    pub(super) fn read(json: &mut JsonReader<'_>) -> Result<Self, Refusal> {
        if json.peek() != Some(b'[') {
            return Ok(if json.value()?.is_null() { Self::Null } else { Self::NoArray });
        }
        let (mut count, mut media) = (0, Media::default());
        json.array(|json| {
            media = media.plus(read_message(json, count)?);
            count += 1;
            Ok::<_, Refusal>(())
        })?;
        Ok(if count == 0 { Self::Empty } else { Self::Some(media) })
    }
}

/// Reads the message with this index and returns its media.
fn read_message(json: &mut JsonReader<'_>, index: usize) -> Result<Media, Refusal> {
    let mut media = Media::default();
    if json.peek() != Some(b'{') {
        json.value()?;
        return Ok(media);
    }
    let mut seen = [false; NAMES.len()];
    json.object(|json, name| {
        let known = NAMES.iter().position(|known| *known == name);
        if let Some(known) = known {
            if std::mem::replace(&mut seen[known], true) {
                return Err(duplicate(NAMES[known]));
            }
        } else if let Some(like) = name_like(&name) {
            return Err(ambiguous(&format!("messages[{index}]"), &name, like));
        }
        let value = json.value()?;
        if name == CONTENT {
            media = Media::of_content(value.get());
        }
        Ok(())
    })?;
    Ok(media)
}

/// Returns the name that some server may interpret `name` as.
fn name_like(name: &str) -> Option<&'static str> {
    let folded = Folded::new(name)?;
    NAMES.into_iter().find(|known| folded.is(known))
}
