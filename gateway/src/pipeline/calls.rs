//! The tool calls of an answer, put together from their pieces, to be counted.
//!
//! In how many pieces they came makes no difference, nor do the frames around the pieces.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::wire::chat::json_string;
use crate::wire::first_byte;
use crate::wire::text::inner;

/// More calls than any model makes at once. What a broken upstream sends beyond is text of the last one, so
/// that its place is not looked for among all.
const MOST_CALLS: usize = 1_024;

/// The calls so far.
#[derive(Debug, Default)]
pub struct Calls {
    calls: Vec<Call>,
    /// How much text they are, in bytes.
    len: usize,
}

/// One call. Name and arguments are JSON text without its quotes.
#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
struct PieceView<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<FunctionView<'a>>,
    #[serde(borrow)]
    custom: Option<FunctionView<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionView<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow, alias = "input")]
    arguments: Option<&'a RawValue>,
}

impl Calls {
    /// Adds a list of calls or of pieces of them.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn add(&mut self, list: &RawValue) -> serde_json::Result<()> {
        for piece in serde_json::from_str::<Vec<PieceView<'_>>>(list.get())? {
            let index = piece.index.and_then(|raw| raw.get().parse().ok());
            let function = piece.function.or(piece.custom).unwrap_or_default();
            self.add_piece(index, text(piece.id), &function);
        }
        Ok(())
    }

    /// Adds the one call of old servers, or a piece of it (`R-13`).
    ///
    /// # Errors
    /// It is none.
    pub(super) fn add_function(&mut self, function: &RawValue) -> serde_json::Result<()> {
        self.add_piece(Some(0), "", &serde_json::from_str(function.get())?);
        Ok(())
    }

    /// How much text they are, in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Their names and arguments.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().flat_map(|call| [&*call.name, &*call.arguments])
    }

    fn add_piece(&mut self, index: Option<u64>, id: &str, function: &FunctionView<'_>) {
        let name = text(function.name);
        let goes_on = self.calls.iter().rposition(|call| match index {
            // some servers give every call the same index, and an id of its own (`S-6`)
            Some(_) => {
                call.index == index && (id.is_empty() || call.id.is_empty() || call.id == id)
            }
            None => id.is_empty() && name.is_empty(),
        });
        let at = goes_on.unwrap_or(self.calls.len()).min(MOST_CALLS - 1);
        if at == self.calls.len() {
            self.calls.push(Call { index, ..Call::default() });
        }
        let call = &mut self.calls[at];
        let before = call.name.len() + call.arguments.len();
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        // some say it again with every piece
        if call.name != name {
            call.name.push_str(name);
        }
        match function.arguments {
            None => {}
            Some(raw) if first_byte(raw) == b'"' => call.arguments.push_str(inner(raw)),
            // some give the value that the text should stand for (`S-8c`)
            Some(raw) => {
                let quoted = json_string(raw.get());
                call.arguments.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        self.len += call.name.len() + call.arguments.len() - before;
    }
}

/// What stands between the quotes of a string; nothing of anything else.
fn text(raw: Option<&RawValue>) -> &str {
    raw.filter(|raw| first_byte(raw) == b'"').map_or("", inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lists: &[&str]) -> Vec<String> {
        let mut calls = Calls::default();
        for list in lists {
            calls.add(serde_json::from_str(list).unwrap()).unwrap();
        }
        calls.texts().map(str::to_owned).collect()
    }

    #[test]
    fn pieces_are_put_together_by_index() {
        let expected = ["weather", r#"{\"city\":\"Rome\"}"#, "clock", "{}"];
        let whole = texts(&[
            r#"[{"function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},{"function":{"name":"clock","arguments":"{}"}}]"#,
        ]);
        assert_eq!(whole, expected);
        let pieces = texts(&[
            r#"[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]"#,
            r#"[{"index":1,"id":"b","function":{"name":"clock","arguments":"{}"}}]"#,
            r#"[{"index":0,"function":{"name":"weather","arguments":"{\"ci"}}]"#,
            r#"[{"index":0,"id":"a","function":{"arguments":"ty\":\"Ro"}}]"#,
            r#"[{"index":0,"function":{"arguments":"me\"}"}}]"#,
        ]);
        assert_eq!(pieces, expected);
    }

    #[test]
    fn dialects_are_understood() {
        let same_index = [
            r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
            r#"[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]"#,
        ];
        assert_eq!(texts(&same_index), ["f", "{}", "f", "{}"]);
        let value = "[\n{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":\"b\"}}}]";
        assert_eq!(texts(&[value]), ["f", r#"{\"a\":\"b\"}"#]);
        let custom = r#"[{"type":"custom","custom":{"name":"patch","input":"x"}}]"#;
        assert_eq!(texts(&[custom]), ["patch", "x"]);
        let odd = r#"[{"index":"0","function":{"name":"f","arguments":"x"},"custom":null}]"#;
        assert_eq!(texts(&[odd]), ["f", "x"]);
        let without_index = [
            r#"[{"id":"a","function":{"name":"f","arguments":"{"}}]"#,
            r#"[{"function":{"arguments":"}"}}]"#,
        ];
        assert_eq!(texts(&without_index), ["f", "{}"]);
    }

    #[test]
    fn the_one_call_of_old_servers_is_a_call() {
        let mut calls = Calls::default();
        for function in [r#"{"name":"f","arguments":"{"}"#, r#"{"arguments":"}"}"#] {
            calls.add_function(serde_json::from_str(function).unwrap()).unwrap();
        }
        assert_eq!(calls.texts().collect::<Vec<_>>(), ["f", "{}"]);
        assert_eq!(calls.len(), 3);
    }

    #[test]
    fn calls_without_end_are_text_of_the_last_one() {
        let one = r#"{"id":"a","function":{"name":"f","arguments":"{}"}}"#;
        let list = format!("[{}]", vec![one; 3 * MOST_CALLS].join(","));
        let mut calls = Calls::default();
        calls.add(serde_json::from_str(&list).unwrap()).unwrap();
        assert_eq!(calls.texts().count(), 2 * MOST_CALLS);
        assert_eq!(calls.len(), calls.texts().map(str::len).sum::<usize>());
        assert!(calls.len() >= 2 * 3 * MOST_CALLS);
    }

    #[test]
    fn what_is_no_list_of_calls_is_told() {
        let mut calls = Calls::default();
        for list in ["{}", "3", r#"["f"]"#] {
            assert!(calls.add(serde_json::from_str(list).unwrap()).is_err(), "{list}");
        }
    }
}
