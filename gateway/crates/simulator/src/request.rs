//! Parsing and validation of chat requests.
//!
//! Deliberately shares no code with `wire`: the simulator checks the gateway's requests
//! independently. Pure. Start at [`ChatRequest::read`].

use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::rejection::Rejection;
use super::script::{self, Script};
use super::text::count_words;

/// The context window of all models, in tokens. A token is a word.
pub const CONTEXT_WINDOW: u64 = 128_000;

/// A valid request.
pub(super) struct ChatRequest {
    /// The requested model, including its script.
    pub(super) model: String,
    pub(super) messages: Vec<Message>,
    /// The tokens of each message.
    pub(super) costs: Vec<u64>,
    pub(super) tools: Vec<Function>,
    pub(super) choice: ToolChoice,
    pub(super) parallel: bool,
    pub(super) format: Format,
    pub(super) max_tokens: Option<usize>,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) script: Script,
    /// The last user message, without directives.
    pub(super) prompt: String,
    /// The hash of the request, independent of whether it is streamed.
    pub(super) digest: u64,
    /// The hash of the last user message, which identifies repetitions of a fault drill.
    pub(super) drill: u64,
}

/// A message of the conversation.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) role: Role,
    content: Option<Content>,
    tool_call_id: Option<String>,
    tool_calls: Option<Vec<PastCall>>,
}

/// The role of a message's author.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

/// A tool that may be called.
#[derive(Clone, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    /// A JSON schema, or null.
    #[serde(default)]
    pub(super) parameters: Value,
}

/// A parsed `tool_choice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolChoice {
    None,
    Auto,
    Required,
    Named(String),
}

/// A `response_format`.
#[derive(Default, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Format {
    #[default]
    Text,
    JsonObject,
    JsonSchema {
        json_schema: JsonSchema,
    },
}

/// The schema of a structured answer.
#[derive(Deserialize)]
pub(super) struct JsonSchema {
    #[serde(rename = "name")]
    _name: String,
    #[serde(default)]
    pub(super) schema: Value,
}

#[derive(Deserialize)]
struct RawRequest {
    model: String,
    messages: Vec<Message>,
    tools: Option<Vec<Tool>>,
    #[serde(default)]
    tool_choice: Value,
    parallel_tool_calls: Option<bool>,
    response_format: Option<Format>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    _kind: String,
    /// `None` for images and other media.
    text: Option<String>,
}

#[derive(Deserialize)]
struct PastCall {
    function: PastFunction,
}

#[derive(Deserialize)]
struct PastFunction {
    name: String,
    arguments: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Tool {
    Function { function: Function },
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

// === impl ChatRequest ===

impl ChatRequest {
    /// Parses a request body and validates it like a real server.
    pub(super) fn read(body: &[u8], seed: u64) -> Result<Self, Rejection> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| Rejection::invalid(None, format!("the body is not JSON: {error}")))?;
        let digest = digest(&value, seed);
        let raw = RawRequest::deserialize(value)
            .map_err(|error| Rejection::invalid(None, format!("invalid request: {error}")))?;
        raw.check()?;
        let costs: Vec<_> = raw.messages.iter().map(Message::cost).collect();
        check_window(costs.iter().sum())?;

        let (_, in_model) = script::split_model(&raw.model);
        let last = raw.messages.iter().rfind(|message| message.role == Role::User);
        let text = last.map(Message::text).unwrap_or_default();
        let (script, prompt) = script::read(in_model, &text)
            .map_err(|error| Rejection::invalid(None, error.to_string()))?;
        let mut tools: Vec<Function> =
            raw.tools.into_iter().flatten().map(Tool::into_inner).collect();
        let choice = ToolChoice::read(&raw.tool_choice, &mut tools)?;
        Ok(Self {
            model: raw.model,
            messages: raw.messages,
            costs,
            tools,
            choice,
            parallel: raw.parallel_tool_calls.unwrap_or(true),
            format: raw.response_format.unwrap_or_default(),
            max_tokens: raw.max_completion_tokens.or(raw.max_tokens),
            stream: raw.stream.unwrap_or(false),
            include_usage: raw.stream_options.and_then(|it| it.include_usage).unwrap_or(false),
            script,
            prompt,
            digest,
            drill: hash(seed, &text),
        })
    }

    /// Returns the tool results at the end of the conversation.
    pub(super) fn tool_results(&self) -> Vec<String> {
        let others = self.messages.iter().rposition(|message| message.role != Role::Tool);
        let first = others.map_or(0, |at| at + 1);
        self.messages[first..].iter().map(Message::text).collect()
    }
}

/// Refuses prompts that exceed the context window.
fn check_window(tokens: u64) -> Result<(), Rejection> {
    if tokens <= CONTEXT_WINDOW {
        return Ok(());
    }
    let message = format!(
        "the model's context window is {CONTEXT_WINDOW} tokens, and the messages are {tokens}: shorten them"
    );
    Err(Rejection {
        code: Some("context_length_exceeded"),
        ..Rejection::invalid(Some("messages"), message)
    })
}

/// Hashes the request without the fields that only determine how the answer is sent and where it is
/// truncated, so that a shorter answer is a prefix of a longer one.
fn digest(request: &Value, seed: u64) -> u64 {
    let mut request = request.clone();
    if let Some(fields) = request.as_object_mut() {
        fields.remove("stream");
        fields.remove("stream_options");
        fields.remove("max_tokens");
        fields.remove("max_completion_tokens");
    }
    hash(seed, &request.to_string())
}

fn hash(seed: u64, text: &str) -> u64 {
    let hash = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(text);
    hash.finalize().iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

// === impl RawRequest ===

impl RawRequest {
    fn check(&self) -> Result<(), Rejection> {
        if !self.model.starts_with("sim") {
            let message = format!("the model `{}` does not exist", self.model);
            return Err(Rejection {
                param: Some("model"),
                ..Rejection::new(StatusCode::NOT_FOUND, Some("model_not_found"), message)
            });
        }
        if self.messages.is_empty() {
            return Err(Rejection::invalid(Some("messages"), "`messages` is empty"));
        }
        if self.messages.iter().any(|it| it.role == Role::Tool && it.tool_call_id.is_none()) {
            let message = "a message of role `tool` needs a `tool_call_id`";
            return Err(Rejection::invalid(Some("messages"), message));
        }
        if self.n.is_some_and(|n| n != 1) {
            return Err(Rejection::invalid(Some("n"), "`n` can only be 1"));
        }
        if self.max_tokens == Some(0) || self.max_completion_tokens == Some(0) {
            return Err(Rejection::invalid(Some("max_tokens"), "`max_tokens` is at least 1"));
        }
        if self.stream_options.is_some() && self.stream != Some(true) {
            let message = "`stream_options` is only for `stream: true`";
            return Err(Rejection::invalid(Some("stream_options"), message));
        }
        Ok(())
    }
}

// === impl Message ===

impl Message {
    /// Returns the text of the message.
    pub(super) fn text(&self) -> String {
        match &self.content {
            None => String::new(),
            Some(Content::Text(text)) => text.clone(),
            Some(Content::Parts(parts)) => {
                let texts: Vec<&str> = parts.iter().filter_map(|it| it.text.as_deref()).collect();
                texts.join("\n")
            }
        }
    }

    /// Returns the tokens of the message: its text and its tool calls.
    fn cost(&self) -> u64 {
        let mut text = self.text();
        for PastCall { function } in self.tool_calls.iter().flatten() {
            text.extend([" ", &function.name, " ", &function.arguments]);
        }
        count_words(&text)
    }
}

// === impl ToolChoice ===

impl ToolChoice {
    /// Parses `tool_choice` and removes the tools that it does not allow from `tools`.
    fn read(choice: &Value, tools: &mut Vec<Function>) -> Result<Self, Rejection> {
        let refused = |message: &str| Rejection::invalid(Some("tool_choice"), message);
        if let Some(allowed) = choice.get("allowed_tools") {
            let names: Vec<&Value> = allowed["tools"]
                .as_array()
                .ok_or_else(|| refused("`allowed_tools` has no `tools`"))?
                .iter()
                .map(|tool| &tool["function"]["name"])
                .collect();
            tools.retain(|tool| names.iter().any(|name| **name == tool.name));
            return Self::read(&allowed["mode"], tools);
        }
        let named = choice.pointer("/function/name").and_then(Value::as_str);
        match (choice.as_str(), named) {
            (Some("none"), _) => Ok(Self::None),
            (Some("auto"), _) => Ok(Self::Auto),
            (Some("required"), _) if tools.is_empty() => {
                Err(refused("`tool_choice` is `required`, but there are no tools"))
            }
            (Some("required"), _) => Ok(Self::Required),
            (None, Some(name)) if tools.iter().any(|tool| tool.name == name) => {
                Ok(Self::Named(name.to_owned()))
            }
            (None, Some(name)) => Err(refused(&format!("there is no tool `{name}`"))),
            (None, None) if choice.is_null() => Ok(Self::Auto),
            _ => Err(refused("`tool_choice` is none, auto, required or a function")),
        }
    }
}

// === impl Tool ===

impl Tool {
    fn into_inner(self) -> Function {
        let Self::Function { function } = self;
        function
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(change: Value) -> Result<ChatRequest, Rejection> {
        let tool = json!({ "type": "function", "function": { "name": "clock" } });
        let mut request = json!({
            "model": "sim-chat", "messages": [{ "role": "user", "content": "Hi" }], "tools": [tool],
        });
        let Value::Object(change) = change else { panic!("{change} is no object") };
        request.as_object_mut().expect("an object").extend(change);
        ChatRequest::read(request.to_string().as_bytes(), 1)
    }

    #[track_caller]
    fn check_refused(change: Value, status: u16, expected: &str) {
        let rejection = read(change).err().expect("a rejection");
        assert_eq!(rejection.status, status);
        assert!(rejection.message.contains(expected), "{}", rejection.message);
    }

    #[test]
    fn refuses_what_a_real_server_refuses() {
        check_refused(json!({ "model": "gpt-9" }), 404, "`gpt-9` does not exist");
        check_refused(json!({ "messages": [] }), 400, "empty");
        check_refused(json!({ "messages": null }), 400, "expected a sequence");
        check_refused(json!({ "messages": [{ "role": "robot" }] }), 400, "unknown variant `robot`");
        check_refused(json!({ "messages": [{ "role": "tool", "content": "" }] }), 400, "_call_id");
        check_refused(json!({ "n": 2 }), 400, "`n` can only be 1");
        check_refused(json!({ "max_tokens": 0 }), 400, "at least 1");
        let said = |words| json!([{ "role": "user", "content": "a ".repeat(words) }]);
        assert!(read(json!({ "messages": said(128_000) })).is_ok());
        check_refused(json!({ "messages": said(128_001) }), 400, "context window is 128000");
        check_refused(json!({ "stream_options": {} }), 400, "only for `stream: true`");
        check_refused(json!({ "tools": [{ "type": "custom" }] }), 400, "unknown variant `custom`");
        check_refused(json!({ "tool_choice": "any" }), 400, "none, auto, required");
        check_refused(json!({ "tools": [], "tool_choice": "required" }), 400, "no tools");
        check_refused(
            json!({ "tool_choice": { "function": { "name": "x" } } }),
            400,
            "no tool `x`",
        );
        check_refused(json!({ "model": "sim?x=1" }), 400, "unknown simulator key `x`");
    }

    #[test]
    fn refuses_invalid_json() {
        let rejection = ChatRequest::read(b"{\"model\":", 1).err().expect("a rejection");
        assert_eq!(rejection.status, 400);
    }

    #[test]
    fn removes_tools_that_are_not_allowed() {
        let allowed = json!({ "mode": "auto", "tools": [] });
        let chat =
            read(json!({ "tool_choice": { "type": "allowed_tools", "allowed_tools": allowed } }));
        assert!(chat.expect("a request").tools.is_empty());
    }

    #[test]
    fn digest_depends_on_seed_and_request_but_not_on_streaming() {
        let of = |change: Value| read(change).expect("a request").digest;
        let stream = json!({ "stream": true, "stream_options": { "include_usage": true } });
        assert_eq!(of(json!({})), of(stream));
        assert_eq!(of(json!({})), of(json!({ "max_tokens": 9, "max_completion_tokens": 8 })));
        assert_ne!(of(json!({})), of(json!({ "top_p": 1 })));
        assert_ne!(digest(&json!({}), 1), digest(&json!({}), 2));
    }
}
