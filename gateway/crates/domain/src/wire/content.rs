//! Content parts of a chat request's messages.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::model::Modality;

/// One element of an array of message content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentPart<'a> {
    /// The index of the message.
    pub message: usize,
    /// The index in the message.
    pub index: usize,
    /// The `type`; `None` if it is missing or ambiguous, such as a duplicate field.
    pub kind: Option<Cow<'a, str>>,
}

impl<'a> ContentPart<'a> {
    fn read(message: usize, index: usize, json: &'a str) -> Self {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            kind: Option<Text<'a>>,
        }
        #[derive(Deserialize)]
        struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
        let part = serde_json::from_str::<Part<'_>>(json);
        let kind = part.ok().and_then(|part| part.kind).map(|Text(kind)| kind);
        Self { message, index, kind }
    }

    /// Returns the modality; `None` for unknown types.
    pub fn modality(&self) -> Option<Modality> {
        match self.kind.as_deref()? {
            "text" | "refusal" | "input_text" | "output_text" => Some(Modality::Text),
            "image_url" | "input_image" | "image" => Some(Modality::Image),
            "file" | "input_file" => Some(Modality::File),
            "input_audio" | "audio_url" | "audio" => Some(Modality::Audio),
            _ => None,
        }
    }
}

/// An estimate of the images, audio and files in a request, from its body alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Media {
    /// The encoded data in the body, in bytes. It must not be counted as text.
    pub data_bytes: u64,
    /// The estimated tokens, higher than the counts of upstreams.
    pub tokens: u64,
}

impl Media {
    /// The base tokens of an image or a file, without its data. Models count 85 to 1,600 per image.
    const PART_TOKENS: u64 = 4_096;
    /// Bytes of encoded images and audio per token.
    const DATA_PER_TOKEN: u64 = 64;
    /// Bytes of encoded files per token.
    const FILE_DATA_PER_TOKEN: u64 = 8;
    /// The minimum length of a run of base64 characters that counts as data, in bytes. Shorter runs
    /// are text.
    const MIN_DATA_BYTES: usize = 256;

    /// Estimates the parts of a message's `content`, as JSON. A string has no media.
    pub fn of_content(content: &str) -> Self {
        let mut media = Self::default();
        each_element(content, |index, json| {
            let modality = ContentPart::read(0, index, json).modality();
            media = media.plus(Self::of_part(modality, json));
        });
        media
    }

    /// Returns the saturating sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            data_bytes: self.data_bytes.saturating_add(other.data_bytes),
            tokens: self.tokens.saturating_add(other.tokens),
        }
    }

    fn of_part(modality: Option<Modality>, json: &str) -> Self {
        let per_token = match modality {
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

/// Calls `visit` with the parts of all messages, in order, until it breaks. Returns `None` if
/// `body` is not a chat request.
pub fn for_each_part<'a, B>(
    body: &'a [u8],
    mut visit: impl FnMut(ContentPart<'a>) -> ControlFlow<B>,
) -> Option<ControlFlow<B>> {
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
    let request: Request<'_> = serde_json::from_slice(body).ok()?;
    for (message, view) in request.messages.iter().enumerate() {
        let Some(content) = view.content else { continue };
        let mut broken = None;
        each_element(content.get(), |index, json| {
            if broken.is_none()
                && let ControlFlow::Break(value) = visit(ContentPart::read(message, index, json))
            {
                broken = Some(value);
            }
        });
        if let Some(value) = broken {
            return Some(ControlFlow::Break(value));
        }
    }
    Some(ControlFlow::Continue(()))
}

/// Calls `visit` with the index and the JSON of each element of an array. Ignores other values.
/// Elements are not collected, since an array may have millions.
fn each_element<'a>(json: &'a str, visit: impl FnMut(usize, &'a str)) {
    struct Elements<F>(F);

    impl<'a, F: FnMut(usize, &'a str)> Visitor<'a> for Elements<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<S: SeqAccess<'a>>(mut self, mut elements: S) -> Result<(), S::Error> {
            let mut index = 0;
            while let Some(element) = elements.next_element::<&RawValue>()? {
                (self.0)(index, element.get());
                index += 1;
            }
            Ok(())
        }
    }

    if json.starts_with('[') {
        // Cannot fail: a raw value is valid JSON.
        _ = serde_json::Deserializer::from_str(json).deserialize_seq(Elements(visit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_parts_with_their_indices() {
        let body = r#"{"messages":[{"role":"user","content":"\"type\""},{"content":null},{},
            {"content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"new"},{},{"type":"text","type":"file"},
            {"type":"text"}]}]}"#;
        let mut seen = Vec::new();
        let ended = for_each_part(body.as_bytes(), |part| {
            seen.push((part.message, part.index, part.modality()));
            if part.index == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(ended, Some(ControlFlow::Break(())));
        let (text, image) = (Some(Modality::Text), Some(Modality::Image));
        assert_eq!(seen, [(3, 0, text), (3, 1, image), (3, 2, None), (3, 3, None), (3, 4, None)]);
        assert_eq!(for_each_part(b"{}", |_| ControlFlow::Break(())), None);
    }

    #[test]
    fn estimates_media_from_number_of_parts_and_data() {
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
