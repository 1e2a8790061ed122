//! Assembles the tool calls of an answer from their pieces, to count their tokens.
//!
//! The result depends neither on how calls are split nor on the framing of the pieces.

use super::pending_text::PendingText;
use domain::wire::call::{CallKey, CallPiece, MAX_CALLS};
use domain::wire::chunk::AnswerForm;

/// The part of an id that identifies a call, in bytes.
const MAX_CALL_ID_BYTES: usize = 256;
/// The part of a name that is kept to detect repetitions, in bytes.
const MAX_NAME_BYTES: usize = 256;
/// The total of ids and names that are kept, in bytes.
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// The calls so far. Pieces beyond [`MAX_CALLS`] or [`MAX_KEPT_BYTES`] are appended to the last call.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<OpenCall>,
    /// The total of kept ids and names, in bytes.
    kept_bytes: usize,
}

#[derive(Debug, Default)]
struct OpenCall {
    /// The index of the choice.
    choice: u32,
    index: Option<u64>,
    id: String,
    name: String,
    /// The part of the name that is not counted yet.
    uncounted_name: PendingText,
    arguments: PendingText,
}

// === impl Calls ===

impl Calls {
    /// Adds a piece of a call, and returns the bytes of text that it adds. In a plain answer, each piece is a
    /// whole call.
    pub(super) fn add(&mut self, choice: u32, piece: &CallPiece<'_>, form: AnswerForm) -> usize {
        let is_full = self.calls.len() >= MAX_CALLS || self.kept_bytes >= MAX_KEPT_BYTES;
        let continues = |call: &OpenCall| {
            form == AnswerForm::Stream && call.choice == choice && call.continues(piece)
        };
        let found = if is_full {
            // A search would cost more with every piece of a hostile answer.
            self.calls.len().checked_sub(1)
        } else {
            self.calls.iter().rposition(continues)
        };
        let at = found.unwrap_or(self.calls.len());
        if at == self.calls.len() {
            self.calls.push(OpenCall { choice, index: piece.index, ..OpenCall::default() });
        }
        let call = &mut self.calls[at];
        let kept_before = call.kept_bytes();
        let added = call.add(piece);
        self.kept_bytes += call.kept_bytes() - kept_before;
        added
    }

    /// Returns the names and arguments that are not counted yet.
    pub(super) fn texts_mut(&mut self) -> impl Iterator<Item = &mut PendingText> {
        self.calls.iter_mut().flat_map(|call| [&mut call.uncounted_name, &mut call.arguments])
    }
}

// === impl OpenCall ===

impl OpenCall {
    fn continues(&self, piece: &CallPiece<'_>) -> bool {
        let key = CallKey { index: piece.index, id: id(piece) };
        key.may_continue(!piece.name.is_empty(), CallKey { index: self.index, id: &self.id })
    }

    fn add(&mut self, piece: &CallPiece<'_>) -> usize {
        let mut added = 0;
        if self.id.is_empty() {
            self.id.push_str(id(piece));
        }
        // Some servers repeat the name with every piece.
        if self.name != name(piece) {
            let room = MAX_NAME_BYTES.saturating_sub(self.name.len());
            self.name.push_str(&piece.name[..piece.name.floor_char_boundary(room)]);
            added += self.uncounted_name.push(&piece.name);
        }
        added + self.arguments.push_escaped(&piece.arguments)
    }

    fn kept_bytes(&self) -> usize {
        self.id.len() + self.name.len()
    }
}

fn id<'a>(piece: &'a CallPiece<'_>) -> &'a str {
    &piece.id[..piece.id.floor_char_boundary(MAX_CALL_ID_BYTES)]
}

fn name<'a>(piece: &'a CallPiece<'_>) -> &'a str {
    &piece.name[..piece.name.floor_char_boundary(MAX_NAME_BYTES)]
}

#[cfg(test)]
mod tests {
    use domain::wire::json::JsonReader;

    use super::*;

    fn calls(form: AnswerForm, lists: &[&str]) -> Calls {
        let mut calls = Calls::default();
        for list in lists {
            let raw = JsonReader::new(list).value().unwrap();
            for piece in CallPiece::read_list(raw).unwrap() {
                calls.add(0, &piece, form);
            }
        }
        calls
    }

    fn texts(mut calls: Calls) -> Vec<String> {
        calls.texts_mut().map(PendingText::take).collect()
    }

    fn check(lists: &[&str], expected: &[&str]) {
        assert_eq!(texts(calls(AnswerForm::Stream, lists)), expected, "{lists:?}");
    }

    #[test]
    fn pieces_are_put_together_by_index() {
        let expected = ["weather", r#"{"city":"Rome"}"#, "clock", "{}"];
        let whole = r#"[{"function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},{"function":{"name":"clock","arguments":"{}"}}]"#;
        let whole = calls(AnswerForm::Plain, &[whole]);
        assert_eq!(texts(whole), expected);
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
        let calls = calls(AnswerForm::Plain, &[list]);
        assert_eq!(texts(calls), ["f", "{}", "", "{}", "g", "", "g", ""]);
    }

    #[test]
    fn calls_without_end_are_text_of_the_last_one() {
        let one = r#"{"function":{"name":"f","arguments":"{}"}}"#;
        let list = format!("[{}]", vec![one; 3 * MAX_CALLS].join(","));
        for form in [AnswerForm::Plain, AnswerForm::Stream] {
            let texts = texts(calls(form, &[&list]));
            assert_eq!(texts.len(), 2 * MAX_CALLS);
            let arguments: usize = texts.iter().skip(1).step_by(2).map(String::len).sum();
            assert_eq!(arguments, 2 * 3 * MAX_CALLS);
        }
    }

    #[test]
    fn ids_and_names_without_end_do_not_fill_memory() {
        let mut calls = Calls::default();
        for number in 0..10_000_u64 {
            let list = format!(
                r#"[{{"index":{number},"id":"{number}{0}","function":{{"name":"{number}{0}"}}}}]"#,
                "x".repeat(1_000)
            );
            let raw = JsonReader::new(&list).value().unwrap();
            calls.add(0, &CallPiece::read_list(raw).unwrap()[0], AnswerForm::Stream);
        }
        assert!(calls.kept_bytes < MAX_KEPT_BYTES + 1024, "{}", calls.kept_bytes);
        assert!(calls.calls.len() < MAX_CALLS);
    }

    #[test]
    fn calls_of_two_choices_are_not_put_together() {
        let mut calls = Calls::default();
        for (choice, arguments) in [(0, "{"), (1, "["), (0, "}"), (1, "]")] {
            let list = format!(r#"[{{"index":0,"function":{{"arguments":"{arguments}"}}}}]"#);
            let raw = JsonReader::new(&list).value().unwrap();
            calls.add(choice, &CallPiece::read_list(raw).unwrap()[0], AnswerForm::Stream);
        }
        assert_eq!(texts(calls), ["", "{}", "", "[]"]);
    }
}
