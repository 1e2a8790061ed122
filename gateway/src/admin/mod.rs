//! The admin plane: the services of `tollgate.admin.v1` over gRPC.
//!
//! A method finds out who calls, converts in, calls one function of [`crate::control`] and converts
//! out. It knows no rule: what an account may do is decided there. Start with [`serve()`].

mod accounts;
mod audit;
mod auth;
mod catalogue;
mod convert;
mod diagnostics;
mod keys;
mod ledger;
mod maintenance;
mod models;
mod plans;
pub mod serve;
mod status;
#[cfg(test)]
mod tests;
mod track;
mod traffic;
mod upstreams;
mod usage;

pub use serve::{ServeError, Settings, serve};

use tonic::{Response, Status};

/// What a method returns.
type Answer<T> = Result<Response<T>, Status>;

/// A page size that was asked for: the usual one for zero, and never more than 1,000.
fn page_size(asked: u32, usual: usize) -> usize {
    match usize::try_from(asked) {
        Ok(0) => usual,
        Ok(size) => size.min(1_000),
        Err(_) => 1_000,
    }
}
