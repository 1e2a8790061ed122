//! Snapshots of the real binary, without a terminal.

use std::process::{Command, Output};

use proto::v1::Role;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::fake::{Backend, Gateway, TOKEN};

/// Runs `tui` with an empty home directory.
async fn tui(server: String, token: Option<&'static str>, arguments: &'static [&str]) -> Output {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    tui_at(home, server, token, arguments).await
}

/// Runs `tui` with this home directory.
async fn tui_at(
    home: TempDir,
    server: String,
    token: Option<&'static str>,
    arguments: &'static [&str],
) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tui"));
    command.env_clear().env("HOME", home.path()).env("TZ", "UTC");
    command.args(["--server", &server]).args(arguments);
    if let Some(token) = token {
        command.env("TOLLGATE_TOKEN", token);
    }
    spawn_blocking(move || {
        let output = command.output().unwrap();
        drop(home);
        output
    })
    .await
    .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_snapshot_has_all_data_of_its_screen() {
    let backend = Backend::of(Role::Operator);
    backend.record("gpt-history");
    let gateway = Gateway::start(&backend);
    let output = tui(gateway.url(), Some(TOKEN), &["--snapshot", "--size", "100x30"]).await;
    let screen = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(screen.lines().count(), 30);
    for part in ["$4.999900 ││", "12 of 60", "gpt-history"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    let arguments = ["--snapshot", "usage", "--filter", "model:gpt-none", "--read-only"];
    let output = tui(gateway.url(), Some(TOKEN), Box::leak(Box::new(arguments))).await;
    let screen = text(&output.stdout);
    for part in ["read-only", "no request passes the filter", "/model:gpt-none"] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    let output = tui(gateway.url(), Some(TOKEN), &["--snapshot", "keys", "--format", "svg"]).await;
    let picture = text(&output.stdout);
    assert!(picture.starts_with("<svg ") && picture.contains(">keys</text>"), "{picture}");
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_made_says_why() {
    let gateway = Gateway::start(&Backend::new());
    for (token, arguments, problem) in [
        (None, &["--snapshot"][..], "not signed in: run `ctl login NAME`"),
        (Some("wrong"), &["--snapshot"], "the token is not valid"),
        (Some(TOKEN), &["--snapshot", "accounts"], "`accounts` is for operators"),
        (Some(TOKEN), &["--snapshot", "--size", "40x10"], "columns from 60 and rows from 16"),
        (Some(TOKEN), &["--format", "svg"], "--snapshot"),
        (Some(TOKEN), &["--snapshot", "--filter", "x"], "`overview` has no list to filter"),
    ] {
        let output = tui(gateway.url(), token, arguments).await;
        assert!(!output.status.success() && output.stdout.is_empty());
        assert!(text(&output.stderr).contains(problem), "{}", text(&output.stderr));
    }
    for token in [Some(TOKEN), None] {
        let nowhere = "http://127.0.0.1:1".to_owned();
        let output = tui(nowhere, token, &["--snapshot"]).await;
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains("no gateway at"), "{}", text(&output.stderr));
    }
}

#[tokio::test]
async fn a_broken_theme_file_is_reported_and_only_stops_who_chooses_it() {
    let gateway = Gateway::start(&Backend::new());
    for (arguments, is_drawn) in
        [(&["--snapshot"][..], true), (&["--snapshot", "--theme", "mine"], false)]
    {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let themes = home.path().join(".config/tollgate/themes");
        std::fs::create_dir_all(&themes).unwrap();
        std::fs::write(themes.join("mine.toml"), "accent = 3").unwrap();
        let output = tui_at(home, gateway.url(), Some(TOKEN), arguments).await;
        assert_eq!(output.status.success(), is_drawn, "{arguments:?}");
        let problem = text(&output.stderr);
        assert!(problem.contains("theme `mine`: `accent` is no colour"), "{problem}");
    }
}
