//! Translates a chat stream into a Responses stream (§5).

use std::ops::Range;
use std::sync::Arc;

use bytes::BytesMut;

use super::events::{Events, put, string};
use super::object::{self, ResponseHead, ResponseState};
use super::reader::AnswerReader;
use super::{
    AnswerOutcome, AnswerUsage, CompletionInfo, Envelope, ProtocolViolation, StreamFailure,
};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChunkView};
use domain::wire::finish::FinishReason;
use domain::wire::sse;

/// The room for the final events without their text, in bytes.
const FINAL_FRAMES: usize = 4 * 1024;

/// The form of a keep-alive (§5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// A comment, which is not an event and which every client ignores.
    Comment,
    /// A repeated `response.in_progress`, for clients whose idle timer is reset by events only.
    InProgress,
    /// A `keepalive` event.
    Event,
}

/// Translates the events of a chat stream into those of a Responses stream.
pub struct ResponseStream {
    head: ResponseHead,
    done_marker: bool,
    reader: AnswerReader,
    /// The next `sequence_number`.
    sequence: u64,
    has_started: bool,
    is_done: bool,
    /// The place of the response object of the terminal event in the output, once written.
    object: Option<Range<usize>>,
}

impl ResponseStream {
    /// Creates a stream that has received nothing.
    pub fn new(envelope: &Envelope, plan: Arc<ResponsePlan>) -> Self {
        Self {
            head: ResponseHead::new(envelope, &plan),
            done_marker: envelope.done_marker,
            reader: AnswerReader::new(envelope, plan),
            sequence: 0,
            has_started: false,
            is_done: false,
            object: None,
        }
    }

    /// Writes `response.created` and `response.in_progress`, once.
    pub fn start(&mut self, out: &mut BytesMut) {
        if self.has_started {
            return;
        }
        self.has_started = true;
        self.snapshot("response.created", out);
        self.snapshot("response.in_progress", out);
    }

    /// Translates the data of one upstream event and appends the resulting events to `out`.
    /// `observe` sees every chunk before it is translated.
    ///
    /// # Errors
    /// The upstream reported an error, the data is not a chat chunk, or the model called a tool
    /// that is not allowed. `out` has the events so far; the caller must call [`fail`](Self::fail).
    pub fn push(
        &mut self,
        data: &str,
        out: &mut BytesMut,
        observe: impl FnOnce(&ChunkView<'_>),
    ) -> Result<(), ProtocolViolation> {
        let data = data.trim();
        if data.is_empty() || self.is_done || self.object.is_some() {
            return Ok(());
        }
        if data.as_bytes() == sse::DONE {
            self.is_done = true;
            return Ok(());
        }
        let view = ChunkView::parse(data).map_err(|error| {
            ProtocolViolation::Invalid(format!("a chunk is not a chat chunk: {error}"))
        })?;
        observe(&view);
        self.reader.head(&view);
        if let Some(error) = view.reported_error(data) {
            return Err(ProtocolViolation::Reported(error));
        }
        if view.choices.is_none() && view.usage.is_none() {
            // A keep-alive of the upstream.
            return Ok(());
        }
        self.start(out);
        let Some(choice) = view.choices().iter().find(|choice| choice.index == 0) else {
            return Ok(());
        };
        let mut events = Events::new(out, &mut self.sequence);
        self.reader.choice(choice, AnswerForm::Stream, &mut events)
    }

    /// Returns whether an event was written.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns whether the upstream sent `[DONE]`.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Handles the end of the upstream stream. On success, the caller must call [`end`](Self::end).
    ///
    /// # Errors
    /// The answer is incomplete (§4.3), or has a call of a tool that is not allowed; the caller
    /// must call [`fail`](Self::fail).
    pub fn close(&mut self) -> Result<(), ProtocolViolation> {
        match (self.reader.finish, self.is_done) {
            (Some(FinishReason::Empty) | None, false) => Err(ProtocolViolation::CutOff),
            (None, true) => Err(ProtocolViolation::Invalid(sse::UNFINISHED.to_owned())),
            (Some(_), _) => self.reader.check_end(),
        }
    }

    /// Returns the number of buffered bytes: the closed items and parts, or all text, calls,
    /// annotations and log probabilities received, whichever is larger.
    pub fn buffered_bytes(&self) -> usize {
        self.reader.items.buffered_bytes()
    }

    /// Closes the open items and writes the terminal event. Must be called after
    /// [`close`](Self::close) has succeeded. Has no effect after a terminal event.
    pub fn end(&mut self, end: CompletionInfo, out: &mut BytesMut) -> AnswerOutcome {
        if self.object.is_some() {
            return self.reader.outcome();
        }
        self.start(out);
        self.reserve_end(out);
        let mut events = Events::new(out, &mut self.sequence);
        let outcome = self.reader.close(&mut events);
        let state = self.reader.state(end.completed_at);
        let name = match outcome {
            AnswerOutcome::Completed => "response.completed",
            AnswerOutcome::Incomplete => "response.incomplete",
        };
        self.terminate(name, state, Some(&end.usage), out);
        outcome
    }

    /// Writes the final events of a stream that failed (§5.7). Has no effect after a terminal
    /// event.
    pub fn fail(
        &mut self,
        failure: &StreamFailure<'_>,
        usage: Option<AnswerUsage>,
        out: &mut BytesMut,
    ) {
        if self.object.is_some() {
            return;
        }
        self.start(out);
        self.reserve_end(out);
        let mut events = Events::new(out, &mut self.sequence);
        self.reader.items.abort(&mut events);
        // Clients look for the members at the top level, under `error`, or at both places.
        events.write("error", |out| {
            write_error(out, failure);
            put(out, ",\"error\":{\"type\":");
            string(out, failure.kind);
            write_error(out, failure);
            put(out, "}");
        });
        self.terminate("response.failed", ResponseState::Failed(*failure), usage.as_ref(), out);
    }

    /// Writes a keep-alive. Has no effect before the first event and after the last one.
    pub fn keep_alive(&mut self, kind: KeepAlive, out: &mut BytesMut) {
        if !self.has_started || self.object.is_some() {
            return;
        }
        match kind {
            KeepAlive::Comment => put(out, ": keepalive\n\n"),
            KeepAlive::InProgress => self.snapshot("response.in_progress", out),
            KeepAlive::Event => Events::new(out, &mut self.sequence).write("keepalive", |_| {}),
        }
    }

    /// Returns the response object of the terminal event; `None` before it. `out` must be the
    /// buffer that the event was written to, with what it contained then.
    pub fn object<'a>(&self, out: &'a [u8]) -> Option<&'a [u8]> {
        out.get(self.object.clone()?)
    }

    /// Makes room for the final events, so that the output does not grow event by event, each time
    /// with a copy.
    fn reserve_end(&self, out: &mut BytesMut) {
        let reader = &self.reader;
        out.reserve(reader.items.final_bytes() + reader.plan.echo.len() + FINAL_FRAMES);
    }

    fn snapshot(&mut self, name: &str, out: &mut BytesMut) {
        let Self { head, reader, sequence, .. } = self;
        Events::new(out, sequence).write(name, |out| {
            put(out, ",\"response\":");
            let tier = reader.tier.as_deref();
            object::write(out, (head, &reader.plan), ResponseState::InProgress, tier, b"", None);
        });
    }

    fn terminate(
        &mut self,
        name: &str,
        state: ResponseState<'_>,
        usage: Option<&AnswerUsage>,
        out: &mut BytesMut,
    ) {
        let Self { head, reader, sequence, object, .. } = self;
        let output = reader.items.take_output();
        Events::new(out, sequence).write(name, |out| {
            put(out, ",\"response\":");
            let (start, tier) = (out.len(), reader.tier.as_deref());
            object::write(out, (head, &reader.plan), state, tier, &output, usage);
            *object = Some(start..out.len());
        });
        if self.done_marker {
            out.extend_from_slice(sse::DONE_EVENT);
        }
    }
}

fn write_error(out: &mut BytesMut, failure: &StreamFailure<'_>) {
    put(out, ",\"code\":");
    string(out, failure.code);
    put(out, ",\"message\":");
    string(out, failure.message);
    put(out, ",\"param\":null");
}
