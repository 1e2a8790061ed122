//! The public edge: HTTP/1.1 and HTTP/2 on one port.
//!
//! This module knows bytes, paths and status codes; the pipeline knows what a request means. Start with
//! [`handler::Handler`].

mod body;
mod codex;
mod connection;
mod cors;
mod error_reply;
mod flood;
mod grpc;
pub mod handler;
mod limits;
mod lingering_close;
pub mod listen;
mod model_request;
mod models;
mod protocol_io;
pub mod receive;
mod respond;
mod shutdown;
mod small_frames;
mod stored;
mod target;
pub mod worker;

pub use cors::CorsOrigins;
pub use limits::{BodyLimits, BodyPace, HttpLimits};
