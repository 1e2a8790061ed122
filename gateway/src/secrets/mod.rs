//! Secrets at rest and in use: secret files, encryption, and the credentials of upstreams.
//!
//! The request pipeline reads credentials from memory; only the operations of `control` change
//! them.

mod credentials;
pub(crate) mod file;
pub mod key_source;
pub mod seal;

pub use credentials::{Credentials, ResolvedCredential, ResolvedSecrets, UpstreamSecrets};
pub(crate) use credentials::{bearer_token_problem, proxy_password_problem};
pub use key_source::{KeyRotationError, SealKeySource};
