//! The parts of a chat request's messages.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::Modality;

/// One part of a message whose content is an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPart<'a> {
    /// The index of its message.
    pub message: usize,
    /// Its index in the message.
    pub index: usize,
    /// Its `type`; empty if it has none.
    pub kind: Cow<'a, str>,
}

impl ContentPart<'_> {
    /// What it is; `None` for types that are not known.
    pub fn modality(&self) -> Option<Modality> {
        match &*self.kind {
            "text" | "refusal" | "input_text" | "output_text" => Some(Modality::Text),
            "image_url" | "input_image" | "image" => Some(Modality::Image),
            "file" | "input_file" => Some(Modality::File),
            "input_audio" | "audio_url" | "audio" => Some(Modality::Audio),
            _ => None,
        }
    }
}

/// The parts of all messages, in order; `None` if `body` is not a chat request.
pub fn content_parts(body: &[u8]) -> Option<Vec<ContentPart<'_>>> {
    #[derive(Deserialize)]
    struct Request<'a> {
        #[serde(borrow)]
        messages: Vec<Message<'a>>,
    }
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
    }
    let request: Request<'_> = serde_json::from_slice(body).ok()?;
    let mut found = Vec::new();
    for (message, view) in request.messages.iter().enumerate() {
        let Some(content) = view.content else { continue };
        // a string, or a shape of its own
        let parts: Vec<Part<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
        found.extend(parts.into_iter().enumerate().map(|(index, part)| ContentPart {
            message,
            index,
            kind: part.kind.unwrap_or_default(),
        }));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_with_their_places() {
        let body = r#"{"messages":[{"role":"user","content":"\"type\""},{"content":null},{},
            {"content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"new"},{}]}]}"#;
        let parts = content_parts(body.as_bytes()).unwrap();
        let seen: Vec<_> = parts.iter().map(|it| (it.message, it.index, it.modality())).collect();
        let (text, image) = (Some(Modality::Text), Some(Modality::Image));
        assert_eq!(seen, [(3, 0, text), (3, 1, image), (3, 2, None), (3, 3, None)]);
        assert_eq!(content_parts(b"{}"), None);
    }
}
