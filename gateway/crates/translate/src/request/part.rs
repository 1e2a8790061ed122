//! Parses the content parts of messages and tool results (§2.1).

use std::borrow::Cow;

use super::super::path::{Path, excerpt};
use super::super::raw::{Object, string};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::{JsonReader, RawJson};

/// A content part that has a chat equivalent.
#[derive(Clone, Debug)]
pub(super) enum Part<'a> {
    /// Text of any type.
    Text(Cow<'a, str>),
    /// A refusal by the model.
    Refusal(Cow<'a, str>),
    /// An image by URL.
    Image {
        /// The URL, often a long `data:` URL.
        url: Cow<'a, str>,
        /// `auto`, `low` or `high`.
        detail: Option<&'static str>,
    },
    /// A file with its content.
    File {
        /// The content as a `data:` URL.
        data: Cow<'a, str>,
        filename: Option<Cow<'a, str>>,
    },
    /// An audio recording.
    Audio {
        /// The content in base64.
        data: Cow<'a, str>,
        format: Cow<'a, str>,
    },
}

/// The container of a part, which decides the allowed types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartContext {
    /// A user, system or developer message.
    Input,
    /// An assistant message.
    Assistant,
    /// A tool result.
    ToolOutput,
}

/// Parses the content at `at`: a string or an array of parts (`I-6`, `I-18`).
pub(super) fn parts<'a>(
    raw: RawJson<'a>,
    at: &Path<'_>,
    context: PartContext,
) -> Result<Vec<Part<'a>>, Refusal> {
    match raw.first_byte() {
        b'"' => Ok(vec![Part::Text(string(raw, at)?)]),
        b'[' => super::super::raw::elements(raw, at)?
            .into_iter()
            .enumerate()
            .map(|(index, raw)| part(raw, at.at(index), context))
            .collect(),
        _ => Err(at.mistyped("a string or an array of parts")),
    }
}

/// Parses a tool result that is a stringified array of parts with an image, as sent by Codex
/// (`I-11b`). Returns `None` for any other text.
pub(super) fn stringified(text: &str) -> Option<Vec<Part<'static>>> {
    if !text.trim_start().starts_with('[') || !text.contains("input_image") {
        return None;
    }
    let mut json = JsonReader::new(text);
    let list = json.value().ok()?.elements()?;
    json.end().ok()?;
    let parts: Vec<Part<'static>> = list
        .into_iter()
        .map(|raw| part(raw, Path::Root, PartContext::ToolOutput).ok().map(Part::into_owned))
        .collect::<Option<_>>()?;
    parts.iter().any(|part| matches!(part, Part::Image { .. })).then_some(parts)
}

fn part<'a>(raw: RawJson<'a>, at: Path<'_>, context: PartContext) -> Result<Part<'a>, Refusal> {
    let object = Object::read(raw, at)?;
    let kind = object.required_string("type")?;
    match (kind.as_ref(), context) {
        ("input_text" | "output_text" | "text", _) => {
            Ok(Part::Text(object.required_string("text")?))
        }
        ("refusal", PartContext::Assistant) => {
            Ok(Part::Refusal(object.required_string("refusal")?))
        }
        ("input_image", PartContext::Input | PartContext::ToolOutput) => image(&object),
        ("input_file", PartContext::Input | PartContext::ToolOutput) => file(&object),
        ("input_audio", PartContext::Input) => audio(&object),
        ("encrypted_content", _) => Err(unsupported(
            &object.path("type"),
            "`encrypted_content` cannot be read by this gateway; send the text itself",
        )),
        (kind, _) => {
            let who = match context {
                PartContext::Input => "a user or system message",
                PartContext::Assistant => "an assistant message",
                PartContext::ToolOutput => "a tool result",
            };
            let message = format!("a part of type `{}` is not supported in {who}", excerpt(kind));
            Err(unsupported(&object.path("type"), &message))
        }
    }
}

fn image<'a>(object: &Object<'a, '_>) -> Result<Part<'a>, Refusal> {
    let Some(url) = object.string("image_url")? else {
        return Err(if object.get("file_id").is_some() {
            by_id(object, "image_url")
        } else {
            object.path("image_url").missing()
        });
    };
    let detail = match object.string("detail")?.as_deref() {
        None => None,
        Some("auto") => Some("auto"),
        Some("low") => Some("low"),
        Some("high" | "original") => Some("high"),
        Some(_) => {
            let allowed = "must be one of `auto`, `low`, `high`, `original`";
            return Err(object.path("detail").invalid(allowed));
        }
    };
    Ok(Part::Image { url, detail })
}

fn file<'a>(object: &Object<'a, '_>) -> Result<Part<'a>, Refusal> {
    if let Some(data) = object.string("file_data")? {
        return Ok(Part::File { data, filename: object.string("filename")? });
    }
    if object.get("file_url").is_some() {
        return Err(unsupported(
            &object.path("file_url"),
            "a file by URL is not supported: this gateway does not fetch files; send `file_data`",
        ));
    }
    Err(if object.get("file_id").is_some() {
        by_id(object, "file_data")
    } else {
        object.path("file_data").missing()
    })
}

fn audio<'a>(object: &Object<'a, '_>) -> Result<Part<'a>, Refusal> {
    let Some(audio) = object.object("input_audio")? else {
        return Err(object.path("input_audio").missing());
    };
    Ok(Part::Audio {
        data: audio.required_string("data")?,
        format: audio.required_string("format")?,
    })
}

fn by_id(object: &Object<'_, '_>, instead: &str) -> Refusal {
    let message =
        format!("`file_id` is not supported: this gateway does not store files; send `{instead}`");
    unsupported(&object.path("file_id"), &message)
}

fn unsupported(at: &Path<'_>, message: &str) -> Refusal {
    at.refuse(RequestFault::UnsupportedContentPart, message)
}

impl Part<'_> {
    fn into_owned(self) -> Part<'static> {
        fn own(text: Cow<'_, str>) -> Cow<'static, str> {
            Cow::Owned(text.into_owned())
        }
        match self {
            Part::Text(text) => Part::Text(own(text)),
            Part::Refusal(text) => Part::Refusal(own(text)),
            Part::Image { url, detail } => Part::Image { url: own(url), detail },
            Part::File { data, filename } => {
                Part::File { data: own(data), filename: filename.map(own) }
            }
            Part::Audio { data, format } => Part::Audio { data: own(data), format: own(format) },
        }
    }
}
