//! The example files, for the tests that run them.

/// The least that a gateway for other hosts needs.
pub const GATEWAY_MINIMAL: &str = include_str!("../gateway.minimal.toml");

/// Every setting, with its default.
pub const GATEWAY_FULL: &str = include_str!("../gateway.full.toml");

/// A systemd unit.
pub const SYSTEMD_UNIT: &str = include_str!("../tollgate.service");

/// A catalogue for `ctl apply`.
pub const CATALOGUE: &str = include_str!("../catalogue.toml");

/// Codex on the simulator.
pub const CODEX: &str = include_str!("../codex.toml");

/// opencode on the simulator.
pub const OPENCODE: &str = include_str!("../opencode.json");
