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
async fn the_command_line_in_the_systemd_unit_is_valid() {
    let unit = examples::SYSTEMD_UNIT;
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let mut arguments: Vec<_> = start.split_whitespace().skip(1).collect();
    let data = tempfile::tempdir().unwrap();
    let index = arguments.iter().position(|argument| *argument == "--data-dir").unwrap() + 1;
    let dir = data.path().display().to_string();
    arguments[index] = &dir;
    // with --help the command line is parsed and nothing is started
    let help = tests::process::command("gateway").args(arguments).arg("--help").output().await;
    assert!(help.unwrap().status.success());
}
