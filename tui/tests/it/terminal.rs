//! Tests of the real binary in a pseudo-terminal.

use tests::Terminal;
use tokio::task::spawn_blocking;

use std::process::Command;

use crate::fake::{Backend, Gateway, PASSWORD, SECRET, TOKEN};

/// The smallest supported size in these tests, as rows and columns.
const SMALL: (u16, u16) = (24, 80);

/// Starts `tui` in a terminal, without a profile or an operator token.
fn open(server: &str, token: Option<&str>) -> Terminal {
    open_as(server, token, true)
}

/// Like [`open`]; `own` makes the terminal the controlling one. Only a controlling terminal sends
/// `SIGHUP` on a hang-up.
fn open_as(server: &str, token: Option<&str>, own: bool) -> Terminal {
    // Sessions are kept in it, and ports are used again.
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap().keep();
    Terminal::start("tui", &home, SMALL, |command| {
        command.args(["--server", server]);
        if let Some(token) = token {
            command.env("TOLLGATE_TOKEN", token);
        }
        command.set_controlling_tty(own);
    })
}

fn is_stopped(process: &str) -> bool {
    let state = Command::new("ps").args(["-o", "state=", "-p", process]).output().unwrap().stdout;
    state.starts_with(b"T")
}

#[tokio::test]
async fn shows_the_overview_resizes_and_restores_the_terminal() {
    let backend = Backend::new();
    backend.record("gpt-history");
    let gateway = Gateway::start(&backend);
    let mut screen = open(&gateway.url(), Some(TOKEN));
    screen.wait_for_text("gpt-history").await;
    screen.wait_for_text("● live").await;
    screen.wait_for_text("$4.999900").await;
    assert!(screen.is_alternate_screen());
    backend.record("gpt-news");
    screen.wait_for_text("gpt-news").await;

    screen.resize((40, 120));
    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.wait_for_text(&format!("{}╮", "─".repeat(100))).await;
    screen.press("\r");
    screen.wait_for_text("there is no row in `keys` yet").await;
    screen.press("?");
    screen.wait_for_text("Esc close").await;
    screen.press("q");
    screen.wait_for_text("? help").await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn creates_a_key_shows_it_once_and_copies_it() {
    let gateway = Gateway::start(&Backend::new());
    let mut screen = open(&gateway.url(), Some(TOKEN));
    screen.wait_for_text("$4.999900").await;
    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.press("nlaptop\r");
    screen.wait_for_text("will not come back").await;
    screen.wait_for_text(SECRET).await;
    screen.press("y");
    screen.wait_for_text("sent to the terminal's clipboard").await;
    screen.press("\u{1b}");
    screen.wait_for_text("is gone from here").await;
    screen.wait_for_text("Keys · 1").await;
    assert!(!screen.text().contains(SECRET));
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn registers_by_keyboard() {
    let gateway = Gateway::start(&Backend::new());
    let mut screen = open(&gateway.url(), None);
    screen.wait_for_text("Ctrl-N makes one").await;
    screen.press("\u{e}eve\tlong enough\tlong enough\r");
    screen.wait_for_text("$4.999900").await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn stays_responsive_while_thousands_of_records_arrive() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let mut screen = open(&gateway.url(), Some(TOKEN));
    screen.wait_for_text("$4.999900").await;
    screen.press("4");
    screen.wait_for_text("Requests by end · following").await;
    for batch in 0..20 {
        backend.record_all((0..500).map(|row| format!("row-{batch}-{row}")));
    }
    screen.wait_for_text("row-19-499").await;
    screen.press("p");
    screen.wait_for_text("paused, 0 new").await;
    backend.record_all((0..500).map(|row| format!("late-{row}")));
    screen.wait_for_text("paused, 500 new").await;
    screen.press("p");
    screen.wait_for_text("late-499").await;
    assert!(!screen.text().contains("skipped"));
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn releases_the_terminal_on_suspend_and_reacquires_it_on_continue() {
    let gateway = Gateway::start(&Backend::new());
    let mut screen = open(&gateway.url(), Some(TOKEN));
    screen.wait_for_text("$4.999900").await;
    screen.press("\u{1a}");
    screen.wait_for_alternate_screen(false).await;
    let process = screen.id();
    assert!((0..5_000).any(|_| is_stopped(&process)), "it gave the terminal back and went on");
    screen.signal("CONT");
    screen.wait_for_alternate_screen(true).await;
    screen.wait_for_text("$4.999900").await;
    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn signs_in_by_keyboard() {
    let gateway = Gateway::start(&Backend::new());
    let mut screen = open(&gateway.url(), None);
    screen.wait_for_text("password").await;
    screen.press("ada\tnonsense\r");
    screen.wait_for_text("wrong name or password").await;
    screen.press(&format!("{PASSWORD}\r"));
    screen.wait_for_text("$4.999900").await;
    screen.press("\u{3}");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn shows_a_lost_connection_and_sigterm_restores_the_terminal() {
    let gateway = Gateway::start(&Backend::new());
    let mut screen = open(&gateway.url(), Some(TOKEN));
    screen.wait_for_text("● live").await;
    spawn_blocking(|| gateway.stop()).await.unwrap();
    screen.wait_for_text("reconnecting…").await;
    screen.wait_for_text("$4.999900").await;
    screen.signal("TERM");
    assert_eq!(screen.wait_for_exit().await, 128 + 15);
}

#[tokio::test]
async fn exits_on_a_hang_up_with_or_without_a_signal() {
    let gateway = Gateway::start(&Backend::new());
    for own in [true, false] {
        let mut screen = open_as(&gateway.url(), Some(TOKEN), own);
        screen.wait_for_text("$4.999900").await;
        let code = screen.hang_up().await;
        // A hang-up during a draw surfaces as an I/O error.
        assert!([1, 128 + 1].contains(&code), "{code}, the process' own: {own}");
    }
}

#[tokio::test]
async fn damaged_settings_are_reported_and_stay() {
    let gateway = Gateway::start(&Backend::new());
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let settings = home.path().join(".config/tollgate/tui.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "{\"theme\":").unwrap();
    let mut screen = Terminal::start("tui", home.path(), SMALL, |command| {
        command.args(["--server", &gateway.url(), "--mouse"]);
        command.env("TOLLGATE_TOKEN", TOKEN);
    });
    screen.wait_for_text("the settings file tui.json").await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), "{\"theme\":");
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_tui")).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}

#[test]
fn help_of_the_command_line() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tui")).env_clear().arg("--help").output().unwrap();
    assert!(output.status.success());
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_manual_page_lists_the_options() {
    let output = Command::new(env!("CARGO_BIN_EXE_tui")).arg("--man").env_clear().output().unwrap();
    assert!(output.status.success());
    let page = String::from_utf8(output.stdout).unwrap();
    for word in [".SH SYNOPSIS", r"\-\-base\-url", "TOLLGATE_SERVER"] {
        assert!(page.contains(word), "{word} is not in {page}");
    }
}

#[test]
fn bash_completes_options_with_the_printed_script() {
    let complete = "source <(\"$0\" --completions bash); COMP_WORDS=(tui --mo) COMP_CWORD=1; \
                    _tui tui --mo tui; echo \"${COMPREPLY[@]}\"";
    let tui = env!("CARGO_BIN_EXE_tui");
    let output = Command::new("bash").args(["-c", complete, tui]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--mouse\n");
}
