//! Answers gRPC calls that arrive at the API's address.
//!
//! It writes the one answer without the gRPC crate, which belongs to the admin plane.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, Version};

use super::body::Reply;

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The gRPC status UNIMPLEMENTED.
const NO_SUCH_CALL: HeaderValue = HeaderValue::from_static("12");
/// ASCII without `%`, so that it need not be encoded.
const WHERE: HeaderValue = HeaderValue::from_static(
    "this is the address of the API (--listen); the admin plane has its own (--admin-listen)",
);

/// Returns whether this is a gRPC call, whose client does not understand the API's errors.
pub(super) fn is_call(head: &Parts) -> bool {
    let is_grpc = |kind: &HeaderValue| {
        let rest = kind.as_bytes().strip_prefix(GRPC.as_bytes());
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    head.version == Version::HTTP_2 && head.headers.get(CONTENT_TYPE).is_some_and(is_grpc)
}

/// Answers with a status that names the right address.
pub(super) fn refuse() -> Response<Reply> {
    let mut response = Response::new(Reply::whole(""));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(STATUS, NO_SUCH_CALL);
    headers.insert(MESSAGE, WHERE);
    response
}
