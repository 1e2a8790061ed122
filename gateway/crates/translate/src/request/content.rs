//! Converts content parts to message content (§2.1, §2.3).

use std::borrow::Cow;

use super::super::dialect::ToolResultMedia;
use super::super::path::Path;
use super::chat::{Audio, ChatPart, Content, File, ImageUrl};
use super::options::{InputModalities, TranslateOptions};
use super::part::Part;
use domain::refusal::{Refusal, RequestFault};

/// The content of a tool message, and the media that must follow in a user message.
pub(super) struct ToolResult<'s> {
    pub(super) content: Content<'s>,
    pub(super) media: Vec<ChatPart<'s>>,
}

/// Converts parts to the content of a message.
pub(super) fn content<'s>(
    parts: &'s [Part<'s>],
    options: &TranslateOptions<'_>,
    at: &Path<'_>,
) -> Result<Content<'s>, Refusal> {
    if let Some(text) = only_text(parts) {
        return Ok(Content::Text(text));
    }
    let parts = parts.iter().enumerate().map(|(index, part)| in_chat(part, options, &at.at(index)));
    parts.collect::<Result<_, _>>().map(Content::Parts)
}

/// Converts one part.
fn in_chat<'s>(
    part: &'s Part<'s>,
    options: &TranslateOptions<'_>,
    at: &Path<'_>,
) -> Result<ChatPart<'s>, Refusal> {
    let InputModalities { images, files, audio } = options.inputs;
    Ok(match part {
        Part::Text(text) => ChatPart::Text { text: Cow::Borrowed(text) },
        Part::Refusal(text) => ChatPart::Refusal { refusal: Cow::Borrowed(text) },
        Part::Image { .. } if !images => {
            return Err(unsupported(at, "this model does not accept images"));
        }
        Part::Image { url, detail } => {
            ChatPart::ImageUrl { image_url: ImageUrl { url, detail: *detail } }
        }
        Part::File { data, filename } if files => {
            let filename = filename.as_deref();
            ChatPart::File { file: File { file_data: data, filename } }
        }
        Part::Audio { data, format } if audio => {
            ChatPart::InputAudio { input_audio: Audio { data, format } }
        }
        Part::File { .. } => return Err(unsupported(at, "this model does not accept files")),
        Part::Audio { .. } => return Err(unsupported(at, "this model does not accept audio")),
    })
}

fn unsupported(part: &Path<'_>, message: &str) -> Refusal {
    part.field("type").refuse(RequestFault::UnsupportedContentPart, message)
}

/// Converts a tool result. Media go into `media` unless the dialect accepts them in a tool message
/// (`I-19`).
pub(super) fn result<'s>(
    parts: &'s [Part<'s>],
    options: &TranslateOptions<'_>,
    at: &Path<'_>,
) -> Result<ToolResult<'s>, Refusal> {
    if let Some(text) = only_text(parts) {
        return Ok(ToolResult { content: Content::Text(text), media: Vec::new() });
    }
    if options.dialect.tool_result_media == ToolResultMedia::Inline {
        return Ok(ToolResult { content: content(parts, options, at)?, media: Vec::new() });
    }
    let mut text = None;
    let mut media = Vec::new();
    let mut note = "[image attached below]";
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Text(more) => append(&mut text, "", more),
            other => {
                if !matches!(other, Part::Image { .. }) {
                    note = "[file attached below]";
                }
                media.push(in_chat(other, options, &at.at(index))?);
            }
        }
    }
    let text = text.filter(|text| !text.is_empty()).unwrap_or(Cow::Borrowed(note));
    Ok(ToolResult { content: Content::Text(text), media })
}

/// Returns the concatenated text; `None` if a part is not text (`I-6`, `I-18`).
fn only_text<'s>(parts: &'s [Part<'s>]) -> Option<Cow<'s, str>> {
    let mut whole = None;
    for part in parts {
        match part {
            Part::Text(text) => append(&mut whole, "", text),
            _ => return None,
        }
    }
    Some(whole.unwrap_or_default())
}

/// Joins the messages at the head into one content, texts separated by blank lines (`I-4`).
pub(super) fn join(head: Vec<Content<'_>>) -> Option<Content<'_>> {
    let mut whole: Option<String> = None;
    let mut parts = Vec::new();
    let mut only_text = true;
    for content in head.into_iter().filter(|content| !content.is_empty()) {
        match content {
            Content::Text(text) => parts.push(ChatPart::Text { text }),
            Content::Parts(more) => {
                only_text = false;
                parts.extend(more);
            }
        }
    }
    if !only_text {
        return Some(Content::Parts(parts));
    }
    for part in parts {
        if let ChatPart::Text { text } = part {
            match &mut whole {
                None => whole = Some(text.into_owned()),
                Some(whole) => {
                    whole.push_str("\n\n");
                    whole.push_str(&text);
                }
            }
        }
    }
    whole.map(|text| Content::Text(Cow::Owned(text)))
}

/// Appends `more` after `separator`. A single text stays borrowed.
pub(super) fn append<'s>(whole: &mut Option<Cow<'s, str>>, separator: &str, more: &'s str) {
    match whole {
        None => *whole = Some(Cow::Borrowed(more)),
        Some(whole) => {
            let whole = whole.to_mut();
            whole.push_str(separator);
            whole.push_str(more);
        }
    }
}
