//! The contents of the example files, for the tests that run them.

/// The minimal configuration of a gateway for clients on other hosts.
pub const GATEWAY_MINIMAL: &str = include_str!("../gateway.minimal.toml");

/// All settings of a gateway, with their defaults.
pub const GATEWAY_FULL: &str = include_str!("../gateway.full.toml");

/// A systemd unit.
pub const SYSTEMD_UNIT: &str = include_str!("../tollgate.service");

/// A systemd unit of the API's listening socket.
pub const SYSTEMD_SOCKET: &str = include_str!("../tollgate.socket");

/// A systemd unit for one gateway of several.
pub const FLEET_SYSTEMD_UNIT: &str = include_str!("../fleet/tollgate@.service");

/// The variables of gateways on one database.
pub const FLEET_ENVIRONMENT: &str = include_str!("../fleet/fleet.env");

/// A catalogue for `ctl apply`.
pub const CATALOGUE: &str = include_str!("../catalogue.toml");

/// The rules for Prometheus.
pub const PROMETHEUS_RULES: &str = include_str!("../observability/rules.yml");

/// The dashboard for Grafana.
pub const GRAFANA_DASHBOARD: &str = include_str!("../observability/dashboard.json");

/// The configuration of Codex for the simulator.
pub const CODEX: &str = include_str!("../codex.toml");

/// The configuration of opencode for the simulator.
pub const OPENCODE: &str = include_str!("../opencode.json");
