//! Translates between the Responses API and chat completions, without IO, clock or randomness.
//!
//! [`request::Request`] becomes a chat request and a [`plan::ResponsePlan`]; with the plan, the chat
//! answer, streamed or not, becomes a Responses answer ([`answer`]). Comments cite the translation
//! rules (`Q-8`, `T-5`, `S-6`, …), which are defined in [`rules`].

pub mod answer;
pub mod dialect;
pub mod plan;
pub mod report;
pub mod request;
pub mod rules;

mod loss_recorder;
mod path;
mod raw;
mod tools;
