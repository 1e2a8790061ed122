//! Clients that ask in every way there is, and note whose end they saw.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::question;

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// A chat request.
    Chat,
    /// A streamed one.
    ChatStream,
    /// A chat request whose upstream does not say what it used.
    ChatUncounted,
    /// A streamed one.
    ChatStreamUncounted,
    /// A streamed chat request that takes long.
    ChatSlow,
    /// A Responses request.
    Responses,
    /// A streamed one.
    ResponsesStream,
    /// A streamed one whose upstream does not say what it used.
    ResponsesUncounted,
    /// A streamed one that takes long.
    ResponsesSlow,
}

/// Somebody with a key, who asks one model.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where the gateway is.
    pub to: SocketAddr,
    /// The key.
    pub key: String,
    /// The model.
    pub model: &'static str,
}

/// An answer whose end a client saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The request.
    pub id: String,
    /// How it was asked.
    pub shape: Shape,
    /// The HTTP status.
    pub status: u16,
    /// Whether the answer says that it was cut at a limit.
    pub cut: bool,
    /// The input and output tokens that the client was told.
    pub usage: Option<(u64, u64)>,
}

// === impl Shape ===

impl Shape {
    /// The shapes that are over soon.
    pub const QUICK: [Self; 7] = [
        Self::Chat,
        Self::ChatStream,
        Self::Responses,
        Self::ResponsesStream,
        Self::ChatUncounted,
        Self::ChatStreamUncounted,
        Self::ResponsesUncounted,
    ];
    /// Those that take long, and are most likely under way when something happens.
    pub const SLOW: [Self; 2] = [Self::ChatSlow, Self::ResponsesSlow];
    /// Those whose usage the upstream says.
    pub const COUNTED: [Self; 4] =
        [Self::Chat, Self::ChatStream, Self::Responses, Self::ResponsesStream];

    fn is_chat(self) -> bool {
        use Shape::{Chat, ChatSlow, ChatStream, ChatStreamUncounted, ChatUncounted};
        matches!(self, Chat | ChatStream | ChatUncounted | ChatStreamUncounted | ChatSlow)
    }

    /// Whether the answer comes as it grows.
    pub fn is_stream(self) -> bool {
        !matches!(self, Self::Chat | Self::ChatUncounted | Self::Responses)
    }

    /// What the simulator is told to do.
    fn script(self) -> &'static str {
        match self {
            Self::ChatUncounted | Self::ChatStreamUncounted | Self::ResponsesUncounted => {
                " [sim usage=off]"
            }
            Self::ChatSlow | Self::ResponsesSlow => " [sim pace_ms=2 words=400]",
            Self::Chat | Self::ChatStream | Self::Responses | Self::ResponsesStream => "",
        }
    }

    /// Whether the answer's end is there.
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

    /// What the answer says that it used: the last word wins.
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

// === impl Seen ===

impl Seen {
    /// What a client saw of an answer in this shape; `None` if that was not its end.
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
    /// Prepares a request for an answer of at most `cap` tokens.
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

    /// Asks once. `None` if the end did not come.
    pub async fn ask(&self, shape: Shape, text: &str, cap: Option<u64>) -> Option<Seen> {
        let exchange = self.request(shape, text, cap).try_send().await.ok()?;
        Seen::of(shape, &exchange.try_answer().await.ok()?)
    }
}
