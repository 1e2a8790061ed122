//! The size of a request's text in bytes, which bounds its tokens before they are counted.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::prompt::DATA_MEMBERS;

/// The longest media type at the beginning of a data URL, in bytes.
const MAX_MEDIA_TYPE: usize = 128;

/// The size of a Responses request with the items that it continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSize {
    /// The length of its text, in bytes.
    pub text_bytes: u64,
    /// An estimate of the tokens of its images, audio and files.
    pub media_tokens: u64,
}

impl InputSize {
    /// The tokens of an image or file, beside those of its data.
    const PART_TOKENS: u64 = 4_096;
    /// The bytes of encoded data per token.
    const DATA_PER_TOKEN: u64 = 8;

    /// Returns the size of a request with this body that continues `items`.
    pub fn of<'a>(body: &'a [u8], items: impl Iterator<Item = &'a str>) -> Self {
        items.map(str::as_bytes).chain([body]).map(Self::of_json).fold(
            Self::default(),
            |sum, it| Self {
                text_bytes: sum.text_bytes.saturating_add(it.text_bytes),
                media_tokens: sum.media_tokens.saturating_add(it.media_tokens),
            },
        )
    }

    fn of_json(json: &[u8]) -> Self {
        static PART: LazyLock<[Finder<'_>; 3]> = LazyLock::new(|| {
            ["\"input_image\"", "\"input_file\"", "\"input_audio\""].map(Finder::new)
        });
        let text_bytes = text_bytes(json);
        let data_bytes = (json.len() as u64).saturating_sub(text_bytes);
        let parts = PART.iter().map(|part| part.find_iter(json).count() as u64).sum::<u64>();
        let of_parts = parts.saturating_mul(Self::PART_TOKENS);
        let media_tokens = of_parts.saturating_add(data_bytes / Self::DATA_PER_TOKEN);
        Self { text_bytes, media_tokens }
    }
}

/// Returns the length of the text in a request's body, in bytes: all of it except for the data URLs of images
/// and files in their members.
pub fn text_bytes(body: &[u8]) -> u64 {
    static MARK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b";base64,"));
    let (mut text, mut at) = (0, 0);
    while let Some(found) = MARK.find(&body[at..]) {
        let start = at + found + MARK.needle().len();
        text += start - at;
        let end = memchr::memchr(b'"', &body[start..]).map_or(body.len(), |end| start + end);
        if !is_value_of_data_member(&body[..start - MARK.needle().len()]) {
            text += end - start;
        }
        at = end;
    }
    (text + body.len() - at) as u64
}

/// Returns whether `json` ends inside the value of one of [`DATA_MEMBERS`], given that the value contains no
/// quotes so far.
fn is_value_of_data_member(json: &[u8]) -> bool {
    let Some(start) = memchr::memrchr(b'"', &json[json.len().saturating_sub(MAX_MEDIA_TYPE)..])
    else {
        return false;
    };
    let start = json.len().saturating_sub(MAX_MEDIA_TYPE) + start;
    let before = json[..start].trim_ascii_end();
    let Some(name) = before.strip_suffix(b":") else { return false };
    let Some(name) = name.trim_ascii_end().strip_suffix(b"\"") else { return false };
    DATA_MEMBERS.iter().any(|member| {
        name.strip_suffix(member.as_bytes()).is_some_and(|rest| rest.ends_with(b"\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_responses_request_has_its_media_apart() {
        let data = "A".repeat(8_000);
        let part =
            format!(r#"{{"type":"input_image","image_url":"data:image/png;base64,{data}"}}"#);
        let size = InputSize::of(part.as_bytes(), std::iter::empty());
        assert_eq!(size.text_bytes, part.len() as u64 - 8_000);
        assert_eq!(size.media_tokens, 4_096 + 1_000);
        let text = format!(r#"{{"type":"input_text","text":"data:image/png;base64,{data}"}}"#);
        let size = InputSize::of(text.as_bytes(), [part.as_str()].into_iter());
        assert_eq!(size.text_bytes, (text.len() + part.len()) as u64 - 8_000);
    }

    #[test]
    fn the_data_of_images_is_no_text() {
        let body = br#"{"url":"data:image/png;base64,AAAABBBB"},{"url":"data:;base64,CC"}"#;
        assert_eq!(text_bytes(body), body.len() as u64 - 10);
        let text = br#"{"text":"data:;base64,AAAABBBB"},{"url": "a \"data:;base64,AAAA"}"#;
        assert_eq!(text_bytes(text), text.len() as u64, "what is no image is text");
        assert_eq!(text_bytes(b""), 0);
        let marks = ";base64,".repeat(1_000_000);
        let body = format!(r#"{{"url":"data:{marks}","text":"a"}}"#);
        assert_eq!(text_bytes(body.as_bytes()), 8 + r#"{"url":"data:","text":"a"}"#.len() as u64);
    }
}
