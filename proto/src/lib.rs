//! The admin contract: what the gateway's admin plane and its clients say to each other.
//!
//! It knows neither side. Start at `tollgate/admin/v1/*.proto`; [`v1`] is generated from them, and
//! [`client`] is how `ctl` and `tui` reach a gateway, and
//! [`text`] how they show what it sends.

pub mod client;
pub mod text;

/// The generated messages, clients and servers of package `tollgate.admin.v1`.
#[expect(clippy::pedantic, clippy::derive_partial_eq_without_eq, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("tollgate.admin.v1");
}

/// The compiled `.proto` files, for the reflection service.
pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
