//! Relays a chat stream. Its events pass unchanged except for the model's name, and for the usage chunk, which
//! only a client that requested it gets; events without data become comments. A missing end marker is added.
//!
//! It maps bytes to bytes without IO. The output does not depend on how the input is split.

use bytes::{Bytes, BytesMut};

use super::meter::Meter;
use super::stream_memory::EVENT_COPIES;
use crate::upstream::UpstreamError;
use domain::wire::chunk::{AnswerForm, ChunkView, LENGTH_LIMIT_CHUNK};
use domain::wire::error::ReportedError;
use domain::wire::parse_error;
use domain::wire::splice::splice_into;
use domain::wire::sse::{self, Fields, Splitter};

/// Sent to the client for an event without data.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// A chat stream on its way to the client.
pub struct ChatPassthrough {
    splitter: Splitter,
    rewriter: EventRewriter,
}

/// Edits each event, and detects the end marker.
struct EventRewriter {
    /// The name that the client requested, as a JSON string.
    model: String,
    /// Whether the client gets the usage-only chunk.
    keep_usage: bool,
    /// The end marker, once it was received: it is sent after the request is settled.
    end: Option<Bytes>,
}

impl ChatPassthrough {
    /// Creates a stream for a client that knows the model as `model` (a JSON string).
    pub fn new(model: String, keep_usage: bool) -> Self {
        Self {
            splitter: Splitter::default(),
            rewriter: EventRewriter { model, keep_usage, end: None },
        }
    }

    /// Returns whether the end marker was received.
    pub fn is_done(&self) -> bool {
        self.rewriter.end.is_some()
    }

    /// Returns the memory that an incomplete event takes now or will take once it is complete, in bytes.
    pub fn memory_bytes(&self) -> usize {
        EVENT_COPIES * self.splitter.partial_bytes()
    }

    /// Appends to `out` the events that `bytes` completes.
    ///
    /// # Errors
    /// The upstream reports an error, or the input is not a chat stream. Earlier events are in `out`.
    pub fn push(
        &mut self,
        bytes: &[u8],
        meter: &mut Meter,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        let mut outcome = Ok(());
        let split = self.splitter.push(bytes, |event| {
            if outcome.is_ok() && self.rewriter.end.is_none() {
                outcome = self.rewriter.relay(event, meter, out);
            }
        });
        outcome?;
        split.map_err(|error| UpstreamError::Invalid(error.to_string()))
    }

    /// Ends the stream as a length limit does.
    pub fn cut_short(&mut self, meter: &mut Meter, out: &mut BytesMut) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(&self.rewriter.named(LENGTH_LIMIT_CHUNK));
        out.extend_from_slice(b"\n\n");
        meter.is_truncated = true;
        meter.is_ended_by_gateway = true;
        self.rewriter.end = Some(Bytes::from_static(sse::DONE_EVENT));
    }

    /// Handles the end of the input: appends its last event if that lacks its blank line.
    ///
    /// # Errors
    /// Those of [`push`](Self::push); [`UpstreamError::CutOff`] if the event is incomplete.
    pub fn finish_input(
        &mut self,
        meter: &mut Meter,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        let mut rest = self.splitter.finish();
        if self.rewriter.end.is_some() || rest.trim_ascii().is_empty() {
            return Ok(());
        }
        // The last event of some servers lacks its blank line; a partial event is not valid JSON.
        rest.extend_from_slice(b"\n\n");
        self.rewriter.relay(&rest, meter, out).map_err(|error| match error {
            UpstreamError::Reported(_) => error,
            _ => UpstreamError::CutOff,
        })
    }

    /// Checks that the answer is complete, without further input. May be called again.
    ///
    /// # Errors
    /// [`UpstreamError::CutOff`] if it is not.
    pub fn check_finished(&mut self, meter: &Meter) -> Result<(), UpstreamError> {
        if self.rewriter.end.is_none() {
            if !meter.is_finished() {
                return Err(UpstreamError::CutOff);
            }
            check_not_broken(meter)?;
            self.rewriter.end = Some(Bytes::from_static(sse::DONE_EVENT));
        }
        Ok(())
    }

    /// Appends the end marker of a [finished](Self::check_finished) stream.
    pub fn write_done(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(self.rewriter.end.as_deref().unwrap_or_default());
    }
}

/// Checks that the upstream did not report a failure in a choice that has ended (§4.3).
pub(super) fn check_not_broken(meter: &Meter) -> Result<(), UpstreamError> {
    if meter.has_failed {
        let message = Some("the upstream broke its answer off".to_owned());
        return Err(UpstreamError::Reported(ReportedError { message, ..ReportedError::default() }));
    }
    Ok(())
}

fn not_text() -> UpstreamError {
    UpstreamError::Invalid("a chunk is not valid UTF-8".to_owned())
}

impl EventRewriter {
    /// Builds a chunk with the name that the client knows the model by.
    fn named(&self, chunk: &str) -> Vec<u8> {
        format!("{{\"model\":{},{}", self.model, &chunk[1..]).into_bytes()
    }

    fn relay(
        &mut self,
        event: &[u8],
        meter: &mut Meter,
        out: &mut BytesMut,
    ) -> Result<(), UpstreamError> {
        let Fields { data, is_error } = sse::fields(event);
        if is_error {
            return Err(UpstreamError::Reported(ReportedError::parse(&data.unwrap_or_default())));
        }
        let Some(data) = data else {
            // A comment or an unknown field; it must still be text.
            std::str::from_utf8(event).map_err(|_| not_text())?;
            out.extend_from_slice(event);
            return Ok(());
        };
        if data.trim_ascii().is_empty() {
            // A keep-alive event, which not every client understands.
            out.extend_from_slice(KEEP_ALIVE);
            return Ok(());
        }
        if data.trim_ascii() == sse::DONE {
            if !meter.is_finished_by_marker() {
                return Err(UpstreamError::Invalid(sse::UNFINISHED.to_owned()));
            }
            let is_plain = *data == *sse::DONE;
            self.end = Some(if is_plain {
                Bytes::copy_from_slice(event)
            } else {
                Bytes::from_static(sse::DONE_EVENT)
            });
            return check_not_broken(meter);
        }
        let json = std::str::from_utf8(&data).map_err(|_| not_text())?;
        let view = ChunkView::parse(json).map_err(|error| {
            UpstreamError::Invalid(format!("a chunk is not a chat chunk: {}", parse_error(&error)))
        })?;
        meter.observe(&view, AnswerForm::Stream);
        if let Some(error) = view.reported_error(json) {
            return Err(UpstreamError::Reported(error));
        }
        if view.is_usage_only() && !self.keep_usage {
            return Ok(());
        }
        match view.model_other_than(json, &self.model) {
            None => out.extend_from_slice(event),
            Some(range) if let std::borrow::Cow::Borrowed(line) = data => {
                let start = line.as_ptr() as usize - event.as_ptr() as usize;
                let range = range.start + start..range.end + start;
                splice_into(out, event, range, self.model.as_bytes());
            }
            // Data over several lines, which no known server sends: joining the lines does not change JSON.
            Some(range) => {
                out.extend_from_slice(b"data: ");
                let joined = json.replace('\n', " ");
                splice_into(out, joined.as_bytes(), range, self.model.as_bytes());
                out.extend_from_slice(b"\n\n");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::usage::Tokens;

    const STREAM: &str = concat!(
        ": hello\n\n",
        "data: {\"id\":\"c\",\"model\":\"up\",\"x\":[1],\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n",
        "event: chunk\r\ndata: {\"model\":\"mine\",\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\r\n\r\n",
        "data: {\"model\":\"up\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    fn relay(pieces: &[&str], keep_usage: bool) -> (String, Meter, Result<(), UpstreamError>) {
        let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), keep_usage);
        let (mut meter, mut out) = (Meter::default(), BytesMut::new());
        let outcome = pieces
            .iter()
            .try_for_each(|piece| stream.push(piece.as_bytes(), &mut meter, &mut out))
            .and_then(|()| stream.finish_input(&mut meter, &mut out))
            .and_then(|()| stream.check_finished(&meter))
            .map(|()| stream.write_done(&mut out));
        (String::from_utf8(out.to_vec()).unwrap(), meter, outcome)
    }

    #[test]
    fn only_the_model_is_rewritten() {
        let (out, mut meter, outcome) = relay(&[STREAM], true);
        outcome.unwrap();
        assert_eq!(out, STREAM.replace("\"up\"", "\"mine\""));
        let used = meter.reported.unwrap().complete().unwrap().usage;
        assert_eq!(used.total(), Tokens(5));
        assert_eq!(meter.take_uncounted().output, ["ab"]);
        assert!(meter.is_finished() && !meter.is_truncated);
    }

    #[test]
    fn the_usage_chunk_is_kept_from_who_did_not_ask() {
        let (out, meter, _) = relay(&[STREAM], false);
        assert!(!out.contains("usage"));
        assert!(out.ends_with("}\r\n\r\ndata: [DONE]\n\n"));
        assert!(meter.reported.is_some());
    }

    #[test]
    fn any_split_gives_the_same_bytes() {
        let whole = relay(&[STREAM], true).0;
        for at in 0..=STREAM.len() {
            assert_eq!(relay(&[&STREAM[..at], &STREAM[at..]], true).0, whole);
        }
    }

    #[test]
    fn no_cut_stream_passes_for_a_whole_one() {
        let finished = STREAM.find("data: {\"model\":\"up\",\"choices\":[]").unwrap();
        for at in 0..finished {
            let (out, _, outcome) = relay(&[&STREAM[..at]], true);
            let last_event_is_whole = STREAM[at..].trim_start().len() < STREAM.len() - finished + 1;
            if !last_event_is_whole && !STREAM[..at].trim_end().ends_with("\"stop\"}]}") {
                assert!(matches!(outcome, Err(UpstreamError::CutOff)), "{at}: {outcome:?}");
                assert!(!out.contains("[DONE]"));
            }
        }
        let (out, _, outcome) = relay(&[&STREAM[..finished]], true);
        outcome.unwrap();
        assert!(
            out.ends_with("data: [DONE]\n\n"),
            "a finished answer gets the end that was forgotten"
        );
    }

    #[test]
    fn an_answer_with_one_of_two_choices_open_is_not_whole() {
        let open = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"a\"}}]}\n\n";
        let ended =
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        assert!(matches!(relay(&[open, ended], true).2, Err(UpstreamError::CutOff)));
        let other = ended.replace(":0,", ":1,");
        assert!(relay(&[open, ended, &other], true).2.is_ok());
    }

    #[test]
    fn trouble_in_the_stream_is_an_error() {
        let check = |event: &str, expected: &str| {
            let error = relay(&[event], true).2.unwrap_err().to_string();
            assert!(error.contains(expected), "{event}: {error}");
        };
        check("data: {\"error\":{\"message\":\"out of memory\"}}\n\n", "out of memory");
        check("data: {\"error\":\"out of memory\"}\n\n", "out of memory");
        check("data: <html>\n\n", "not a chat chunk");
        check(": ping\n\n", "closed the answer early");
        check("data: [DONE]\n\n", "without a `finish_reason`");
        check("event: error\ndata: {\"message\":\"out of memory\"}\n\n", "out of memory");
        check("event: error\ndata: out of memory\n\n", "out of memory");
        check("data: {\"object\":\"error\",\"message\":\"out of memory\"}\n\n", "out of memory");
        check(
            "data: {\"choices\":[{\"finish_reason\":\"abort\"}]}\n\ndata: [DONE]\n\n",
            "broke its answer off",
        );
    }

    #[test]
    fn an_end_in_other_words_is_an_end() {
        let ended =
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
        for end in ["data: [DONE] \n\n", "data:[DONE]\r\n\r\n", "data: [DONE]\t\r\r\n"] {
            let (out, _, outcome) = relay(&[ended, "data:\n\n", "data: \n\n", end], true);
            outcome.unwrap();
            assert!(out.starts_with(ended) && out.contains("[DONE]"), "{out:?}");
            assert!(!out.contains("data: \n") && !out.contains("data:\n"), "{out:?}");
            let last = out.split_inclusive("\n\n").last().unwrap();
            assert_eq!(sse::data(last.as_bytes()).as_deref(), Some(sse::DONE), "{out:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_not_relayed() {
        for bytes in [&b"\x1f\x8b\x08\x00"[..], b": \xff\xfe\n\n", b"data: \xff\n\n", b"\xff\n\n"] {
            let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), true);
            let mut out = BytesMut::new();
            let outcome = stream.push(bytes, &mut Meter::default(), &mut out);
            assert!(matches!(outcome, Err(UpstreamError::Invalid(_))), "{bytes:?}: {outcome:?}");
            assert!(out.is_empty());
        }
    }

    #[test]
    fn a_stream_that_is_cut_short_ends_as_at_a_limit() {
        let mut stream = ChatPassthrough::new("\"mine\"".to_owned(), false);
        let (mut meter, mut out) = (Meter::default(), BytesMut::new());
        stream.cut_short(&mut meter, &mut out);
        stream.push(STREAM.as_bytes(), &mut meter, &mut out).unwrap();
        stream.finish_input(&mut meter, &mut out).unwrap();
        stream.check_finished(&meter).unwrap();
        stream.write_done(&mut out);
        let text = std::str::from_utf8(&out).unwrap();
        assert!(text.starts_with("data: {\"model\":\"mine\",\"object\":"), "{text}");
        assert!(text.ends_with("\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n"), "{text}");
        assert!(meter.is_truncated && meter.is_ended_by_gateway && stream.is_done());
    }

    #[test]
    fn nothing_follows_the_end() {
        let (out, _, outcome) = relay(&[STREAM, "data: {\"late\":1}\n\n"], true);
        outcome.unwrap();
        assert!(out.ends_with("data: [DONE]\n\n"));
    }

    #[test]
    fn data_over_several_lines_is_joined() {
        let (out, _, _) = relay(&["data: {\"model\":\"up\",\ndata: \"choices\":[]}\n\n"], true);
        assert_eq!(out, "data: {\"model\":\"mine\", \"choices\":[]}\n\n");
    }
}
