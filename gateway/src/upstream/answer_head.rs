//! What the head of an upstream's answer says: whether it is a chat answer, and otherwise why not.

use std::time::Duration;

use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use hyper::{Response, StatusCode, Uri};
use tokio::time::timeout;

use super::answer_body::AnswerBody;
use super::error::{UpstreamError, convert_retry_date};
use super::read::read_whole;
use domain::wire::error::ReportedError;

/// The maximum length of an error body that is read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// Rejects a successful status that no chat answer has. The others say that the answer is not all of it (206), follows
/// later (202), or has no content (204, 205).
pub(super) fn check_status(
    response: Response<AnswerBody>,
) -> Result<Response<AnswerBody>, UpstreamError> {
    match response.status() {
        StatusCode::OK => Ok(response),
        status => {
            Err(UpstreamError::Invalid(format!("its status is {}, not 200", status.as_u16())))
        }
    }
}

/// Rejects a content encoding that was not requested; its bytes would be taken for text.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), UpstreamError> {
    let mut encodings = headers.get_all(CONTENT_ENCODING).iter();
    let is_plain = |value: &&HeaderValue| {
        let value = value.as_bytes().trim_ascii();
        value.is_empty() || value.eq_ignore_ascii_case(b"identity")
    };
    let Some(encoding) = encodings.find(|value| !is_plain(value)) else { return Ok(()) };
    let encoding = String::from_utf8_lossy(encoding.as_bytes());
    Err(UpstreamError::Invalid(format!(
        "its answer is encoded as `{}`, which was not asked for",
        encoding.escape_default()
    )))
}

/// Reads the rest of an answer without a successful status, for up to `idle_deadline`, and returns it as an error.
pub(super) async fn refusal(
    response: Response<AnswerBody>,
    idle_deadline: Duration,
) -> UpstreamError {
    let (mut head, body) = response.into_parts();
    if head.status.is_redirection() {
        let to = redirect_origin(&head.headers);
        return UpstreamError::Redirected { status: head.status.as_u16(), to };
    }
    convert_retry_date(&mut head.headers);
    let read = read_whole(body.allow_early_end(), MAX_ERROR_BODY_BYTES);
    let read = timeout(idle_deadline, read).await;
    let body = match (read, check_encoding(&head.headers)) {
        (Ok(Ok(body)), Ok(())) => ReportedError::parse(&body),
        _ => ReportedError::default(),
    };
    let status = head.status.as_u16();
    UpstreamError::Refused { status, body, headers: Box::new(head.headers) }
}

/// Returns the scheme, host and port of the address that a redirect names, if it is absolute. The rest of the address
/// may contain secrets.
fn redirect_origin(headers: &HeaderMap) -> Option<String> {
    let location: Uri = headers.get(LOCATION)?.to_str().ok()?.parse().ok()?;
    let (scheme, host) = (location.scheme_str()?, location.host()?);
    Some(match location.port() {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    })
}
