//! Terminal dashboard for Tollgate, built on the Elm architecture.
//!
//! In reading order: [`model`] holds the application state as plain data; a [`message`] is an event
//! that changes it; [`update`](mod@update) applies a message to the model and returns a list of
//! [`effect`]s; [`view`] draws the model into terminal cells. [`input`] turns terminal events into
//! messages, [`keymap`] is the table of key bindings, [`theme`] defines all colours, [`connection`]
//! owns the network and [`terminal`] owns the terminal.
//!
//! Invariant: `model`, `update` and `view` use neither tonic, tokio nor the terminal, and read no
//! clock, so the same messages always produce the same cells. A new screen needs a file of its name
//! in each of the three, a variant of [`model::Screen`] and rows in the key map.

pub mod clock;
pub mod connection;
pub mod effect;
pub mod files;
pub mod input;
pub mod keymap;
pub mod message;
pub mod model;
pub mod options;
pub mod snapshot;
pub mod terminal;
pub mod theme;
pub mod update;
pub mod view;
