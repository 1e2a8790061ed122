//! Clients that send all shapes of requests and note the complete responses.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::question;

/// A shape of request: endpoint, streaming, whether the upstream reports usage, and duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// A chat request.
    Chat,
    /// A streamed chat request.
    ChatStream,
    /// A chat request whose upstream reports no usage.
    ChatUncounted,
    /// A streamed chat request whose upstream reports no usage.
    ChatStreamUncounted,
    /// A streamed chat request with a slow answer.
    ChatSlow,
    /// A Responses request.
    Responses,
    /// A streamed Responses request.
    ResponsesStream,
    /// A streamed Responses request whose upstream reports no usage.
    ResponsesUncounted,
    /// A streamed Responses request with a slow answer.
    ResponsesSlow,
}

/// A client with a key that uses one model.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address of the gateway.
    pub to: SocketAddr,
    /// The key.
    pub key: String,
    /// The model.
    pub model: &'static str,
}

/// A response that a client received to its end.
#[derive(Clone, Debug)]
pub struct ObservedResponse {
    /// The request id.
    pub id: String,
    /// The shape of the request.
    pub shape: Shape,
    /// The HTTP status.
    pub status: u16,
    /// Whether the response was cut at a limit.
    pub cut: bool,
    /// The input and output tokens reported to the client.
    pub usage: Option<(u64, u64)>,
}

// === impl Shape ===

impl Shape {
    /// The shapes with short answers.
    pub const QUICK: [Self; 7] = [
        Self::Chat,
        Self::ChatStream,
        Self::Responses,
        Self::ResponsesStream,
        Self::ChatUncounted,
        Self::ChatStreamUncounted,
        Self::ResponsesUncounted,
    ];
    /// The shapes with slow answers, which are most likely in flight at a fault.
    pub const SLOW: [Self; 2] = [Self::ChatSlow, Self::ResponsesSlow];
    /// The shapes whose usage the upstream reports.
    pub const COUNTED: [Self; 4] =
        [Self::Chat, Self::ChatStream, Self::Responses, Self::ResponsesStream];

    /// Returns whether the request is for chat completions.
    pub fn is_chat(self) -> bool {
        use Shape::{Chat, ChatSlow, ChatStream, ChatStreamUncounted, ChatUncounted};
        matches!(self, Chat | ChatStream | ChatUncounted | ChatStreamUncounted | ChatSlow)
    }

    /// Returns whether the response is streamed.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Chat | Self::ChatUncounted | Self::Responses)
    }

    /// Returns the directives for the simulator.
    fn script(self) -> &'static str {
        match self {
            Self::ChatUncounted | Self::ChatStreamUncounted | Self::ResponsesUncounted => {
                " [sim usage=off]"
            }
            Self::ChatSlow | Self::ResponsesSlow => " [sim pace_ms=2 words=400]",
            Self::Chat | Self::ChatStream | Self::Responses | Self::ResponsesStream => "",
        }
    }

    /// Returns whether the response is complete.
    fn is_whole(self, answer: &Answer) -> bool {
        let text = answer.text();
        let ends = ["event: response.completed\n", "event: response.incomplete\n"];
        match (answer.status, self.is_stream(), self.is_chat()) {
            (200, true, true) => text.ends_with("data: [DONE]\n\n"),
            (200, true, false) => ends.iter().any(|end| text.contains(end)),
            _ => serde_json::from_str::<Value>(text).is_ok(),
        }
    }

    fn is_cut(self, answer: &Answer) -> bool {
        let says = if self.is_chat() {
            "\"finish_reason\":\"length\""
        } else {
            "\"status\":\"incomplete\""
        };
        answer.text().contains(says)
    }

    /// Returns the usage in the response; the last one in a stream.
    fn usage(self, answer: &Answer) -> Option<(u64, u64)> {
        let names = if self.is_chat() {
            ("prompt_tokens", "completion_tokens")
        } else {
            ("input_tokens", "output_tokens")
        };
        let usage = |json: &str| {
            let value: Value = serde_json::from_str(json.trim()).ok()?;
            let usage = [&value["usage"], &value["response"]["usage"]];
            let usage = usage.into_iter().find(|usage| usage.is_object())?;
            Some((usage[names.0].as_u64()?, usage[names.1].as_u64()?))
        };
        if !self.is_stream() {
            return usage(answer.text());
        }
        let data = answer.text().lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter_map(usage).next_back()
    }
}

// === impl ObservedResponse ===

impl ObservedResponse {
    /// Returns the observed response; `None` if it is incomplete.
    pub fn of(shape: Shape, answer: &Answer) -> Option<Self> {
        shape.is_whole(answer).then(|| Self {
            id: answer.header("x-request-id").to_owned(),
            shape,
            status: answer.status,
            cut: shape.is_cut(answer),
            usage: shape.usage(answer),
        })
    }
}

// === impl Client ===

impl Client {
    /// Returns a request for at most `cap` output tokens.
    pub fn request(&self, shape: Shape, text: &str, cap: Option<u64>) -> Request {
        let text = format!("{text}{}", shape.script());
        let (path, cap_name, mut body) = if shape.is_chat() {
            ("/v1/chat/completions", "max_tokens", question(self.model, &text))
        } else {
            let body = json!({ "model": self.model, "input": text });
            ("/v1/responses", "max_output_tokens", body)
        };
        if let Some(cap) = cap {
            body[cap_name] = json!(cap);
        }
        if shape.is_stream() {
            body["stream"] = json!(true);
            if shape.is_chat() {
                body["stream_options"] = json!({ "include_usage": true });
            }
        }
        Request::post(self.to, path).bearer(&self.key).json(&body)
    }

    /// Sends one request. Returns `None` if the response is incomplete.
    pub async fn send_request(
        &self,
        shape: Shape,
        text: &str,
        cap: Option<u64>,
    ) -> Option<ObservedResponse> {
        let exchange = self.request(shape, text, cap).try_send().await.ok()?;
        ObservedResponse::of(shape, &exchange.try_answer().await.ok()?)
    }
}
