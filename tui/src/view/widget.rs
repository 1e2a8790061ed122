//! Pieces that screens share.

pub mod bars;
pub mod frame;
pub mod log;
pub mod text;
