//! The gRPC contract between the gateway's admin plane and its clients.
//!
//! It depends on neither side. The contract is in `tollgate/admin/v1/*.proto`, from which [`v1`] is generated.
//! `ctl` and `tui` connect with [`client`] and sanitize received text with [`text`].

pub mod client;
pub mod text;

/// The generated messages, clients and servers of package `tollgate.admin.v1`.
#[expect(clippy::pedantic, clippy::derive_partial_eq_without_eq, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("tollgate.admin.v1");
}

/// The compiled `.proto` files, for the reflection service.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
