//! The example files work. `.ci/run` runs the Python ones.

use clap::Parser;
use gateway::config::Settings;

/// Parses settings as the gateway does.
fn read(text: &str) -> gateway::config::Config {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    let settings = Settings::read(&path).unwrap();
    let overrides = Settings { data_dir: Some(dir.path().to_owned()), ..Settings::default() };
    settings.or(overrides).resolve().unwrap()
}

#[test]
fn the_full_configuration_shows_the_defaults() {
    let full = read(examples::GATEWAY_FULL);
    let defaults = read("");
    let defaults = gateway::config::Config { data_dir: full.data_dir.clone(), ..defaults };
    assert_eq!(format!("{full:#?}"), format!("{defaults:#?}"));
}

#[test]
fn the_full_configuration_shows_every_setting() {
    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Settings,
    }
    let file: toml::Table = examples::GATEWAY_FULL.parse().unwrap();
    for argument in <Flags as clap::CommandFactory>::command().get_arguments() {
        let key = argument.get_id().as_str();
        let in_a_table = file.iter().any(|(table, keys)| {
            let key = key.strip_prefix(table).and_then(|key| key.strip_prefix('_'));
            key.is_some_and(|key| keys.get(key).is_some())
        });
        assert!(file.contains_key(key) || in_a_table, "`{key}` is not in gateway.full.toml");
    }
}

#[test]
fn the_minimal_configuration_keeps_the_admin_plane_on_loopback() {
    let minimal = read(examples::GATEWAY_MINIMAL);
    assert!(minimal.listen.ip().is_unspecified());
    assert!(minimal.admin_listen.is_local());
}

#[tokio::test]
async fn the_command_lines_in_the_systemd_units_are_valid() {
    for unit in [examples::SYSTEMD_UNIT, examples::FLEET_SYSTEMD_UNIT] {
        let start = value(unit, "ExecStart").replace("%i", "gate-1");
        let mut arguments: Vec<_> = start.split_whitespace().skip(1).collect();
        let data = tempfile::tempdir().unwrap();
        let index = arguments.iter().position(|argument| *argument == "--data-dir").unwrap() + 1;
        let dir = data.path().display().to_string();
        arguments[index] = &dir;
        // with --help the command line is parsed and nothing is started
        let mut gateway = tests::process::command("gateway");
        let help = gateway.args(arguments).arg("--help").output().await;
        assert!(help.unwrap().status.success());
    }
}

#[test]
fn the_systemd_units_have_the_same_sandbox() {
    let sandbox = |unit: &'static str| {
        let (_, rest) = unit.split_once("# what the gateway never does").unwrap();
        rest.split_once("[Install]").unwrap().0
    };
    assert_eq!(sandbox(examples::SYSTEMD_UNIT), sandbox(examples::FLEET_SYSTEMD_UNIT));
}

#[test]
fn the_settings_of_the_debian_package_serve_this_host_only() {
    let config = read(include_str!("../../packaging/debian/gateway.toml"));
    assert!(config.listen.ip().is_loopback() && config.admin_listen.is_local());
    assert!(!config.simulator);
}

/// Returns the value of a key in a systemd unit or an environment file.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix('=');
    text.lines().find_map(value).unwrap_or_else(|| panic!("there is no `{key}`"))
}

#[test]
fn the_variables_of_several_gateways_are_settings() {
    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Settings,
    }
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, contents: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, contents).unwrap();
        path.display().to_string()
    };
    let environment = examples::FLEET_ENVIRONMENT
        .replace("/etc/tollgate/db-ca.pem", &file("ca", &tests::Certificate::of_process().pem))
        .replace("/etc/tollgate/db.password", &file("password", "secret"));
    let command = <Flags as clap::CommandFactory>::command();
    let variables = environment.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let flags = variables.map(|line| {
        let (name, value) = line.split_once('=').unwrap();
        let argument = command.get_arguments().find(|it| it.get_env() == Some(name.as_ref()));
        let argument = argument.unwrap_or_else(|| panic!("`{name}` is no setting"));
        format!("--{}={value}", argument.get_long().unwrap())
    });
    let flags = std::iter::once("gateway".to_owned()).chain(flags);
    let config = Flags::try_parse_from(flags).unwrap().settings.resolve().unwrap();
    assert!(matches!(config.store, gateway::config::StoreConfig::Postgres(_)));
    assert!(config.tls.is_some() && !config.listen.ip().is_loopback());
    let stop: u64 = value(examples::FLEET_SYSTEMD_UNIT, "TimeoutStopSec").parse().unwrap();
    assert!(stop > (config.drain_delay + config.drain).as_secs(), "requests are killed");
}
