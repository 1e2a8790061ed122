//! Chat messages, as they are written.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// A message of the chat request.
#[derive(Debug)]
pub(super) enum ChatMessage<'s> {
    /// Of the system or the user.
    Plain {
        /// Whose.
        role: &'static str,
        /// What it says.
        content: Content<'s>,
    },
    /// A tool's result.
    Tool {
        /// The call that it answers.
        call_id: Cow<'s, str>,
        /// What it is.
        content: Content<'s>,
    },
    /// Of the model.
    Assistant {
        /// What it said; `None` where it only called (`I-26`).
        content: Option<Content<'s>>,
        /// What it reasoning, and in which field that is given back (`I-12`).
        reasoning: Option<(&'static str, Cow<'s, str>)>,
        /// What it called.
        calls: Vec<ToolCall<'s>>,
    },
}

/// A message's content: one string unless there is more than text (`I-6`).
#[derive(Debug, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Content<'s> {
    /// Only text.
    Text(Cow<'s, str>),
    /// Text and more.
    Parts(Vec<ChatPart<'s>>),
}

/// A part of a message.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatPart<'s> {
    /// Text.
    Text {
        /// The text.
        text: Cow<'s, str>,
    },
    /// The model's refusal.
    Refusal {
        /// Its text.
        refusal: Cow<'s, str>,
    },
    /// An image.
    ImageUrl {
        /// Where it is.
        image_url: ImageUrl<'s>,
    },
    /// A file.
    File {
        /// Its content.
        file: File<'s>,
    },
    /// A recording.
    InputAudio {
        /// Its content.
        input_audio: Audio<'s>,
    },
}

/// Where an image is.
#[derive(Debug, serde::Serialize)]
pub(super) struct ImageUrl<'s> {
    /// The URL.
    pub(super) url: &'s str,
    /// How closely to look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'static str>,
}

/// A file's content.
#[derive(Debug, serde::Serialize)]
pub(super) struct File<'s> {
    /// The content, as a `data:` URL.
    pub(super) file_data: &'s str,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<&'s str>,
}

/// A recording's content.
#[derive(Debug, serde::Serialize)]
pub(super) struct Audio<'s> {
    /// The content in base64.
    pub(super) data: &'s str,
    /// Its format.
    pub(super) format: &'s str,
}

/// A call of a function.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ToolCall<'s> {
    /// The call's id, distinct in the whole request (`I-24`).
    pub(super) id: Cow<'s, str>,
    /// What is called.
    pub(super) function: FunctionCall<'s>,
}

/// A function that is called.
#[derive(Debug, serde::Serialize)]
pub(super) struct FunctionCall<'s> {
    /// Its wire name.
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: Cow<'s, str>,
}

/// The chat request's `response_format`.
#[derive(Debug, serde::Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ResponseFormat<'s> {
    /// A JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema {
        /// The schema.
        json_schema: JsonSchema<'s>,
    },
}

/// A schema of the model's text; what the client left out stays out (`Q-21`).
#[derive(Debug, serde::Serialize)]
pub(super) struct JsonSchema<'s> {
    /// Its name.
    pub(super) name: &'s str,
    /// The schema.
    pub(super) schema: &'s RawValue,
    /// Whether it is enforced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<&'s str>,
}

impl Content<'_> {
    /// Whether it says nothing.
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
