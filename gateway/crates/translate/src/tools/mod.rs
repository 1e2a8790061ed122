//! Converts the tools of a request and its `tool_choice`.
//!
//! `kind` is the table of convertible types (`T-5`), `collect` collects and flattens, `declare`
//! builds the chat functions, and `choice` translates `tool_choice`.

pub(super) mod choice;
pub(super) mod collect;
mod declare;
mod kind;
mod name;
#[cfg(test)]
mod tests;
mod unsupported;

pub(super) use collect::{Collector, Tools};
pub(super) use name::wire_name;
