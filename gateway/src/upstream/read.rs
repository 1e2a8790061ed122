//! Reads short upstream bodies whole.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use super::answer_body::AnswerBody;
use super::error::UpstreamError;

/// Reads a body of at most `limit` bytes into one buffer. Keeping one-byte frames individually would take
/// about seventy times their length.
///
/// # Errors
/// The body is longer, or breaks off.
pub(super) async fn read_whole(mut body: AnswerBody, limit: usize) -> Result<Bytes, UpstreamError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(UpstreamError::Invalid(format!("its answer is longer than {limit} bytes")));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}
