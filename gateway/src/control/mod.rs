//! Operations on the gateway's state: accounts, keys, plans, models, upstreams, usage.

pub mod directory;
