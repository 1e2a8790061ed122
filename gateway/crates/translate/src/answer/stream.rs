//! A chat stream as a Responses stream (§5).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::events::{Events, put, string};
use super::object::{self, ResponseHead, ResponseState};
use super::reader::AnswerReader;
use super::{
    AnswerOutcome, AnswerUsage, CompletionInfo, Envelope, ProtocolViolation, StreamFailure,
};
use crate::plan::ResponsePlan;
use domain::wire::chunk::{AnswerForm, ChunkView};
use domain::wire::finish::FinishReason;
use domain::wire::parse_error;
use domain::wire::sse;

/// What shows a client that the stream is alive (§5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// A comment: not an event, so that every client understands it.
    Comment,
    /// `response.in_progress` once more: an event for clients that count only those.
    InProgress,
    /// The `keepalive` event.
    Event,
}

/// Turns the events of a chat stream into those of a Responses stream.
pub struct ResponseStream {
    head: ResponseHead,
    done_marker: bool,
    reader: AnswerReader,
    /// The next event's number.
    sequence: u64,
    has_started: bool,
    is_done: bool,
    /// The response as the terminal event has it.
    object: Option<Bytes>,
}

impl ResponseStream {
    /// A stream of which nothing has come.
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

    /// Writes the two events that every stream begins with, once.
    pub fn start(&mut self, out: &mut BytesMut) {
        if self.has_started {
            return;
        }
        self.has_started = true;
        self.snapshot("response.created", out);
        self.snapshot("response.in_progress", out);
    }

    /// Takes the data of one upstream event, and writes the events that it causes. If it is a chunk,
    /// `look` sees it before anything else is done with it.
    ///
    /// # Errors
    /// The upstream reports an error, or this is no chat stream, or the model called what it must
    /// not. What came before is in `out`; [`fail`](Self::fail) is to follow.
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
            ProtocolViolation::Invalid(format!(
                "a chunk is not a chat chunk: {}",
                parse_error(&error)
            ))
        })?;
        observe(&view);
        self.reader.head(&view);
        if let Some(error) = view.reported_error(data) {
            return Err(ProtocolViolation::Reported(error));
        }
        if view.choices.is_none() && view.usage.is_none() {
            // no chunk but a sign of life
            return Ok(());
        }
        self.start(out);
        let Some(choice) = view.choices().iter().find(|choice| choice.index == 0) else {
            return Ok(());
        };
        let mut events = Events::new(out, &mut self.sequence);
        self.reader.choice(choice, AnswerForm::Stream, &mut events)
    }

    /// Whether the client has been sent an event.
    pub fn has_started(&self) -> bool {
        self.has_started
    }

    /// Whether the upstream has said that it is done.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// The upstream's stream has ended.
    ///
    /// # Errors
    /// The answer is not whole (§4.3), or calls what it must not; [`fail`](Self::fail) is to follow,
    /// and [`end`](Self::end) otherwise.
    pub fn close(&mut self) -> Result<(), ProtocolViolation> {
        match (self.reader.finish, self.is_done) {
            (Some(FinishReason::Unnamed) | None, false) => Err(ProtocolViolation::CutOff),
            (None, true) => Err(ProtocolViolation::Invalid(sse::UNFINISHED.to_owned())),
            (Some(_), _) => self.reader.check_end(),
        }
    }

    /// How much is kept side_bytes what the model says, in bytes: the items and parts that are done, or the
    /// annotations, probabilities and ids that came with text and calls, whichever is more.
    pub fn buffered_bytes(&self) -> usize {
        self.reader.items.buffered_bytes()
    }

    /// Closes what is open and writes the terminal event of an answer that [`close`](Self::close) has
    /// found whole. Does nothing after a terminal event.
    pub fn end(&mut self, end: CompletionInfo, out: &mut BytesMut) -> AnswerOutcome {
        if self.object.is_some() {
            return self.reader.outcome();
        }
        self.start(out);
        let mut events = Events::new(out, &mut self.sequence);
        let outcome = self.reader.close(&mut events);
        let (name, state) = match self.reader.reason() {
            None => ("response.completed", ResponseState::Completed(end.now)),
            Some(reason) => ("response.incomplete", ResponseState::Incomplete(reason)),
        };
        self.terminate(name, state, Some(&end.usage), out);
        outcome
    }

    /// Ends a stream that broke (§5.7). Does nothing after a terminal event.
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
        let mut events = Events::new(out, &mut self.sequence);
        self.reader.items.abort(&mut events);
        // the members twice: clients look for them in either place, and some in both
        events.write("error", |out| {
            write_error(out, failure);
            put(out, ",\"error\":{\"type\":");
            string(out, failure.kind);
            write_error(out, failure);
            put(out, "}");
        });
        self.terminate("response.failed", ResponseState::Failed(*failure), usage.as_ref(), out);
    }

    /// Shows the client that the stream is alive. Nothing comes before the first event or after the
    /// last.
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

    /// The response as the terminal event has it; `None` before that.
    pub fn object(&self) -> Option<Bytes> {
        self.object.clone()
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
        let object = self.reader.object(&self.head, state, usage);
        Events::new(out, &mut self.sequence).write(name, |out| {
            put(out, ",\"response\":");
            out.extend_from_slice(&object);
        });
        if self.done_marker {
            out.extend_from_slice(sse::DONE_EVENT);
        }
        self.object = Some(object);
    }
}

fn write_error(out: &mut BytesMut, failure: &StreamFailure<'_>) {
    put(out, ",\"code\":");
    string(out, failure.code);
    put(out, ",\"message\":");
    string(out, failure.message);
    put(out, ",\"param\":null");
}
