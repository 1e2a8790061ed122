//! The tool calls of a chat completion or a chunk.

use std::borrow::Cow;

use super::fields::{Field, Unknown, view_fields};
use super::json::{JsonReader, Malformed, RawJson};
use super::text::{decode, encode, is_label};

/// The maximum number of calls per answer, more than any model makes. Bounds the memory that a
/// faulty upstream can use.
pub const MAX_CALLS: usize = 1_024;

/// A tool call, or a delta of one.
#[derive(Debug)]
pub struct CallPiece<'a> {
    /// The index of the call in the answer.
    pub index: Option<u64>,
    /// The call id; empty if this delta has none.
    pub id: Cow<'a, str>,
    /// The name of the tool; empty if this delta has none.
    pub name: Cow<'a, str>,
    /// The arguments, as escaped JSON text without quotes.
    pub arguments: Cow<'a, str>,
    /// Whether the tool is a custom tool, whose arguments are arbitrary text.
    pub is_custom: bool,
    /// Other fields, which may contain text.
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
        index: RawJson<'a>,
        id: RawJson<'a>,
        function: FunctionView<'a>,
        custom: RawJson<'a>,
    }
}

view_fields! {
    struct FunctionView<'a> {
        name: RawJson<'a>,
        arguments: RawJson<'a>,
        /// The arguments of a custom tool.
        input: RawJson<'a>,
    }
}

impl<'a> CallPiece<'a> {
    /// Parses `tool_calls`.
    ///
    /// # Errors
    /// The value is not a list of calls or deltas of calls.
    pub fn read_list(tool_calls: RawJson<'a>) -> Result<Vec<Self>, Malformed> {
        let views: Vec<CallView<'a>> = read_whole(tool_calls)?;
        let read = |view: CallView<'a>| {
            let mut called = match (view.function, view.custom) {
                (Some(function), _) => Self::of(function),
                (None, Some(custom)) => Self { is_custom: true, ..Self::of(read_whole(custom)?) },
                (None, None) => Self::of(FunctionView::default()),
            };
            let unused = view.custom.filter(|_| !called.is_custom);
            let labels = [view.index, view.id].into_iter().flatten().filter(|raw| !is_label(*raw));
            let unread = labels.chain(unused).map(Unknown::text);
            called.unknown.extend(unread.chain(view.unknown));
            let index = view.index.and_then(|raw| raw.get().parse().ok());
            Ok(Self { index, id: label_text(view.id), ..called })
        };
        views.into_iter().map(read).collect()
    }

    /// Parses the `function_call` of old servers, which is the only call of the answer (`R-13`).
    ///
    /// # Errors
    /// The value is not a call.
    pub fn read_only(function_call: RawJson<'a>) -> Result<Self, Malformed> {
        let view = read_whole(function_call)?;
        Ok(Self { index: Some(0), ..Self::of(view) })
    }

    /// Returns the labels by which the piece is assigned to a call.
    pub fn key(&self) -> CallKey<'_> {
        CallKey { index: self.index, id: &self.id }
    }

    /// Whether id, name and arguments are empty.
    pub fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }

    fn of(function: FunctionView<'a>) -> Self {
        let arguments = match function.arguments.or(function.input) {
            Some(raw) if raw.first_byte() == b'"' => Cow::Borrowed(raw.inner()),
            // Some servers send the JSON value itself instead of its text (`S-8c`).
            Some(raw) => Cow::Owned(encode(raw.get())),
            None => Cow::Borrowed(""),
        };
        let mut unknown = function.unknown;
        let unused = function.input.filter(|_| function.arguments.is_some());
        unknown.extend(unused.map(Unknown::text));
        let (id, name) = (Cow::Borrowed(""), label_text(function.name));
        Self { index: None, id, name, arguments, is_custom: false, unknown }
    }
}

/// Reads a value that is not `null`.
fn read_whole<'a, T: Field<'a>>(raw: RawJson<'a>) -> Result<T, Malformed> {
    let mut json = JsonReader::new(raw.get());
    T::read(&mut json)?.ok_or_else(|| json.malformed())
}

/// Returns an id or a name: a string, or a number, which some servers send.
fn label_text(raw: Option<RawJson<'_>>) -> Cow<'_, str> {
    match raw {
        Some(raw) if raw.first_byte() == b'"' => decode(raw.inner()),
        Some(raw) if raw.first_byte().is_ascii_digit() => Cow::Borrowed(raw.get()),
        _ => Cow::Borrowed(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, expected: &[(Option<u64>, &str, &str, &str)]) {
        let raw = JsonReader::new(list).value().unwrap();
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
    fn parses_calls_and_deltas() {
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
    fn parses_dialects() {
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
    fn parses_function_call_of_old_servers() {
        let raw = JsonReader::new(r#"{"name":"f","arguments":"{"}"#).value().unwrap();
        let piece = CallPiece::read_only(raw).unwrap();
        assert_eq!((piece.index, &*piece.name, &*piece.arguments), (Some(0), "f", "{"));
        assert!(!piece.is_empty());
    }

    #[test]
    fn rejects_values_that_are_not_lists_of_calls() {
        for list in ["{}", "3", r#"["f"]"#, r#"[{"custom":"f"}]"#] {
            let raw = JsonReader::new(list).value().unwrap();
            assert!(CallPiece::read_list(raw).is_err(), "{list}");
        }
    }
}
