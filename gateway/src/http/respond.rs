//! Builds responses: answers, streams, JSON and errors.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Response};

use super::body::Reply;
use super::error_reply::ErrorReply;
use crate::pipeline::answer::Answer;
use crate::pipeline::open_request::Arrival;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The id of a request, on every answer.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Converts an answer into a response.
pub(super) fn answer(answer: Answer) -> Response<Reply> {
    match answer {
        Answer::Whole { headers, body } => json_with(headers, body),
        Answer::Stream { headers, relay } => event_stream(headers, Reply::Stream(relay)),
        Answer::Replayed(kept) => {
            let (mut headers, body) = (kept.headers.clone(), kept.body.clone());
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
            if kept.stream {
                event_stream(headers, Reply::whole(body))
            } else {
                json_with(headers, body)
            }
        }
    }
}

/// Returns a stream with status 200.
fn event_stream(mut headers: HeaderMap, body: Reply) -> Response<Reply> {
    headers.insert(CONTENT_TYPE, EVENT_STREAM);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    with_headers(headers, body)
}

/// Returns a JSON body with status 200.
pub(super) fn json(body: impl Into<Bytes>) -> Response<Reply> {
    json_with(HeaderMap::new(), body)
}

fn json_with(mut headers: HeaderMap, body: impl Into<Bytes>) -> Response<Reply> {
    headers.insert(CONTENT_TYPE, JSON);
    with_headers(headers, Reply::whole(body))
}

fn with_headers(headers: HeaderMap, body: Reply) -> Response<Reply> {
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

/// Converts an error into a response.
pub(super) fn error(reply: ErrorReply) -> Response<Reply> {
    let body = reply.body().to_json();
    let ErrorReply { status, headers, .. } = reply;
    let mut response = json_with(headers, body);
    *response.status_mut() = status;
    response
}

/// Encodes an error for HTTP/1 that ends the connection, where hyper has no request to answer.
pub(super) fn encoded(reply: &ErrorReply, arrival: &Arrival) -> Bytes {
    let (status, body) = (reply.status, reply.body().to_json());
    let id = arrival.id.0.hyphenated();
    let date = arrival.at.strftime("%a, %d %b %Y %H:%M:%S GMT");
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{REQUEST_ID}: {id}\r\n\
         connection: close\r\ncontent-length: {}\r\ndate: {date}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat().into()
}
