//! The messages and other values of a chat request, for serialization.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// A message.
#[derive(Debug)]
pub(super) enum ChatMessage<'s> {
    /// A system, developer or user message.
    Plain { role: &'static str, content: Content<'s> },
    /// A tool result.
    Tool { call_id: Cow<'s, str>, content: Content<'s> },
    /// An assistant message.
    Assistant {
        /// `None` if the message only has calls (`I-26`).
        content: Option<Content<'s>>,
        /// The reasoning and the name of its field (`I-12`).
        reasoning: Option<(&'static str, Cow<'s, str>)>,
        calls: Vec<ToolCall<'s>>,
    },
}

/// The content of a message: a string unless a part is not text (`I-6`).
#[derive(Debug, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Content<'s> {
    /// Text only.
    Text(Cow<'s, str>),
    /// Text and other parts.
    Parts(Vec<ChatPart<'s>>),
}

/// A content part.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart<'s> {
    Text { text: Cow<'s, str> },
    Refusal { refusal: Cow<'s, str> },
    ImageUrl { image_url: ImageUrl<'s> },
    File { file: File<'s> },
    InputAudio { input_audio: Audio<'s> },
}

/// An image.
#[derive(Debug, serde::Serialize)]
pub(super) struct ImageUrl<'s> {
    /// An `https:` or `data:` URL.
    pub(super) url: &'s str,
    /// `auto`, `low` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'static str>,
}

/// A file.
#[derive(Debug, serde::Serialize)]
pub(super) struct File<'s> {
    /// The content as a `data:` URL.
    pub(super) file_data: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<&'s str>,
}

/// An audio recording.
#[derive(Debug, serde::Serialize)]
pub(super) struct Audio<'s> {
    /// The content in base64.
    pub(super) data: &'s str,
    /// The format, such as `mp3`.
    pub(super) format: &'s str,
}

/// A function call.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ToolCall<'s> {
    /// The call id, unique in the request (`I-24`).
    pub(super) id: Cow<'s, str>,
    pub(super) function: FunctionCall<'s>,
}

/// The called function.
#[derive(Debug, serde::Serialize)]
pub(super) struct FunctionCall<'s> {
    /// The wire name.
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: Cow<'s, str>,
}

/// The `response_format`.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'s> {
    JsonObject,
    JsonSchema { json_schema: JsonSchema<'s> },
}

/// A JSON schema for the answer. Keys that the client omitted stay absent (`Q-21`).
#[derive(Debug, serde::Serialize)]
pub(super) struct JsonSchema<'s> {
    pub(super) name: &'s str,
    pub(super) schema: &'s RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'s str>,
}

impl Content<'_> {
    /// Returns whether there is no text and no part.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => parts.is_empty(),
        }
    }
}

impl Serialize for ChatMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Plain { role, content } => {
                map.serialize_entry("role", role)?;
                map.serialize_entry("content", content)?;
            }
            Self::Tool { call_id, content } => {
                map.serialize_entry("role", "tool")?;
                map.serialize_entry("tool_call_id", call_id)?;
                map.serialize_entry("content", content)?;
            }
            Self::Assistant { content, reasoning, calls } => {
                map.serialize_entry("role", "assistant")?;
                map.serialize_entry("content", content)?;
                if let Some((field, text)) = reasoning {
                    map.serialize_entry(field, text)?;
                }
                if !calls.is_empty() {
                    map.serialize_entry("tool_calls", calls)?;
                }
            }
        }
        map.end()
    }
}
