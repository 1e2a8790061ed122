//! A chat answer, whole or streamed, as a Responses answer.
//!
//! Both go through the same `reader::AnswerReader`: a stream's chunks, and a whole answer as one chunk
//! whose events nobody sees. So a client that folds the events of a stream has the object that it
//! would have got without one.
//!
//! From outside in: [`ResponseStream`] and [`whole`] know how an answer begins and ends; `reader`
//! takes chunks apart; `items` knows which item is open and which waits; `message`, `reasoning` and
//! `call` know each kind's fields and events; `events` and `object` write.

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
use domain::wire::error::ForeignError;
pub use domain::wire::usage::AnswerUsage;
pub use stream::{KeepAlive, ResponseStream};
pub use whole::{WholeAnswer, parse_whole};

/// What an answer is given from outside, so that it needs neither clock nor chance.
#[derive(Clone)]
pub struct Envelope {
    /// The response's id, `resp_…` (`R-10`): one for all events and the object.
    pub id: String,
    /// When the request was accepted, in seconds since 1970.
    pub created_at: i64,
    /// What the ids of items and calls are made of; another for each response.
    pub seed: u128,
    /// Whether `data: [DONE]` follows the last event (`S-4`).
    pub done_marker: bool,
    /// Wraps reasoning for the client to keep (`R-9`).
    pub sealer: Arc<dyn ReasoningSealer>,
}

/// What an answer is given at its end.
#[derive(Clone, Copy, Debug)]
pub struct CompletionInfo {
    /// Now, in seconds since 1970.
    pub now: i64,
    /// What it used: as reported, or as counted.
    pub usage: AnswerUsage,
}

/// Why a stream fails after it has begun (§5.7).
#[derive(Clone, Copy, Debug)]
pub struct StreamFailure<'a> {
    /// What programs tell failures apart by, `server_error` if nothing better is known.
    pub code: &'a str,
    /// The class, as in an error's body.
    pub kind: &'a str,
    /// What the client reads.
    pub message: &'a str,
}

/// How an answer ended that is whole (§4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The model said all that it had to say.
    Completed,
    /// It was cut by a length limit or a content filter.
    Incomplete,
}

/// Why what the upstream sent is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolViolation {
    /// It is not what a chat server sends.
    #[error("{0}")]
    Invalid(String),
    /// It is an error.
    #[error("the upstream reports: {}", .0.message.as_deref().unwrap_or("an error"))]
    Reported(ForeignError),
    /// It ended early.
    #[error("upstream closed the stream early")]
    CutOff,
    /// The model did what it must not do.
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
