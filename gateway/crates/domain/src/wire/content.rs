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

/// What the images, recordings and files of a request may be, as far as its body shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// The length of their data in the body, in bytes: encoded data is no text.
    pub data_bytes: u64,
    /// An estimate of the tokens that they are, on the high side of what upstreams count.
    pub tokens: u64,
}

impl Media {
    /// Tokens of an image or a file, beside those of its data: models count 85 to 1,600 for an image.
    const PART_TOKENS: u64 = 4_096;
    /// Bytes of encoded images and recordings for each token.
    const DATA_PER_TOKEN: u64 = 64;
    /// Bytes of encoded files for each token.
    const FILE_DATA_PER_TOKEN: u64 = 8;
    /// Shorter runs of characters are taken for text, in bytes.
    const MIN_DATA_BYTES: usize = 256;

    /// What the parts of `content` are, a message's content as JSON. A string is text.
    pub fn of_content(content: &str) -> Self {
        if !content.starts_with('[') {
            return Self::default();
        }
        let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(content) else {
            return Self::default();
        };
        parts.into_iter().map(|part| Self::of_part(part.get())).fold(Self::default(), Self::plus)
    }

    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            data_bytes: self.data_bytes.saturating_add(other.data_bytes),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn of_part(json: &str) -> Self {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<Cow<'a, str>>,
        }
        // A part with two types has an unknown one.
        let kind = serde_json::from_str::<Part<'_>>(json).ok().and_then(|part| part.kind);
        let part = ContentPart { message: 0, index: 0, kind: kind.unwrap_or_default() };
        let per_token = match part.modality() {
            Some(Modality::Text) => return Self::default(),
            Some(Modality::Image | Modality::Audio) => Self::DATA_PER_TOKEN,
            Some(Modality::File) => Self::FILE_DATA_PER_TOKEN,
            None => return Self { data_bytes: 0, tokens: Self::PART_TOKENS },
        };
        let is_data = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte);
        let runs = json.as_bytes().split(|byte| !is_data(byte)).map(<[u8]>::len);
        let data = runs.max().filter(|&length| length >= Self::MIN_DATA_BYTES).unwrap_or_default();
        let data_bytes = data as u64;
        Self { data_bytes, tokens: Self::PART_TOKENS + data_bytes / per_token }
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

    #[test]
    fn media_are_estimated_from_their_number_and_their_data() {
        let media = |content: &str| {
            let media = Media::of_content(content);
            (media.data_bytes, media.tokens)
        };
        let data = "A".repeat(6_400);
        assert_eq!(media(r#""text""#), (0, 0));
        assert_eq!(media(r#"[{"type":"text","text":"a"}]"#), (0, 0));
        let remote = r#"{"type":"image_url","image_url":{"url":"http://x/y.png"}}"#;
        assert_eq!(media(&format!("[{remote},{remote}]")), (0, 2 * 4_096));
        let image =
            format!(r#"[{{"type":"image_url","image_url":{{"url":"data:;base64,{data}"}}}}]"#);
        assert_eq!(media(&image), (6_400, 4_096 + 100));
        let file = format!(r#"[{{"type":"file","file":{{"file_data":"data:;base64,{data}"}}}}]"#);
        assert_eq!(media(&file), (6_400, 4_096 + 800));
        let unknown = format!(r#"[{{"type":"image_url","type":"text","text":"{data}"}}]"#);
        assert_eq!(media(&unknown), (0, 4_096), "all of it may be text");
    }
}
