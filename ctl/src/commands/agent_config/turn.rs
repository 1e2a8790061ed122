//! The requests of one tool call as each agent sends them, and the parsing of the streamed replies.
//!
//! Pure functions without I/O. Start at [`first_request`].

use serde_json::{Value, json};

use crate::api::excerpt;
use crate::cli::agent_config::Agent;

/// The name of the offered tool.
pub(super) const TOOL: &str = "shell";
/// The output that the tool pretends to have printed.
pub(super) const OUTPUT: &str = "tollgate-check";

const SYSTEM: &str = "You are a coding agent.";
const TASK: &str = "Call the tool `shell` once, with the command `echo tollgate-check`. When you \
                    have its output, answer with just that.";
const TASK_WITHOUT_TOOLS: &str = "Answer with one word.";

/// The API that an agent uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Responses,
    Chat,
}

/// A tool call of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A reply, accumulated from the events of a stream.
#[derive(Debug)]
pub(super) struct Reply {
    wire: Wire,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    /// The finished items of a Responses stream.
    items: Vec<Value>,
    /// The last event that the agent could not have used.
    pub(super) unusable_event: Option<String>,
    /// The failure reported in the stream.
    pub(super) failure: Option<String>,
    /// Whether the stream reported a successful end.
    pub(super) is_complete: bool,
}

/// Returns the API that `agent` is configured for.
pub(super) fn wire(agent: Agent) -> Wire {
    match agent {
        Agent::Codex | Agent::Opencode => Wire::Responses,
        Agent::Pi | Agent::QwenCode | Agent::Aider => Wire::Chat,
    }
}

/// Returns whether `agent` uses tool calls. Other agents parse the text of the answer.
pub(super) fn uses_tools(agent: Agent) -> bool {
    agent != Agent::Aider
}

/// Returns the first request, which offers the tool.
pub(super) fn first_request(agent: Agent, model: &str) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": { "command": { "type": "string", "description": "The command line" } },
        "required": ["command"],
        "additionalProperties": false,
    });
    let about = "Runs a command and returns what it prints";
    let in_chat = json!({ "type": "function",
        "function": { "name": TOOL, "description": about, "parameters": parameters } });
    let mut tool = json!({ "type": "function", "name": TOOL, "description": about,
        "parameters": parameters });
    let message = |role: &str, text: &str| {
        json!({ "type": "message", "role": role,
            "content": [{ "type": "input_text", "text": text }] })
    };
    match agent {
        Agent::Codex => {
            tool["strict"] = false.into();
            let spawn = json!({ "type": "function", "name": "spawn_agent", "strict": false,
                "description": "Starts a sub-agent", "parameters": { "type": "object",
                "properties": { "message": { "type": "string" } }, "required": ["message"] } });
            let agents = json!({ "type": "namespace", "name": "multi_agent_v1",
                "description": "Sub-agents", "tools": [spawn] });
            json!({ "model": model, "stream": true, "store": false, "tool_choice": "auto",
                "parallel_tool_calls": true, "reasoning": { "summary": "auto" },
                "include": ["reasoning.encrypted_content"], "prompt_cache_key": "tollgate-check",
                "input": [message("developer", SYSTEM), message("user", TASK)],
                "tools": [tool, agents] })
        }
        Agent::Opencode => json!({ "model": model, "stream": true, "store": false,
            "tool_choice": "auto", "prompt_cache_key": "tollgate-check",
            "input": [{ "role": "system", "content": SYSTEM }, { "role": "user",
                "content": [{ "type": "input_text", "text": TASK }] }],
            "tools": [tool] }),
        Agent::Pi | Agent::QwenCode => json!({ "model": model, "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "system", "content": SYSTEM },
                { "role": "user", "content": TASK }],
            "tools": [in_chat] }),
        Agent::Aider => json!({ "model": model, "stream": true, "temperature": 0,
            "messages": [{ "role": "system", "content": SYSTEM },
                { "role": "user", "content": TASK_WITHOUT_TOOLS }] }),
    }
}

/// Returns the second request, which extends the first one by the call and its output.
pub(super) fn tool_output_request(
    agent: Agent,
    mut request: Value,
    reply: &Reply,
    call: &Call,
) -> Value {
    let (field, items) = match wire(agent) {
        Wire::Responses => {
            let output =
                json!({ "type": "function_call_output", "call_id": call.id, "output": OUTPUT });
            let mut items = if agent == Agent::Codex {
                // Codex sends back all items unchanged.
                reply.items.clone()
            } else {
                vec![json!({ "type": "function_call", "call_id": call.id, "name": call.name,
                    "arguments": call.arguments })]
            };
            items.push(output);
            ("input", items)
        }
        Wire::Chat => {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            let tool_call = json!({ "id": call.id, "type": "function", "function": function });
            let assistant =
                json!({ "role": "assistant", "content": null, "tool_calls": [tool_call] });
            let output = json!({ "role": "tool", "tool_call_id": call.id, "content": OUTPUT });
            ("messages", vec![assistant, output])
        }
    };
    if let Some(history) = request[field].as_array_mut() {
        history.extend(items);
    }
    request
}

// === impl Reply ===

impl Reply {
    /// Creates an empty reply.
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            text: String::new(),
            calls: Vec::new(),
            items: Vec::new(),
            unusable_event: None,
            failure: None,
            is_complete: false,
        }
    }

    /// Adds the data of one server-sent event.
    pub(super) fn push_event(&mut self, data: &str) {
        if data == "[DONE]" {
            self.is_complete |= self.wire == Wire::Chat && self.failure.is_none();
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            self.unusable_event = Some("an event is not JSON".to_owned());
            return;
        };
        match self.wire {
            Wire::Responses => self.push_response_event(&event),
            Wire::Chat => self.push_chunk(&event),
        }
    }

    fn push_response_event(&mut self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.done" => {
                let item = &event["item"];
                self.items.push(item.clone());
                match item["type"].as_str().unwrap_or_default() {
                    "message" => self.text.push_str(&text(&item["content"][0]["text"])),
                    "function_call" => self.calls.push(Call {
                        id: text(&item["call_id"]),
                        name: text(&item["name"]),
                        arguments: text(&item["arguments"]),
                    }),
                    "reasoning" => {}
                    other => {
                        self.unusable_event = Some(format!("it sent an item of type `{other}`"));
                    }
                }
            }
            "response.completed" => self.is_complete = true,
            "response.failed" => {
                self.failure = Some(text(&event["response"]["error"]["message"]));
            }
            "response.incomplete" => {
                let reason = text(&event["response"]["incomplete_details"]["reason"]);
                self.failure = Some(format!("the answer is incomplete: {reason}"));
            }
            _ => {}
        }
    }

    fn push_chunk(&mut self, chunk: &Value) {
        if let Some(message) = chunk["error"]["message"].as_str() {
            self.failure = Some(message.to_owned());
            return;
        }
        let delta = &chunk["choices"][0]["delta"];
        self.text.push_str(delta["content"].as_str().unwrap_or_default());
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = part["index"].as_u64().and_then(|index| usize::try_from(index).ok());
            let index = index.unwrap_or_default();
            if index > self.calls.len() {
                self.unusable_event = Some("the tool calls are not numbered in order".to_owned());
                return;
            }
            if index == self.calls.len() {
                self.calls.push(Call::default());
            }
            let call = &mut self.calls[index];
            let piece = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            call.id.push_str(&piece(&part["id"]));
            call.name.push_str(&piece(&part["function"]["name"]));
            call.arguments.push_str(&piece(&part["function"]["arguments"]));
        }
    }

    /// Returns the call of the offered tool.
    ///
    /// # Errors
    /// The reason why an agent could not execute the call, or that there is none.
    pub(super) fn tool_call(&self) -> Result<&Call, String> {
        let Some(call) = self.calls.iter().find(|call| call.name == TOOL) else {
            let instead = match (&self.unusable_event, self.calls.first()) {
                (Some(unusable_event), _) => unusable_event.clone(),
                (None, Some(other)) => format!("it called `{}` instead", other.name),
                (None, None) => format!("it answered {}", excerpt(&self.text)),
            };
            return Err(format!("the model did not call `{TOOL}`: {instead}"));
        };
        let arguments = serde_json::from_str::<Value>(&call.arguments);
        if !arguments.is_ok_and(|arguments| arguments.is_object()) {
            let given = excerpt(&call.arguments);
            return Err(format!("the call's arguments are not a JSON object: {given}"));
        }
        if call.id.is_empty() {
            return Err("the call has no id".to_owned());
        }
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(wire: Wire, events: &[Value]) -> Reply {
        let mut reply = Reply::new(wire);
        for event in events {
            reply.push_event(&event.to_string());
        }
        reply
    }

    fn done(item: &Value) -> Value {
        json!({ "type": "response.output_item.done", "item": item })
    }

    #[test]
    fn a_call_is_parsed_from_responses_events_and_sent_back_unchanged() {
        let item = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "shell",
            "arguments": "{\"command\":\"x\"}" });
        let completed = json!({ "type": "response.completed", "response": {} });
        let reply = reply(Wire::Responses, &[done(&item), completed]);
        assert!(reply.is_complete && reply.failure.is_none());
        let call = reply.tool_call().expect("a call");
        let first = first_request(Agent::Codex, "m");
        let request = tool_output_request(Agent::Codex, first, &reply, call);
        let input = request["input"].as_array().expect("items");
        assert_eq!(input[2], item);
        assert_eq!(input[3]["call_id"], "c1");
    }

    #[test]
    fn a_call_is_assembled_from_chunks() {
        let part = |call: Value| json!({ "choices": [{ "delta": { "tool_calls": [call] } }] });
        let mut reply = reply(
            Wire::Chat,
            &[
                part(
                    json!({ "index": 0, "id": "a", "function": { "name": "shell", "arguments": "{" } }),
                ),
                part(json!({ "index": 0, "function": { "arguments": "}" } })),
            ],
        );
        assert!(!reply.is_complete);
        reply.push_event("[DONE]");
        assert!(reply.is_complete);
        let call = reply.tool_call().expect("a call");
        assert_eq!((call.id.as_str(), call.arguments.as_str()), ("a", "{}"));
        let first = first_request(Agent::Pi, "m");
        let request = tool_output_request(Agent::Pi, first, &reply, call);
        assert_eq!(request["messages"][3]["tool_call_id"], "a");
    }

    #[test]
    fn replies_without_a_usable_call_are_explained() {
        let message = |text: &str| {
            done(
                &json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] }),
            )
        };
        let call = |name: &str, arguments: &str, id: &str| {
            done(&json!({ "type": "function_call", "call_id": id, "name": name,
                "arguments": arguments }))
        };
        for (event, expected) in [
            (message("no"), "answered \"no\""),
            (call("other", "{}", "a"), "called `other`"),
            (call("shell", "{\"command\":", "a"), "not a JSON object"),
            (call("shell", "{}", ""), "no id"),
            (done(&json!({ "type": "web_search_call" })), "`web_search_call`"),
        ] {
            let reason = reply(Wire::Responses, &[event]).tool_call().expect_err("no call");
            assert!(reason.contains(expected), "{reason}");
        }
    }

    #[test]
    fn a_failed_answer_is_not_complete() {
        let failed = json!({ "type": "response.failed",
            "response": { "error": { "code": "server_error", "message": "it broke" } } });
        let cut = json!({ "type": "response.incomplete",
            "response": { "incomplete_details": { "reason": "max_output_tokens" } } });
        let error = json!({ "error": { "message": "it broke" } });
        for (wire, event) in
            [(Wire::Responses, failed), (Wire::Responses, cut), (Wire::Chat, error)]
        {
            let mut reply = reply(wire, &[event]);
            reply.push_event("[DONE]");
            assert!(!reply.is_complete && reply.failure.is_some());
        }
    }
}
