//! Tests of the `gateway` binary's command line: help, man pages and usage errors.
//!
//! Cargo sets `CARGO_BIN_EXE_gateway` only for the tests of this package. This file also makes
//! `cargo test --workspace` build the binary, which tests of other packages run.
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::process::{Command, Output};

fn gateway(arguments: &[&str]) -> Output {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_gateway"));
    gateway.args(arguments).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_lists_commands_and_settings() {
    let help = gateway(&["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for word in [
        "serve",
        "demo",
        "migrate",
        "simulator",
        "--config",
        "--data-dir",
        "--listen",
        "--admin-listen",
        "--registration",
        "--registrations-per-hour",
        "--trial-daily-usd",
        "--no-simulator",
        "--max-body-bytes",
        "--drain-seconds",
        "TOLLGATE_LISTEN",
        "TOLLGATE_CONFIG",
        "--log",
    ] {
        assert!(help.contains(word), "{word} is not in:\n{help}");
    }
}

#[test]
fn migrate_has_a_help_text() {
    let help = gateway(&["migrate", "--help"]);
    assert!(help.status.success());
    insta::assert_snapshot!(text(&help.stdout));
}

#[test]
fn migrate_needs_a_database_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let migrate = |to: &str| {
        let dir = dir.path().to_str().unwrap();
        let output = gateway(&["migrate", "--data-dir", dir, "--to", to]);
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let wrong = migrate("mysql://tg:hunter2@h/db");
    assert!(
        wrong.contains("postgres://user@host/database") && !wrong.contains("hunter2"),
        "{wrong}"
    );
    assert!(migrate("sqlite").contains("--to must be a URL like"), "{wrong}");
    let nothing = migrate("postgres://tg@127.0.0.1:1/db");
    assert!(
        nothing.contains("there is no database") && nothing.contains("tollgate.db"),
        "{nothing}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is created");
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    let output = gateway(&["serve", "--lisen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--listen"), "it suggests a similar flag");
}

#[test]
fn an_unknown_key_in_the_file_is_reported_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.toml");
    std::fs::write(&path, "\nlistn = \"127.0.0.1:0\"\n").unwrap();
    let output = gateway(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("line 2") && stderr.contains("listn"), "{stderr}");
}

#[test]
fn an_address_in_use_is_reported_with_its_flag() {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let output =
        gateway.args(["--listen", &address, "--data-dir"]).arg(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--listen"), "the error names the flag");
}

#[test]
fn man_writes_a_page_per_command_with_flags_and_variables() {
    let dir = tempfile::tempdir().unwrap();
    let output = gateway(&["man", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(dir.path().join("gateway.1")).unwrap();
    assert_eq!(page, text(&gateway(&["man"]).stdout));
    for name in ["gateway-serve.1", "gateway-demo.1", "gateway-migrate.1", "gateway-simulator.1"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    for word in
        [r"\-\-log", "TOLLGATE_LOG", r"\-\-config", "TOLLGATE_CONFIG", "TOLLGATE_PUBLIC_URL"]
    {
        assert!(page.contains(word), "{word} is not in {page}");
    }
}

#[test]
fn bash_completes_commands_with_the_printed_script() {
    let complete = "source <(\"$0\" completions bash); COMP_WORDS=(gateway ser) COMP_CWORD=1; \
                    _gateway gateway ser gateway; echo \"${COMPREPLY[@]}\"";
    let gateway = env!("CARGO_BIN_EXE_gateway");
    let output = Command::new("bash").args(["-c", complete, gateway]).output().unwrap();
    assert_eq!(text(&output.stdout), "serve\n", "{}", text(&output.stderr));
}

#[test]
fn refuses_a_host_name_as_listen_address() {
    let output = gateway(&["--listen", "gate.example:8080"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("several addresses") && stderr.contains("127.0.0.1:8080"), "{stderr}");
}

#[test]
fn refuses_a_body_limit_of_zero() {
    let dir = tempfile::tempdir().unwrap();
    let output = gateway(&["--max-body-bytes", "0", "--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`max_body_bytes` is 0"), "{}", text(&output.stderr));
}
