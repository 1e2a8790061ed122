//! Generates answers. The same request gets the same answer, streamed or not. Pure.

use serde_json::{Value, json};

use super::request::{ChatRequest, Format, Function, Role, ToolChoice};
use super::schema;
use super::script::{self, Finish};
use super::text::{count_words, fill, shorten, take_words};

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) reasoning: Option<String>,
    pub(super) content: Option<String>,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Finish,
    pub(super) usage: Usage,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// JSON, unless the script sets other text or the token limit truncated it.
    pub(super) arguments: String,
}

/// The token counts. A token is a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    /// All messages but the last, like a prefix cache.
    pub(super) cached: u64,
    /// Includes reasoning, and one token per tool name.
    pub(super) completion: u64,
    pub(super) reasoning: u64,
}

/// Returns the answer to `chat`.
pub(super) fn answer(chat: &ChatRequest) -> Answer {
    let calls = calls(chat);
    let content = match &chat.script.say {
        Some(text) => Some(text.clone()),
        None if calls.is_empty() => Some(content(chat)),
        None => None,
    };
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let usage = Usage { prompt: 0, cached: 0, completion: 0, reasoning: 0 };
    let mut answer = Answer { reasoning: reasoning(chat), content, calls, finish, usage };
    if chat.max_tokens.is_some_and(|limit| answer.truncate(limit)) {
        answer.finish = Finish::Length;
    }
    answer.finish = chat.script.finish.unwrap_or(answer.finish);
    answer.usage = usage_of(chat, &answer);
    answer
}

fn content(chat: &ChatRequest) -> String {
    let prose = |chat: &ChatRequest| {
        let results = chat.tool_results();
        let mut label = format!("Simulated answer to \"{}\"", shorten(&chat.prompt, 60));
        if !results.is_empty() {
            let quoted: Vec<String> =
                results.iter().map(|result| format!("\"{}\"", shorten(result, 200))).collect();
            label.push_str(", given the tool results ");
            label.push_str(&quoted.join(", "));
        }
        label.push(':');
        let more = usize::try_from(chat.digest % 13).unwrap_or_default();
        let some = label.split_whitespace().count() + 12 + more;
        fill(label, chat.script.words.unwrap_or(some), chat.digest)
    };
    match &chat.format {
        Format::Text => prose(chat),
        Format::JsonObject => json!({ "simulated": true, "answer": prose(chat) }).to_string(),
        Format::JsonSchema { json_schema } => schema::sample(&json_schema.schema).to_string(),
    }
}

fn reasoning(chat: &ChatRequest) -> Option<String> {
    let (name, _) = script::split_model(&chat.model);
    let default = || {
        let label = format!("Simulated reasoning about \"{}\":", shorten(&chat.prompt, 60));
        let words = label.split_whitespace().count() + 8;
        fill(label, words, chat.digest >> 8)
    };
    let given = chat.script.reasoning.clone();
    given.or_else(|| name.starts_with("sim-reasoner").then(default)).filter(|it| !it.is_empty())
}

/// Selects the tools to call: those of the script, those that `tool_choice` requires, or those that
/// the user's message names.
fn calls(chat: &ChatRequest) -> Vec<Call> {
    // The script is still in the conversation when the results of its calls arrive.
    let script_applies = chat.messages.last().is_some_and(|last| last.role != Role::Tool);
    let user_is_last = chat.messages.last().is_some_and(|last| last.role == Role::User);
    let limit = if chat.parallel { usize::MAX } else { 1 };
    let arguments = |tool: Option<&Function>| {
        let sampled = tool.map(|tool| schema::sample(&tool.parameters));
        // A tool without parameters has no schema, or an empty one, for which any value is valid.
        sampled.filter(Value::is_object).unwrap_or_else(|| json!({})).to_string()
    };
    let find = |name: &str| chat.tools.iter().find(|tool| tool.name == name);
    let of = |tool: &Function| (tool.name.clone(), arguments(Some(tool)));

    let chosen: Vec<(String, String)> = match &chat.choice {
        ToolChoice::None => Vec::new(),
        _ if script_applies && !chat.script.calls.is_empty() => {
            let calls = chat.script.calls.iter().map(|call| {
                let given = call.arguments.clone();
                (call.name.clone(), given.unwrap_or_else(|| arguments(find(&call.name))))
            });
            calls.collect()
        }
        ToolChoice::Required => chat.tools.first().map(of).into_iter().collect(),
        ToolChoice::Named(name) => find(name).map(of).into_iter().collect(),
        ToolChoice::Auto if user_is_last && chat.script.say.is_none() => {
            let named = chat.tools.iter().filter(|tool| contains_name(&chat.prompt, &tool.name));
            named.take(limit).map(of).collect()
        }
        ToolChoice::Auto => Vec::new(),
    };
    let with_id = |(at, (name, arguments))| Call {
        id: format!("call_{:016x}_{at}", chat.digest),
        name,
        arguments,
    };
    chosen.into_iter().enumerate().map(with_id).collect()
}

/// Whether `text` contains `name`, and not as a part of a longer name.
fn contains_name(text: &str, name: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + name.len()..].chars().next();
            !before.is_some_and(continues) && !after.is_some_and(continues)
        })
}

fn usage_of(chat: &ChatRequest, answer: &Answer) -> Usage {
    let prompt = chat.costs.iter().sum();
    let of = |text: &Option<String>| text.as_deref().map_or(0, count_words);
    let calls: u64 = answer.calls.iter().map(|call| 1 + count_words(&call.arguments)).sum();
    Usage {
        prompt,
        cached: prompt - chat.costs.last().copied().unwrap_or_default(),
        completion: of(&answer.reasoning) + of(&answer.content) + calls,
        reasoning: of(&answer.reasoning),
    }
}

// === impl Answer ===

impl Answer {
    /// Truncates the answer to `limit` tokens. Returns whether it was longer.
    fn truncate(&mut self, limit: usize) -> bool {
        let mut left = limit;
        let mut cut = false;
        let mut shorten = |text: &mut String, left: &mut usize| {
            let words = text.split_whitespace().count();
            if words > *left {
                *text = take_words(text, *left).to_owned();
                cut = true;
            }
            *left = left.saturating_sub(words);
        };
        for text in [&mut self.reasoning, &mut self.content].into_iter().flatten() {
            shorten(text, &mut left);
        }
        let mut calls = 0;
        for call in &mut self.calls {
            if left == 0 {
                break;
            }
            left -= 1;
            shorten(&mut call.arguments, &mut left);
            calls += 1;
        }
        let dropped = calls < self.calls.len();
        self.calls.truncate(calls);
        cut || dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(prompt: &str, change: Value) -> Answer {
        let tool = |name: &str| {
            let parameters =
                json!({ "type": "object", "properties": { "city": { "type": "string" } } });
            json!({ "type": "function", "function": { "name": name, "parameters": parameters } })
        };
        let mut request = json!({
            "model": "sim-chat",
            "messages": [{ "role": "user", "content": prompt }],
            "tools": [tool("find"), tool("find_all"), tool("clock")],
        });
        let Value::Object(change) = change else { panic!("{change} is no object") };
        request.as_object_mut().expect("an object").extend(change);
        answer(&ChatRequest::read(request.to_string().as_bytes(), 1).expect("a request"))
    }

    #[track_caller]
    fn check_calls(prompt: &str, change: Value, expected: &[&str]) {
        let answer = ask(prompt, change);
        let names: Vec<&str> = answer.calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, expected);
        assert_eq!(answer.content.is_none(), !expected.is_empty());
        assert_eq!(answer.finish == Finish::ToolCalls, !expected.is_empty());
    }

    fn after_results() -> Value {
        let call = json!({ "id": "a", "type": "function",
            "function": { "name": "find", "arguments": "{}" } });
        json!([
            { "role": "user", "content": "Use find. [sim tool=clock]" },
            { "role": "assistant", "content": null, "tool_calls": [call] },
            { "role": "tool", "tool_call_id": "a", "content": "12 degrees" },
        ])
    }

    #[test]
    fn answer_is_marked_as_simulated_and_quotes_the_prompt() {
        let content = ask("What is up?", json!({})).content.expect("text");
        assert!(content.starts_with("Simulated answer to \"What is up?\": "), "{content}");
    }

    #[test]
    fn script_sets_text_length_and_reasoning() {
        assert_eq!(ask("[sim say=\"Two words\"]", json!({})).content.as_deref(), Some("Two words"));
        assert_eq!(ask("Hi [sim words=50]", json!({})).usage.completion, 50);
        let thought = ask("[sim say=a reasoning=\"b c\"]", json!({}));
        assert_eq!(thought.reasoning.as_deref(), Some("b c"));
        assert_eq!((thought.usage.completion, thought.usage.reasoning), (3, 2));
        let reasoner = json!({ "model": "sim-reasoner-2?say=a" });
        assert!(ask("", reasoner.clone()).reasoning.expect("thought").starts_with("Simulated"));
        assert_eq!(ask("[sim reasoning=\"\"]", reasoner).reasoning, None);
    }

    #[test]
    fn token_limit_truncates_reasoning_text_and_calls_in_order() {
        let limited = |prompt: &str, limit: usize| ask(prompt, json!({ "max_tokens": limit }));
        let script = "[sim reasoning=\"a b\" say=\"c d\" tool=clock args='{\"a\": 1}']";
        let whole = limited(script, 7);
        assert_eq!((whole.finish, whole.usage.completion), (Finish::ToolCalls, 7));
        for limit in 1..7 {
            let part = limited(script, limit);
            assert_eq!((part.finish, part.usage.completion), (Finish::Length, limit as u64));
        }
        assert_eq!(limited(script, 6).calls[0].arguments, "{\"a\":");
        assert_eq!(limited(script, 4).calls, []);
        assert_eq!(limited(script, 3).content.as_deref(), Some("c"));
        assert_eq!(
            limited("[sim say=\"a b\" finish=content_filter]", 1).finish,
            Finish::ContentFilter
        );
    }

    #[test]
    fn calls_tools_that_the_user_names() {
        check_calls("Hello", json!({}), &[]);
        check_calls("Ask the clock, then find_all.", json!({}), &["find_all", "clock"]);
        check_calls("clock, find", json!({ "parallel_tool_calls": false }), &["find"]);
        check_calls("clock", json!({ "tool_choice": "none" }), &[]);
    }

    #[test]
    fn calls_tools_that_tool_choice_requires() {
        check_calls("Hello", json!({ "tool_choice": "required" }), &["find"]);
        let named = json!({ "type": "function", "function": { "name": "clock" } });
        check_calls("Hello", json!({ "tool_choice": named }), &["clock"]);
    }

    #[test]
    fn calls_the_tools_of_the_script_exactly() {
        let calls =
            ask("clock [sim tool=find args='{\"city\":' tool=other tool=find]", json!({})).calls;
        let made: Vec<(&str, &str)> =
            calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        let sampled = r#"{"city":"simulated city"}"#;
        assert_eq!(made, [("find", r#"{"city":"#), ("other", "{}"), ("find", sampled)]);
        assert!(calls[0].id != calls[2].id);
    }

    #[test]
    fn answers_tool_results_and_quotes_them() {
        check_calls("", json!({ "messages": after_results() }), &[]);
        let answer = ask("", json!({ "messages": after_results() }));
        let content = answer.content.expect("text");
        assert!(content.contains("given the tool results \"12 degrees\":"), "{content}");
        assert_eq!((answer.usage.prompt, answer.usage.cached), (8, 6));
    }

    #[test]
    fn structured_answers_match_the_response_format() {
        let object = ask("Hi", json!({ "response_format": { "type": "json_object" } }));
        let object: Value = serde_json::from_str(&object.content.expect("text")).expect("JSON");
        assert_eq!(object["simulated"], true);
        let schema = json!({ "type": "array", "items": { "type": "integer" }, "minItems": 2 });
        let format =
            json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
        let structured = ask("Hi", json!({ "response_format": format }));
        assert_eq!(structured.content.as_deref(), Some("[1,1]"));
    }
}
