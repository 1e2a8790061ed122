//! The `stream_options` of a chat request, of which the gateway reads and sets `include_usage`.

use bytes::Bytes;

use super::super::json::RawJson;
use super::super::names::{Folded, ambiguous};
use super::super::range_in;
use super::super::splice::Edit;
use super::fault::{invalid_json, wrong_type};
use super::fields::{Member, for_each_member};
use super::flag;
use crate::refusal::Refusal;

const INCLUDE_USAGE: &str = "include_usage";

/// The parsed options.
#[derive(Debug)]
pub(super) struct StreamOptions<'a> {
    /// The options; may be `null`.
    value: RawJson<'a>,
    /// The value of `include_usage`; may be `null`.
    include_usage: Option<RawJson<'a>>,
}

impl<'a> StreamOptions<'a> {
    /// Parses the options.
    ///
    /// # Errors
    /// The value is not an object, has a duplicate `include_usage`, or a field that some servers
    /// interpret as `include_usage`.
    pub(super) fn read(member: Member<'a>) -> Result<Self, Refusal> {
        let mut options = Self { value: member.value, include_usage: None };
        if options.is_null() {
            return Ok(options);
        }
        if options.value.first_byte() != b'{' {
            return Err(wrong_type("stream_options", "an object"));
        }
        for_each_member(member.value, |_, key, value| {
            if key == INCLUDE_USAGE {
                let earlier = options.include_usage.replace(value);
                return match earlier {
                    None => Ok(()),
                    Some(_) => Err(invalid_json(format!(
                        "`stream_options` is not valid: duplicate field `{INCLUDE_USAGE}`"
                    ))),
                };
            }
            match Folded::new(&key) {
                Some(folded) if folded.is(INCLUDE_USAGE) => {
                    Err(ambiguous("stream_options", &key, INCLUDE_USAGE))
                }
                _ => Ok(()),
            }
        })?;
        Ok(options)
    }

    /// Whether the client requests the usage.
    pub(super) fn include_usage(&self) -> Result<bool, Refusal> {
        let wanted = self.include_usage.filter(|value| !value.is_null());
        Ok(flag(wanted, "stream_options.include_usage")?.unwrap_or_default())
    }

    /// Returns the edit of `body` that sets `include_usage` and changes nothing else.
    pub(super) fn with_usage(&self, body: &str) -> Edit {
        if self.is_null() {
            let range = range_in(body, self.value.get());
            return Edit { range, with: Bytes::from_static(br#"{"include_usage":true}"#) };
        }
        if let Some(value) = self.include_usage {
            return Edit { range: range_in(body, value.get()), with: Bytes::from_static(b"true") };
        }
        let inside = range_in(body, self.value.get()).start + 1;
        let is_empty = body[inside..].trim_ascii_start().starts_with('}');
        let first: &[u8] =
            if is_empty { br#""include_usage":true"# } else { br#""include_usage":true,"# };
        Edit { range: inside..inside, with: Bytes::from_static(first) }
    }

    fn is_null(&self) -> bool {
        self.value.is_null()
    }
}
