//! The tools of a request: which can be said in chat, under what names, and which may be called.
//!
//! [`kind`] is the one table of what is convertible (`T-5`); [`collect`] gathers and flattens,
//! [`declare`] writes the chat functions, [`choice`] reads `tool_choice`.

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
