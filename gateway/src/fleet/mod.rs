//! What several gateways on one database share.

pub(crate) mod allocator;
