//! The Responses API over chat completions, by the rules of the mapping (`Q-8`, `T-5`, `S-6`, …, which
//! doc comments cite).
//!
//! Pure: no IO, no clock, no randomness. A request becomes a chat request and a [`plan::ResponsePlan`]; with
//! that plan the chat answer, whole or streamed, becomes a Responses answer.

pub mod answer;
pub mod dialect;
pub mod plan;
pub mod report;
pub mod request;

mod loss_recorder;
mod path;
mod raw;
mod tools;
