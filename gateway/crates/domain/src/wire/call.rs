//! The tool calls of a chat answer, whole or in pieces.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::fields::{Unknown, view_fields};
use super::first_byte;
use super::text::{decode, encode, inner, is_label};

/// More calls than any model makes in one answer; what a broken upstream sends beyond must not fill memory.
pub const MAX_CALLS: usize = 1_024;

/// A call, or a piece of one.
#[derive(Debug)]
pub struct CallPiece<'a> {
    /// Which of the answer's calls.
    pub index: Option<u64>,
    /// What the client is to answer it by; empty if this piece does not say.
    pub id: Cow<'a, str>,
    /// What is called; empty if this piece does not say.
    pub name: Cow<'a, str>,
    /// JSON text without its quotes.
    pub arguments: Cow<'a, str>,
    /// Whether it calls a custom tool, whose arguments are any text.
    pub is_custom: bool,
    /// Fields that are none of these and may hold text.
    pub unknown: Vec<Unknown<'a>>,
}

/// The labels by which a piece is assigned to a call (`S-6`).
#[derive(Clone, Copy, Debug)]
pub struct CallKey<'a> {
    /// The index of the call among those of the answer.
    pub index: Option<u64>,
    /// The id; empty if it is not known.
    pub id: &'a str,
}

impl CallKey<'_> {
    /// Returns whether a piece with this key, and with a name if `has_name`, may belong to the call `open`. A piece
    /// belongs to the last call for which this holds. Metering and translation both use this rule.
    pub fn may_continue(self, has_name: bool, open: CallKey<'_>) -> bool {
        match self.index {
            // Some servers give all calls the same index and distinct ids.
            Some(_) => {
                let is_same = open.id.is_empty() || self.id.is_empty() || open.id == self.id;
                open.index == self.index && is_same
            }
            None if self.id.is_empty() => !has_name,
            None => open.id == self.id,
        }
    }
}

view_fields! {
    struct CallView<'a> {
        index: &'a RawValue,
        id: &'a RawValue,
        function: FunctionView<'a>,
        custom: &'a RawValue,
    }
}

view_fields! {
    struct FunctionView<'a> {
        name: &'a RawValue,
        arguments: &'a RawValue,
        /// Of a custom tool's call.
        input: &'a RawValue,
    }
}

impl<'a> CallPiece<'a> {
    /// Reads `tool_calls`.
    ///
    /// # Errors
    /// It is no list of calls or of pieces of them.
    pub fn read_list(tool_calls: &'a RawValue) -> serde_json::Result<Vec<Self>> {
        let views: Vec<CallView<'a>> = serde_json::from_str(tool_calls.get())?;
        let read = |view: CallView<'a>| {
            let mut called = match (view.function, view.custom) {
                (Some(function), _) => Self::of(function),
                (None, Some(custom)) => {
                    Self { is_custom: true, ..Self::of(serde_json::from_str(custom.get())?) }
                }
                (None, None) => Self::of(FunctionView::default()),
            };
            let unused = view.custom.filter(|_| !called.is_custom);
            let labels = [view.index, view.id].into_iter().flatten().filter(|raw| !is_label(raw));
            let unread = labels.chain(unused).map(Unknown::text);
            called.unknown.extend(unread.chain(view.unknown));
            let index = view.index.and_then(|raw| raw.get().parse().ok());
            Ok(Self { index, id: word(view.id), ..called })
        };
        views.into_iter().map(read).collect()
    }

    /// Reads the `function_call` of old servers: the one call that there is (`R-13`).
    ///
    /// # Errors
    /// It is none.
    pub fn read_only(function_call: &'a RawValue) -> serde_json::Result<Self> {
        let view = serde_json::from_str(function_call.get())?;
        Ok(Self { index: Some(0), ..Self::of(view) })
    }

    /// Returns the labels by which the piece is assigned to a call.
    pub fn key(&self) -> CallKey<'_> {
        CallKey { index: self.index, id: &self.id }
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }

    fn of(function: FunctionView<'a>) -> Self {
        let arguments = match function.arguments.or(function.input) {
            Some(raw) if first_byte(raw) == b'"' => Cow::Borrowed(inner(raw)),
            // some servers give the value that the text should stand for (`S-8c`)
            Some(raw) => Cow::Owned(encode(raw.get())),
            None => Cow::Borrowed(""),
        };
        let mut unknown = function.unknown;
        let unused = function.input.filter(|_| function.arguments.is_some());
        unknown.extend(unused.map(Unknown::text));
        let (id, name) = (Cow::Borrowed(""), word(function.name));
        Self { index: None, id, name, arguments, is_custom: false, unknown }
    }
}

/// An id or a name: a string, or a number of servers that count.
fn word(raw: Option<&RawValue>) -> Cow<'_, str> {
    match raw {
        Some(raw) if first_byte(raw) == b'"' => decode(inner(raw)),
        Some(raw) if first_byte(raw).is_ascii_digit() => Cow::Borrowed(raw.get()),
        _ => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &[(Option<u64>, &str, &str, &str)]) {
        let raw: &RawValue = serde_json::from_str(list).unwrap();
        let pieces = CallPiece::read_list(raw).unwrap();
        let read = |piece: &CallPiece<'_>| {
            let text = |cow: &Cow<'_, str>| cow.to_string();
            (piece.index, text(&piece.id), text(&piece.name), text(&piece.arguments))
        };
        let text = ToString::to_string;
        let expected = expected
            .iter()
            .map(|(index, id, name, arguments)| (*index, text(id), text(name), text(arguments)));
        assert!(pieces.iter().map(read).eq(expected), "{list}: {pieces:?}");
    }

    #[test]
    fn calls_are_read_whole_and_in_pieces() {
        check("[]", &[]);
        check(
            r#"[{"index":1,"id":"a","function":{"name":"f\u0041","arguments":"{\"b\""}},{"index":1}]"#,
            &[(Some(1), "a", "fA", r#"{\"b\""#), (Some(1), "", "", "")],
        );
        check(
            r#"[{"type":"custom","id":"c","custom":{"name":"patch","input":"x"}}]"#,
            &[(None, "c", "patch", "x")],
        );
    }

    #[test]
    fn dialects_are_understood() {
        check(
            "[\n{\"id\":7,\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}}}]",
            &[(None, "7", "f", r#"{\"a\":\"b\"}"#)],
        );
        check(
            r#"[{"index":"0","id":null,"function":{"name":null,"arguments":null},"custom":null}]"#,
            &[(None, "", "", "")],
        );
        check(r#"[{"function":{"name":"f"},"custom":false}]"#, &[(None, "", "f", "")]);
    }

    #[test]
    fn the_one_call_of_old_servers_is_a_call() {
        let raw = serde_json::from_str(r#"{"name":"f","arguments":"{"}"#).unwrap();
        let piece = CallPiece::read_only(raw).unwrap();
        assert_eq!((piece.index, &*piece.name, &*piece.arguments), (Some(0), "f", "{"));
        assert!(!piece.is_empty());
    }

    #[test]
    fn what_is_no_list_of_calls_is_told() {
        for list in ["{}", "3", r#"["f"]"#, r#"[{"custom":"f"}]"#] {
            let raw = serde_json::from_str(list).unwrap();
            assert!(CallPiece::read_list(raw).is_err(), "{list}");
        }
    }
}
