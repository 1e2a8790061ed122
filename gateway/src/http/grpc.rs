//! Calls for the admin plane that come to the API's address.
//!
//! One answer, written by hand: gRPC's own crate belongs to the admin plane.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Response, Version};

use super::body::Reply;

const GRPC: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// UNIMPLEMENTED.
const NO_SUCH_CALL: HeaderValue = HeaderValue::from_static("12");
/// ASCII without `%`, so that it need not be encoded.
const WHERE: HeaderValue = HeaderValue::from_static(
    "this is the address of the API (--listen); the admin plane has its own (--admin-listen)",
);

/// Whether this is a gRPC call, whose client does not understand an error of the API.
pub(super) fn is_call(head: &Parts) -> bool {
    let is_grpc = |kind: &HeaderValue| {
        let rest = kind.as_bytes().strip_prefix(GRPC.as_bytes());
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    head.version == Version::HTTP_2 && head.headers.get(CONTENT_TYPE).is_some_and(is_grpc)
}

/// Says where it should go: a status without an answer.
pub(super) fn refuse() -> Response<Reply> {
    let mut response = Response::new(Reply::whole(""));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    headers.insert(STATUS, NO_SUCH_CALL);
    headers.insert(MESSAGE, WHERE);
    response
}
