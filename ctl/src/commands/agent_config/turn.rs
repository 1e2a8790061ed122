//! One tool turn as an agent does it: what it sends, and what it makes of the events that come
//! back. Pure; start at [`first`].

use serde_json::{Value, json};

use crate::cli::agent_config::Agent;
use crate::commands::api::shortened;

/// The tool that is offered.
pub(super) const TOOL: &str = "shell";
/// What the tool is said to have printed.
pub(super) const OUTPUT: &str = "tollgate-check";

const SYSTEM: &str = "You are a coding agent.";
const TASK: &str = "Call the tool `shell` once, with the command `echo tollgate-check`. When you \
                    have its output, answer with just that.";
const TASK_WITHOUT_TOOLS: &str = "Answer with one word.";

/// The API that an agent speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Responses,
    Chat,
}

/// A tool call as it came back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// What the events so far amount to.
#[derive(Debug)]
pub(super) struct Reply {
    wire: Wire,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    /// The finished items of a Responses stream.
    items: Vec<Value>,
    /// What came that no agent of this kind could use.
    pub(super) oddity: Option<String>,
    /// Why it failed, in the gateway's words.
    pub(super) failure: Option<String>,
    /// It has ended, and well.
    pub(super) complete: bool,
}

/// The API that `agent` is configured for.
pub(super) fn wire(agent: Agent) -> Wire {
    match agent {
        Agent::Codex | Agent::Opencode => Wire::Responses,
        Agent::Pi | Agent::QwenCode | Agent::Aider => Wire::Chat,
    }
}

/// Whether `agent` works by calling tools. The others read what to do from the text.
pub(super) fn calls_tools(agent: Agent) -> bool {
    agent != Agent::Aider
}

/// The request that begins the turn.
pub(super) fn first(agent: Agent, model: &str) -> Value {
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
    let said = |role: &str, text: &str| {
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
                "input": [said("developer", SYSTEM), said("user", TASK)],
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

/// The request that gives the tool's output back.
pub(super) fn second(agent: Agent, mut request: Value, reply: &Reply, call: &Call) -> Value {
    let (field, said) = match wire(agent) {
        Wire::Responses => {
            let output =
                json!({ "type": "function_call_output", "call_id": call.id, "output": OUTPUT });
            let mut said = if agent == Agent::Codex {
                // all that it was told, as it was told
                reply.items.clone()
            } else {
                vec![json!({ "type": "function_call", "call_id": call.id, "name": call.name,
                    "arguments": call.arguments })]
            };
            said.push(output);
            ("input", said)
        }
        Wire::Chat => {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            let call_again = json!({ "id": call.id, "type": "function", "function": function });
            let called =
                json!({ "role": "assistant", "content": null, "tool_calls": [call_again] });
            let output = json!({ "role": "tool", "tool_call_id": call.id, "content": OUTPUT });
            ("messages", vec![called, output])
        }
    };
    if let Some(history) = request[field].as_array_mut() {
        history.extend(said);
    }
    request
}

// === impl Reply ===

impl Reply {
    /// Nothing has come yet.
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            text: String::new(),
            calls: Vec::new(),
            items: Vec::new(),
            oddity: None,
            failure: None,
            complete: false,
        }
    }

    /// Takes the data of one event.
    pub(super) fn event(&mut self, data: &str) {
        if data == "[DONE]" {
            self.complete |= self.wire == Wire::Chat && self.failure.is_none();
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(data) else {
            self.oddity = Some("an event is not JSON".to_owned());
            return;
        };
        match self.wire {
            Wire::Responses => self.response_event(&event),
            Wire::Chat => self.chunk(&event),
        }
    }

    fn response_event(&mut self, event: &Value) {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        match event["type"].as_str().unwrap_or_default() {
            "response.output_item.done" => {
                let item = &event["item"];
                self.items.push(item.clone());
                match item["type"].as_str().unwrap_or_default() {
                    "message" => self.text.push_str(&word(&item["content"][0]["text"])),
                    "function_call" => self.calls.push(Call {
                        id: word(&item["call_id"]),
                        name: word(&item["name"]),
                        arguments: word(&item["arguments"]),
                    }),
                    "reasoning" => {}
                    other => self.oddity = Some(format!("an item of type `{other}` came")),
                }
            }
            "response.completed" => self.complete = true,
            "response.failed" => {
                self.failure = Some(word(&event["response"]["error"]["message"]));
            }
            "response.incomplete" => {
                let reason = word(&event["response"]["incomplete_details"]["reason"]);
                self.failure = Some(format!("the answer is incomplete: {reason}"));
            }
            _ => {}
        }
    }

    fn chunk(&mut self, chunk: &Value) {
        if let Some(message) = chunk["error"]["message"].as_str() {
            self.failure = Some(message.to_owned());
            return;
        }
        let delta = &chunk["choices"][0]["delta"];
        self.text.push_str(delta["content"].as_str().unwrap_or_default());
        for part in delta["tool_calls"].as_array().into_iter().flatten() {
            let at = part["index"].as_u64().and_then(|at| usize::try_from(at).ok());
            let at = at.unwrap_or_default();
            if at > self.calls.len() {
                self.oddity = Some("the tool calls are not numbered in order".to_owned());
                return;
            }
            if at == self.calls.len() {
                self.calls.push(Call::default());
            }
            let call = &mut self.calls[at];
            let piece = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            call.id.push_str(&piece(&part["id"]));
            call.name.push_str(&piece(&part["function"]["name"]));
            call.arguments.push_str(&piece(&part["function"]["arguments"]));
        }
    }

    /// Returns the call that was asked for, or why this is none that an agent could act on.
    pub(super) fn call(&self) -> Result<&Call, String> {
        let Some(call) = self.calls.iter().find(|call| call.name == TOOL) else {
            let instead = match (&self.oddity, self.calls.first()) {
                (Some(oddity), _) => oddity.clone(),
                (None, Some(other)) => format!("it called `{}` instead", other.name),
                (None, None) => format!("it answered {}", shortened(&self.text)),
            };
            return Err(format!("the model did not call `{TOOL}`: {instead}"));
        };
        let arguments = serde_json::from_str::<Value>(&call.arguments);
        if !arguments.is_ok_and(|arguments| arguments.is_object()) {
            let given = shortened(&call.arguments);
            return Err(format!("the call's arguments are no JSON object: {given}"));
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
            reply.event(&event.to_string());
        }
        reply
    }

    fn done(item: &Value) -> Value {
        json!({ "type": "response.output_item.done", "item": item })
    }

    #[test]
    fn a_call_comes_out_of_responses_events_and_goes_back_as_it_came() {
        let item = json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "shell",
            "arguments": "{\"command\":\"x\"}" });
        let completed = json!({ "type": "response.completed", "response": {} });
        let reply = reply(Wire::Responses, &[done(&item), completed]);
        assert!(reply.complete && reply.failure.is_none());
        let call = reply.call().expect("a call");
        let request = second(Agent::Codex, first(Agent::Codex, "m"), &reply, call);
        let input = request["input"].as_array().expect("items");
        assert_eq!(input[2], item);
        assert_eq!(input[3]["call_id"], "c1");
    }

    #[test]
    fn a_call_comes_out_of_chunks_piece_by_piece() {
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
        assert!(!reply.complete);
        reply.event("[DONE]");
        assert!(reply.complete);
        let call = reply.call().expect("a call");
        assert_eq!((call.id.as_str(), call.arguments.as_str()), ("a", "{}"));
        let request = second(Agent::Pi, first(Agent::Pi, "m"), &reply, call);
        assert_eq!(request["messages"][3]["tool_call_id"], "a");
    }

    #[test]
    fn what_no_agent_could_act_on_is_named() {
        let said = |text: &str| {
            done(
                &json!({ "type": "message", "content": [{ "type": "output_text", "text": text }] }),
            )
        };
        let called = |name: &str, arguments: &str, id: &str| {
            done(&json!({ "type": "function_call", "call_id": id, "name": name,
                "arguments": arguments }))
        };
        for (event, expected) in [
            (said("no"), "answered \"no\""),
            (called("other", "{}", "a"), "called `other`"),
            (called("shell", "{\"command\":", "a"), "no JSON object"),
            (called("shell", "{}", ""), "no id"),
            (done(&json!({ "type": "web_search_call" })), "`web_search_call`"),
        ] {
            let why = reply(Wire::Responses, &[event]).call().expect_err("no call");
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn an_answer_that_broke_is_not_complete() {
        let failed = json!({ "type": "response.failed",
            "response": { "error": { "code": "server_error", "message": "it broke" } } });
        let cut = json!({ "type": "response.incomplete",
            "response": { "incomplete_details": { "reason": "max_output_tokens" } } });
        let error = json!({ "error": { "message": "it broke" } });
        for (wire, event) in
            [(Wire::Responses, failed), (Wire::Responses, cut), (Wire::Chat, error)]
        {
            let mut reply = reply(wire, &[event]);
            reply.event("[DONE]");
            assert!(!reply.complete && reply.failure.is_some());
        }
    }
}
