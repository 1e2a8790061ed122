//! Clients that ask in every way there is, and note whose end they saw.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::http::{Answer, Request};
use crate::question;

/// A way to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An answer whose end a client saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The request.
    pub id: String,
    /// How it was asked.
    pub shape: Shape,
    /// The HTTP status.
    pub status: u16,
    /// The input and output tokens that the client was told.
    pub usage: Option<(u64, u64)>,
}

impl Shape {
    /// The shapes that are over soon.
    const QUICK: [Self; 7] = [
        Self::Chat,
        Self::ChatStream,
        Self::Responses,
        Self::ResponsesStream,
        Self::ChatUncounted,
        Self::ChatStreamUncounted,
        Self::ResponsesUncounted,
    ];
    /// Those that take long, and are most likely under way when something happens.
    const SLOW: [Self; 2] = [Self::ChatSlow, Self::ResponsesSlow];
    /// One worker of so many asks for what takes long, and the others do not wait for it.
    const SLOW_WORKERS: usize = 4;

    fn is_chat(self) -> bool {
        use Shape::{Chat, ChatSlow, ChatStream, ChatStreamUncounted, ChatUncounted};
        matches!(self, Chat | ChatStream | ChatUncounted | ChatStreamUncounted | ChatSlow)
    }

    fn is_stream(self) -> bool {
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

    fn request(self, to: SocketAddr, key: &str, model: &str, text: &str) -> Request {
        let text = format!("{text}{}", self.script());
        let (path, mut body) = if self.is_chat() {
            ("/v1/chat/completions", question(model, &text))
        } else {
            ("/v1/responses", json!({ "model": model, "input": text }))
        };
        if self.is_stream() {
            body["stream"] = json!(true);
            if self.is_chat() {
                body["stream_options"] = json!({ "include_usage": true });
            }
        }
        Request::post(to, path).bearer(key).json(&body)
    }

    /// Whether the answer's end is there.
    fn is_whole(self, answer: &Answer) -> bool {
        let text = answer.text();
        match (answer.status, self.is_stream(), self.is_chat()) {
            (200, true, true) => text.ends_with("data: [DONE]\n\n"),
            (200, true, false) => text.contains("event: response.completed\n"),
            _ => serde_json::from_str::<Value>(text).is_ok(),
        }
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

/// Asks once. `None` if the end did not come.
pub async fn ask(to: SocketAddr, key: &str, model: &str, shape: Shape, text: &str) -> Option<Seen> {
    let exchange = shape.request(to, key, model, text).try_send().await.ok()?;
    let answer = exchange.try_answer().await.ok()?;
    let id = answer.header("x-request-id").to_owned();
    let usage = shape.usage(&answer);
    shape.is_whole(&answer).then_some(Seen { id, shape, status: answer.status, usage })
}

/// Asks in one shape after the other until the gateway is gone, and reports each end that came.
pub async fn ask_on(
    to: SocketAddr,
    key: String,
    model: String,
    worker: usize,
    seen: mpsc::UnboundedSender<Seen>,
) {
    let is_slow = worker.is_multiple_of(Shape::SLOW_WORKERS);
    let shapes = if is_slow { &Shape::SLOW[..] } else { &Shape::QUICK[..] };
    for (number, shape) in shapes.iter().cycle().skip(worker).enumerate() {
        let text = format!("worker {worker}, request {number}");
        let Some(answer) = ask(to, &key, &model, *shape, &text).await else { return };
        _ = seen.send(answer);
    }
}
