//! The dashboard of Tollgate, shaped like an Elm program.
//!
//! In reading order: [`model`] is everything on screen as plain data; a [`message`] is all that can
//! happen to it; [`update`](mod@update) turns a message into a changed model and a list of [`effect`]s; [`view`]
//! turns the model into cells. [`input`] is what the terminal reports, [`keymap`] is the one table from keys to actions, [`theme`] the one
//! place with colours, [`connection`] the one owner of the network, [`terminal`] of the terminal.
//!
//! `model`, `update` and `view` know neither tonic nor tokio nor the terminal, and read no clock: the
//! same messages give the same cells. A new screen is a file of its name in each of the three, a
//! variant of [`model::Screen`] and rows in the key map.

pub mod clock;
pub mod connection;
pub mod effect;
pub mod input;
pub mod keymap;
pub mod message;
pub mod model;
pub mod terminal;
pub mod theme;
pub mod update;
pub mod view;
