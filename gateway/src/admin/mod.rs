//! The admin plane: the gRPC services of `tollgate.admin.v1`.
//!
//! Each method authenticates the caller, converts the request, calls one function of [`crate::control`] and
//! converts the result. Authorization and all other rules are in [`crate::control`]. Start with [`serve()`].

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
mod nodes;
mod people;
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

const MAX_PAGE_SIZE: usize = 1_000;

/// The result of a method.
type RpcResult<T> = Result<Response<T>, Status>;

/// Returns the size of a page: `default` if `requested` is zero, and at most [`MAX_PAGE_SIZE`].
fn page_size(requested: u32, default: usize) -> usize {
    match usize::try_from(requested) {
        Ok(0) => default,
        Ok(size) => size.min(MAX_PAGE_SIZE),
        Err(_) => MAX_PAGE_SIZE,
    }
}
