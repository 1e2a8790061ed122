//! Content parts of a chat request's messages.

use std::borrow::Cow;
use std::ops::ControlFlow;

use serde::Deserialize;

use super::json::{JsonReader, Malformed, as_utf8};
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
        if content.starts_with('[') {
            let mut index = 0;
            // Elements are not collected, since an array may have millions. An error ends the estimate.
            let read: Result<(), Malformed> = JsonReader::new(content).array(|json| {
                let part = json.value()?.get();
                let modality = ContentPart::read(0, index, part).modality();
                media = media.plus(Self::of_part(modality, part));
                index += 1;
                Ok(())
            });
            _ = read;
        }
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
    let mut has_messages = false;
    let mut json = JsonReader::new(as_utf8(body)?);
    let read = json.object(|json, name| {
        if name != "messages" {
            json.value()?;
            return Ok(());
        }
        has_messages = true;
        let mut message = 0;
        json.array(|json| {
            visit_message(json, message, &mut visit)?;
            message += 1;
            Ok(())
        })
    });
    match read {
        Ok(()) if has_messages => Some(ControlFlow::Continue(())),
        Ok(()) | Err(Stop::Malformed) => None,
        Err(Stop::Break(value)) => Some(ControlFlow::Break(value)),
    }
}

/// Why a request is not read to its end.
enum Stop<B> {
    Malformed,
    Break(B),
}

impl<B> From<Malformed> for Stop<B> {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// Calls `visit` with the parts of the message with this index.
fn visit_message<'a, B>(
    json: &mut JsonReader<'a>,
    message: usize,
    visit: &mut impl FnMut(ContentPart<'a>) -> ControlFlow<B>,
) -> Result<(), Stop<B>> {
    json.object(|json, name| {
        if name != "content" || json.peek() != Some(b'[') {
            json.value()?;
            return Ok(());
        }
        let mut index = 0;
        json.array(|json| {
            let part = ContentPart::read(message, index, json.value()?.get());
            index += 1;
            match visit(part) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(value) => Err(Stop::Break(value)),
            }
        })
    })
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
