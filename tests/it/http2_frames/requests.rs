//! Malformed heads and bodies (RFC 9113, 8).

use tests::http2::{END_HEADERS, END_STREAM, HEADERS, block, frame};

use super::Reaction::{Answer, ConnectionError, StreamError};
use super::{Case, GET, POST, PROTOCOL_ERROR, STREAM, case, data, last_data, open, request};

const MALFORMED: super::Reaction = StreamError(STREAM, PROTOCOL_ERROR);
/// The head cannot be decoded. The RFC's error is one of the stream; an endpoint may treat it as one of the
/// connection (5.4.1).
const UNDECODABLE: super::Reaction = ConnectionError(PROTOCOL_ERROR);

pub(super) fn cases() -> Vec<Case> {
    [bodies(), headers(), pseudo_headers()].into_iter().flatten().collect()
}

fn bodies() -> Vec<Case> {
    let trailers = |flags, headers: &[(&str, &str)]| {
        [
            open(STREAM),
            data(STREAM, b"a"),
            frame(HEADERS, END_HEADERS | flags, STREAM, &block(headers)),
        ]
        .concat()
    };
    let with_length = |length, bodies: &[Vec<u8>]| {
        let mut headers = POST.to_vec();
        headers.push(("content-length", length));
        let head = frame(HEADERS, END_HEADERS, STREAM, &block(&headers));
        [head, bodies.concat()].concat()
    };
    vec![
        case("8.1", "trailers", trailers(END_STREAM, &[("x", "y")]), Answer),
        case("8.1", "a second head that is no trailer", trailers(0, &[("x", "y")]), MALFORMED),
        // Malformed to the RFC. The gateway does not read trailers.
        case(
            "8.1",
            "trailers with a pseudo-header",
            trailers(END_STREAM, &[(":path", "/")]),
            Answer,
        ),
        case(
            "8.1.1",
            "a body as long as announced",
            with_length("1", &[last_data(STREAM, b"a")]),
            Answer,
        ),
        case("8.1.1", "a shorter body", with_length("2", &[last_data(STREAM, b"a")]), MALFORMED),
        case(
            "8.1.1",
            "a longer body",
            with_length("1", &[data(STREAM, b"a"), last_data(STREAM, b"a")]),
            MALFORMED,
        ),
        case(
            "8.1.1",
            "a length that is none",
            with_length("x", &[last_data(STREAM, b"a")]),
            MALFORMED,
        ),
        case("8.1.1", "no body", get_with(&[("content-length", "1")]), MALFORMED),
    ]
}

fn headers() -> Vec<Case> {
    let extra = |section, name, header: (&'static str, &'static str), reaction| {
        case(section, name, get_with(&[header]), reaction)
    };
    vec![
        extra("8.2", "a name in upper case", ("X-a", "b"), UNDECODABLE),
        extra("8.2.1", "an empty name", ("", "b"), UNDECODABLE),
        extra("8.2.1", "a name with a space", ("x a", "b"), UNDECODABLE),
        extra("8.2.1", "a name with a colon", ("x:a", "b"), UNDECODABLE),
        extra("8.2.1", "a name that is not ASCII", ("é", "b"), UNDECODABLE),
        extra("8.2.1", "a value with a NUL", ("x", "a\0b"), UNDECODABLE),
        extra("8.2.1", "a value with a line end", ("x", "a\r\nb: c"), UNDECODABLE),
        extra("8.2.2", "connection", ("connection", "close"), MALFORMED),
        extra("8.2.2", "keep-alive", ("keep-alive", "1"), MALFORMED),
        extra("8.2.2", "proxy-connection", ("proxy-connection", "close"), MALFORMED),
        extra("8.2.2", "transfer-encoding", ("transfer-encoding", "chunked"), MALFORMED),
        extra("8.2.2", "upgrade", ("upgrade", "h2c"), MALFORMED),
        extra("8.2.2", "te other than trailers", ("te", "gzip"), MALFORMED),
        extra("8.2.2", "te of trailers", ("te", "trailers"), Answer),
        extra("8.2.3", "a cookie", ("cookie", "a=b"), Answer),
    ]
}

fn pseudo_headers() -> Vec<Case> {
    let without = |name: &str| {
        let rest: Vec<_> = GET.into_iter().filter(|(found, _)| *found != name).collect();
        request(STREAM, &rest)
    };
    let after =
        |first: (&'static str, &'static str)| request(STREAM, &[&[first][..], &GET].concat());
    let path = |path: &'static str| {
        let mut headers = GET;
        headers[3].1 = path;
        request(STREAM, &headers)
    };
    vec![
        case("8.3", "an unknown pseudo-header", after((":a", "b")), UNDECODABLE),
        case("8.3", "the pseudo-header of an answer", after((":status", "200")), MALFORMED),
        case("8.3", "a pseudo-header behind a header", after(("x", "y")), MALFORMED),
        case("8.3.1", "no method", without(":method"), MALFORMED),
        case("8.3.1", "no scheme", without(":scheme"), MALFORMED),
        case("8.3.1", "no path", without(":path"), MALFORMED),
        case("8.3.1", "no authority", without(":authority"), Answer),
        case("8.3.1", "an empty path", path(""), MALFORMED),
        case("8.3.1", "a path without a slash", path("a"), MALFORMED),
        case("8.3.1", "two methods", after((":method", "GET")), MALFORMED),
        case("8.3.1", "two schemes", after((":scheme", "http")), MALFORMED),
        case("8.3.1", "two paths", after((":path", "/")), MALFORMED),
        case("8.3.1", "two authorities", after((":authority", "b")), MALFORMED),
        // It should be malformed to the RFC. The gateway serves all hosts alike.
        case("8.3.1", "a host besides the authority", get_with(&[("host", "b")]), Answer),
    ]
}

/// Returns a request with further headers.
fn get_with(headers: &[(&str, &str)]) -> Vec<u8> {
    request(STREAM, &[&GET[..], headers].concat())
}
