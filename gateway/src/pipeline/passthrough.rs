//! Relays a chat stream. Its events pass unchanged except for the model's name, and for the usage chunk, which
//! only a client that requested it gets; events without data become comments. A missing end marker is added.
//!
//! It maps bytes to bytes without IO. The output does not depend on how the input is split.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::event_pattern::EventPattern;
use super::meter::Meter;
use super::stream_memory::EVENT_COPIES;
use crate::upstream::UpstreamError;
use domain::wire::chunk::{AnswerForm, ChunkView, LENGTH_LIMIT_CHUNK};
use domain::wire::error::ReportedError;
use domain::wire::range_in;
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
    pattern: EventPattern,
}

impl ChatPassthrough {
    /// Creates a stream for a client that knows the model as `model` (a JSON string).
    pub fn new(model: String, keep_usage: bool) -> Self {
        Self {
            splitter: Splitter::default(),
            rewriter: EventRewriter {
                model,
                keep_usage,
                end: None,
                pattern: EventPattern::default(),
            },
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
        if let Some(text) = self.pattern.text_in(event) {
            meter.observe_text(&text);
            self.pattern.append(&text, out);
            return Ok(());
        }
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
            UpstreamError::Invalid(format!("a chunk is not a chat chunk: {error}"))
        })?;
        meter.observe(&view, AnswerForm::Stream);
        if let Some(error) = view.reported_error(json) {
            return Err(UpstreamError::Reported(error));
        }
        if view.is_usage_only() && !self.keep_usage {
            return Ok(());
        }
        let renamed = view.model_other_than(json, &self.model);
        if let Cow::Borrowed(line) = data {
            let start = line.as_ptr() as usize - event.as_ptr() as usize;
            let in_event = |range: Range<usize>| range.start + start..range.end + start;
            let renamed = renamed.map(in_event);
            match &renamed {
                None => out.extend_from_slice(event),
                Some(range) => splice_into(out, event, range.clone(), self.model.as_bytes()),
            }
            if let Some(text) = view.only_text() {
                let range = in_event(range_in(json, text.raw.get()));
                self.pattern.learn(event, &text, range, renamed, &self.model);
            }
            return Ok(());
        }
        // Data over several lines, which no known server sends: joining the lines does not change JSON.
        match renamed {
            None => out.extend_from_slice(event),
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
mod tests;
