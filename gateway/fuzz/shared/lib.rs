//! What the fuzz targets share.
//!
//! [`process`] runs a gateway in the process of the target. [`input`] turns an input into what a client sends, and
//! [`http1`] and [`http2`] parse what it receives, as [`answer`]. [`frames`] is a
//! file of the tests.

pub mod answer;
#[path = "../../../tests/src/http2.rs"]
pub mod frames;
pub mod http1;
pub mod http2;
pub mod input;
pub mod process;
