//! The text of prompts and answers in spans: secrets are removed from it here, on a blocking thread, because that takes
//! up to milliseconds for each request.

use tokio::task::spawn_blocking;

use super::spans;
use crate::capture;
use domain::key::KeyDigest;
use domain::traced_content::{ContentPermit, TracedContent};

/// The text of one span, without secrets.
pub(super) struct SpanText {
    /// The key that had opted in when the request arrived.
    pub(super) key: KeyDigest,
    /// Attributes, encoded.
    pub(super) attributes: Vec<u8>,
    /// Returns the bytes to the budget when it is dropped.
    _permit: ContentPermit,
}

impl SpanText {
    /// Returns the text of each span that has one, if there is room for it. A span whose text cannot be read, because
    /// that panics or because the runtime ends, has none.
    pub(super) async fn of_all(contents: Vec<Option<TracedContent>>) -> Vec<Option<Self>> {
        if contents.iter().all(Option::is_none) {
            return contents.iter().map(|_| None).collect();
        }
        let count = contents.len();
        let of_all = move || contents.into_iter().map(|it| it.and_then(Self::of)).collect();
        let texts = spawn_blocking(of_all).await;
        texts.unwrap_or_else(|_| std::iter::repeat_with(|| None).take(count).collect())
    }

    fn of(content: TracedContent) -> Option<Self> {
        let key = content.key;
        let capture::Messages { input, output, permit } = capture::without_secrets(content)?;
        let attributes = spans::text([input.as_deref(), output.as_deref()]);
        Some(Self { key, attributes, _permit: permit })
    }
}
