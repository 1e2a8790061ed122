//! The tool calls of an answer, put together from their pieces, to be counted.
//!
//! In how many pieces they came makes no difference, nor do the frames around the pieces.

use std::borrow::Cow;

use crate::wire::call::{CallPiece, MOST_CALLS};
use crate::wire::chunk::AnswerForm;
use crate::wire::text::decode;

/// As much of an id, in bytes, as tells calls apart.
const LONGEST_ID: usize = 256;

/// The calls so far. What comes beyond [`MOST_CALLS`] is text of the last one.
#[derive(Debug, Default)]
pub struct Calls {
    calls: Vec<Call>,
    /// How much text they are, in bytes.
    len: usize,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    /// JSON text without its quotes.
    arguments: String,
}

// === impl Calls ===

impl Calls {
    /// Adds a call or a piece of one. The calls of a whole answer are one each.
    pub(super) fn add(&mut self, piece: &CallPiece<'_>, form: AnswerForm) {
        let goes_on = |call: &Call| form == AnswerForm::Stream && call.goes_on_with(piece);
        let at = self.calls.iter().rposition(goes_on).unwrap_or(self.calls.len());
        let at = at.min(MOST_CALLS - 1);
        if at == self.calls.len() {
            self.calls.push(Call { index: piece.index, ..Call::default() });
        }
        self.len += self.calls[at].add(piece);
    }

    /// How much text they are, in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Their names and arguments.
    pub(super) fn texts(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.calls.iter().flat_map(|call| [Cow::Borrowed(&*call.name), decode(&call.arguments)])
    }
}

// === impl Call ===

impl Call {
    fn goes_on_with(&self, piece: &CallPiece<'_>) -> bool {
        let id = id(piece);
        match piece.index {
            // some servers give every call the same index, and an id of its own (`S-6`)
            Some(_) => {
                let is_same = self.id.is_empty() || id.is_empty() || self.id == id;
                self.index == piece.index && is_same
            }
            None if id.is_empty() => piece.name.is_empty(),
            None => self.id == id,
        }
    }

    /// Gives how much text that is, in bytes.
    fn add(&mut self, piece: &CallPiece<'_>) -> usize {
        let before = self.name.len() + self.arguments.len();
        if self.id.is_empty() {
            self.id.push_str(id(piece));
        }
        // some say it again with every piece
        if self.name != piece.name {
            self.name.push_str(&piece.name);
        }
        self.arguments.push_str(&piece.arguments);
        self.name.len() + self.arguments.len() - before
    }
}

fn id<'a>(piece: &'a CallPiece<'_>) -> &'a str {
    &piece.id[..piece.id.floor_char_boundary(LONGEST_ID)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(form: AnswerForm, lists: &[&str]) -> Calls {
        let mut calls = Calls::default();
        for list in lists {
            let raw = serde_json::from_str(list).unwrap();
            CallPiece::read_list(raw).unwrap().iter().for_each(|piece| calls.add(piece, form));
        }
        calls
    }

    fn check(lists: &[&str], expected: &[&str]) {
        assert_eq!(
            calls(AnswerForm::Stream, lists).texts().collect::<Vec<_>>(),
            expected,
            "{lists:?}"
        );
    }

    #[test]
    fn pieces_are_put_together_by_index() {
        let expected = ["weather", r#"{"city":"Rome"}"#, "clock", "{}"];
        let whole = r#"[{"function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},{"function":{"name":"clock","arguments":"{}"}}]"#;
        let whole = calls(AnswerForm::Whole, &[whole]);
        assert_eq!(whole.texts().collect::<Vec<_>>(), expected);
        let pieces = [
            r#"[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"clock","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"name":"weather","arguments":"{\"ci"}}]"#,
            r#"[{"index":0,"id":"a","function":{"arguments":"ty\":\"Ro"}}]"#,
            r#"[{"index":0,"function":{"arguments":"me\"}"}}]"#,
        ];
        check(&pieces, &expected);
    }

    #[test]
    fn dialects_are_understood() {
        let same_index = [
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
            r#"[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]"#,
        ];
        check(&same_index, &["f", "{}", "f", "{}"]);
        let without_index = [
            r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"function":{"arguments":"}"}}]"#,
        ];
        check(&without_index, &["f", "{}"]);
        let id_alone = [
            r#"[{"id":7,"function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"id":7,"function":{"arguments":"}"}},{"id":8,"function":{"name":"f"}}]"#,
        ];
        check(&id_alone, &["f", "{}", "f", ""]);
        check(&[r#"[{"function":{"name":"f","arguments":{"a":"b"}}}]"#], &["f", r#"{"a":"b"}"#]);
    }

    #[test]
    fn the_calls_of_a_whole_answer_are_one_each() {
        let list = r#"[{"id":"","function":{"name":"f","arguments":"{}"}},{"id":"","function":{"arguments":"{}"}},{"id":"7","function":{"name":"g"}},{"id":"7","function":{"name":"g"}}]"#;
        let calls = calls(AnswerForm::Whole, &[list]);
        assert_eq!(calls.texts().collect::<Vec<_>>(), ["f", "{}", "", "{}", "g", "", "g", ""]);
    }

    #[test]
    fn calls_without_end_are_text_of_the_last_one() {
        let one = r#"{"function":{"name":"f","arguments":"{}"}}"#;
        let list = format!("[{}]", vec![one; 3 * MOST_CALLS].join(","));
        for form in [AnswerForm::Whole, AnswerForm::Stream] {
            let calls = calls(form, &[&list]);
            assert_eq!(calls.texts().count(), 2 * MOST_CALLS);
            assert_eq!(calls.len(), calls.texts().map(|text| text.len()).sum::<usize>());
            assert!(calls.len() >= 2 * 3 * MOST_CALLS);
        }
    }
}
