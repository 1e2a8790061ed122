//! Parses the answers of an HTTP/1.1 connection.

use httparse::{EMPTY_HEADER, Status};

use crate::answer::Answer;

/// Returns all answers in `bytes`, of which the last may be incomplete. `has_head` says that a client may have sent
/// a HEAD request, whose answer has no body.
///
/// # Panics
/// If the bytes are not answers.
pub fn answers(mut bytes: &[u8], has_head: bool) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let mut headers = [EMPTY_HEADER; 100];
        let mut head = httparse::Response::new(&mut headers);
        let shown = bytes.escape_ascii();
        let length = match head.parse(bytes) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => break,
            Err(error) => panic!("no head of an answer: {error} {shown}"),
        };
        let value = |value: &[u8]| String::from_utf8(value.to_vec()).expect("a header is text");
        let headers = head.headers.iter().map(|it| (it.name.to_lowercase(), value(it.value)));
        let status = head.code.expect("a parsed head has a status");
        let mut answer = Answer { status, headers: headers.collect(), ..Answer::default() };
        bytes = &bytes[length..];
        if (100..200).contains(&status) {
            continue;
        }
        let may_be_head = has_head && (bytes.is_empty() || bytes.starts_with(b"HTTP/1."));
        bytes = match (answer.header("transfer-encoding"), answer.header("content-length")) {
            _ if may_be_head || matches!(status, 204 | 304) => {
                answer.is_whole = true;
                bytes
            }
            (Some(coding), None) => {
                assert_eq!(coding, "chunked", "{shown}");
                chunked(bytes, &mut answer)
            }
            (None, Some(length)) => {
                let length: usize = length.parse().expect("a length is a number");
                let (body, rest) = bytes.split_at(length.min(bytes.len()));
                answer.body = body.to_vec();
                answer.is_whole = body.len() == length;
                rest
            }
            // The body ends with the connection.
            (None, None) => {
                answer.body = bytes.to_vec();
                &[]
            }
            (Some(_), Some(_)) => panic!("an answer with two lengths: {shown}"),
        };
        answers.push(answer);
    }
    answers
}

/// Reads a chunked body into `answer`, and returns what follows.
fn chunked<'a>(mut bytes: &'a [u8], answer: &mut Answer) -> &'a [u8] {
    loop {
        let (start, length) = match httparse::parse_chunk_size(bytes) {
            Ok(Status::Complete(head)) => head,
            Ok(Status::Partial) => return &[],
            Err(error) => panic!("no chunk: {error:?} {}", bytes.escape_ascii()),
        };
        let rest = &bytes[start..];
        let length = usize::try_from(length).expect("it fits into memory");
        let Some((chunk, after)) = rest.split_at_checked(length) else {
            answer.body.extend(rest);
            return &[];
        };
        answer.body.extend(chunk);
        let Some(after) = after.strip_prefix(b"\r\n") else {
            assert!(b"\r\n".starts_with(after), "no end of a chunk: {}", bytes.escape_ascii());
            return &[];
        };
        bytes = after;
        if length == 0 {
            answer.is_whole = true;
            return bytes;
        }
    }
}
