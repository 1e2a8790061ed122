//! The command line of the real binary: what it offers, and what it says when it is used wrongly.
//!
//! Cargo names the binary to the tests of this package only; that this file exists also makes
//! `cargo test --workspace` build it for those that look for it.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::process::{Command, Output};

fn gateway(arguments: &[&str]) -> Output {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_gateway"));
    gateway.args(arguments).env_clear().output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_names_every_command_and_setting() {
    let help = gateway(&["--help"]);
    assert!(help.status.success());
    let help = text(&help.stdout);
    for word in [
        "serve",
        "demo",
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
fn a_wrong_flag_is_usage() {
    let output = gateway(&["serve", "--lisen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--listen"), "it suggests the right one");
}

#[test]
fn a_wrong_key_in_the_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gateway.toml");
    std::fs::write(&path, "\nlistn = \"127.0.0.1:0\"\n").unwrap();
    let output = gateway(&["serve", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("line 2") && said.contains("listn"), "{said}");
}

#[test]
fn a_taken_address_is_named_with_its_flag() {
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_gateway"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let output =
        gateway.args(["--listen", &address, "--data-dir"]).arg(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("--listen"),
        "it says which flag chooses another address"
    );
}

#[test]
fn the_manual_has_a_page_for_every_command_and_names_every_variable() {
    let dir = tempfile::tempdir().unwrap();
    let output = gateway(&["man", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(dir.path().join("gateway.1")).unwrap();
    assert_eq!(page, text(&gateway(&["man"]).stdout));
    for name in ["gateway-serve.1", "gateway-demo.1", "gateway-simulator.1"] {
        assert!(dir.path().join(name).is_file(), "{name}");
    }
    for word in
        [r"\-\-log", "TOLLGATE_LOG", r"\-\-config", "TOLLGATE_CONFIG", "TOLLGATE_PUBLIC_URL"]
    {
        assert!(page.contains(word), "{word} is not in {page}");
    }
}

#[test]
fn an_address_that_is_a_name_is_refused_with_what_to_write() {
    let output = gateway(&["--listen", "gate.example:8080"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("several addresses") && said.contains("127.0.0.1:8080"), "{said}");
}

#[test]
fn a_body_limit_of_nought_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let output = gateway(&["--max-body-bytes", "0", "--data-dir", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("`max_body_bytes` is 0"), "{}", text(&output.stderr));
}
