//! Translates a chat answer, streamed or not, into a Responses answer.
//!
//! Both forms go through `reader::AnswerReader`: a non-streaming answer is one chunk whose events
//! are discarded. Invariant: rebuilding the output from the events of a stream gives the object of
//! the non-streaming answer.
//!
//! Layers from the outside in: [`ResponseStream`] and [`parse_whole`] handle start and end of an
//! answer, `reader` parses chunks, `items` orders the items, `message`, `reasoning` and `call`
//! write the fields and events of one kind of item, and `events` and `object` write bytes.

mod call;
mod custom;
mod events;
mod extras;
mod ids;
mod items;
mod message;
mod object;
mod object_scanner;
mod reader;
mod reasoning;
mod slots;
mod stream;
mod text;
mod whole;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use super::plan::ReasoningSealer;
use domain::wire::error::ReportedError;
pub use domain::wire::usage::AnswerUsage;
pub use stream::{KeepAlive, ResponseStream};
pub use whole::{WholeAnswer, parse_whole};

/// The values that a translation gets from its caller, because it has neither clock nor randomness.
#[derive(Clone)]
pub struct Envelope {
    /// The response id, `resp_…` (`R-10`), the same in all events and in the object.
    pub id: String,
    /// The time at which the request was accepted, in Unix seconds.
    pub created_at: i64,
    /// The seed of item and call ids. Must be unique per response.
    pub seed: u128,
    /// Whether `data: [DONE]` follows the last event (`S-4`).
    pub done_marker: bool,
    /// Seals reasoning for the client (`R-9`).
    pub sealer: Arc<dyn ReasoningSealer>,
}

/// The values that are known once the answer has ended.
#[derive(Clone, Copy, Debug)]
pub struct CompletionInfo {
    /// The time of completion, in Unix seconds.
    pub completed_at: i64,
    /// The usage, as reported by the upstream or as counted.
    pub usage: AnswerUsage,
}

/// The reason for a stream to fail after its start (§5.7).
#[derive(Clone, Copy, Debug)]
pub struct StreamFailure<'a> {
    /// The error code; `server_error` if there is no better one.
    pub code: &'a str,
    /// The error type, as in the body of an HTTP error.
    pub kind: &'a str,
    /// The message for the client.
    pub message: &'a str,
}

/// The outcome of a complete answer (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The model finished.
    Completed,
    /// A length limit or a content filter ended the answer.
    Incomplete,
}

/// The reason for which upstream data cannot become an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    /// The data violates the chat protocol.
    #[error("{0}")]
    Invalid(String),
    /// The upstream reported an error.
    #[error("the upstream reports: {}", .0.message.as_deref().unwrap_or("an error"))]
    Reported(ReportedError),
    /// The stream ended early.
    #[error("upstream closed the stream early")]
    CutOff,
    /// The model violated a constraint of the request.
    #[error("{0}")]
    Model(String),
}

impl fmt::Debug for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Envelope")
            .field("id", &self.id)
            .field("created_at", &self.created_at)
            .field("seed", &self.seed)
            .field("done_marker", &self.done_marker)
            .finish_non_exhaustive()
    }
}
