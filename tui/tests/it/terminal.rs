//! The real binary in a pseudo-terminal.

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::fake::{Disk, Gateway, PASSWORD, SECRET, TOKEN};

/// How long a test waits for the screen to change before it gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal in which `tui` runs.
struct Session {
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

impl Session {
    fn start(server: &str, token: Option<&str>) -> Self {
        let pty = native_pty_system().openpty(size(24, 80)).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_tui"));
        command.args(["--server", server]);
        for name in ["TOLLGATE_SERVER", "TOLLGATE_TOKEN", "TOLLGATE_TOKEN_FILE"] {
            command.env_remove(name);
        }
        // Nobody's profile and nobody's operator token.
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env(name, concat!(env!("CARGO_TARGET_TMPDIR"), "/nobody"));
        }
        if let Some(token) = token {
            command.env("TOLLGATE_TOKEN", token);
        }
        command.env_remove("NO_COLOR");
        command.env_remove("COLORTERM");
        command.env("TERM", "xterm-256color");
        command.cwd(env!("CARGO_TARGET_TMPDIR"));
        let child = pty.slave.spawn_command(command).unwrap();
        let mut reader = pty.master.try_clone_reader().unwrap();
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error on Linux (EIO) and a zero elsewhere.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keyboard = pty.master.take_writer().unwrap();
        let screen = vt100::Parser::new(lines(24), lines(80), 0);
        Self { child, master: pty.master, keyboard, output, screen }
    }

    /// Reads until the screen shows `text`.
    fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| screen.contents().contains(text));
    }

    /// Reads until the screen is as it should be.
    fn wait_until(&mut self, what: &str, is_so: impl Fn(&vt100::Screen) -> bool) {
        while !is_so(self.screen.screen()) {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(error) => panic!(
                    "waiting for `{what}`: {error}; the screen is\n{}",
                    self.screen.screen().contents()
                ),
            }
        }
    }

    fn write(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.screen_mut().set_size(lines(rows), lines(columns));
        self.master.resize(size(rows, columns)).unwrap();
    }

    /// Reads to the end, checks that the terminal is as it was, and returns the exit status.
    fn end(mut self) -> u32 {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.screen.process(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "still on the alternate screen");
        assert!(!screen.hide_cursor(), "the cursor is hidden");
        assert_eq!(screen.contents(), "", "something was left on the user's screen");
        self.child.wait().unwrap().exit_code()
    }
}

fn signal(name: &str, process: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), process]).status();
    assert!(kill.unwrap().success());
}

fn is_stopped(process: &str) -> bool {
    let state = Command::new("ps").args(["-o", "state=", "-p", process]).output().unwrap().stdout;
    state.starts_with(b"T")
}

fn lines(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

#[test]
fn shows_the_overview_resizes_and_leaves_the_terminal_as_it_was() {
    let disk = Disk::new();
    disk.record("gpt-history");
    let gateway = Gateway::start(&disk);
    let mut session = Session::start(&gateway.url(), Some(TOKEN));
    session.wait_for("gpt-history");
    session.wait_for("● live");
    session.wait_for("$4.999900");
    assert!(session.screen.screen().alternate_screen());
    disk.record("gpt-news");
    session.wait_for("gpt-news");

    session.resize(40, 120);
    session.write("2");
    session.wait_for("no keys yet");
    session.wait_for(&format!("{}╮╭ Detail", "─".repeat(20)));
    session.write("?");
    session.wait_for("Esc close");
    session.write("q");
    assert_eq!(session.end(), 0);
}

#[test]
fn makes_a_key_shows_it_once_and_copies_it() {
    let gateway = Gateway::start(&Disk::new());
    let mut session = Session::start(&gateway.url(), Some(TOKEN));
    session.wait_for("$4.999900");
    session.write("2");
    session.wait_for("no keys yet");
    session.write("nlaptop\r");
    session.wait_for("will not come back");
    session.wait_for(SECRET);
    session.write("y");
    session.wait_for("sent to the terminal's clipboard");
    session.write("\u{1b}");
    session.wait_for("is gone from here");
    session.wait_for("Keys · 1");
    assert!(!session.screen.screen().contents().contains(SECRET));
    session.write("q");
    assert_eq!(session.end(), 0);
}

#[test]
fn registers_at_the_keyboard() {
    let gateway = Gateway::start(&Disk::new());
    let mut session = Session::start(&gateway.url(), None);
    session.wait_for("Ctrl-N makes one");
    session.write("\u{e}eve\tlong enough\tlong enough\r");
    session.wait_for("$4.999900");
    session.write("q");
    assert_eq!(session.end(), 0);
}

#[test]
fn a_thousand_rows_at_once_are_shown_and_leave_the_keyboard_alone() {
    let disk = Disk::new();
    let gateway = Gateway::start(&disk);
    let mut session = Session::start(&gateway.url(), Some(TOKEN));
    session.wait_for("$4.999900");
    session.write("4");
    session.wait_for("Requests · following");
    for batch in 0..20 {
        disk.record_all((0..500).map(|row| format!("row-{batch}-{row}")));
    }
    session.wait_for("row-19-499");
    session.write("p");
    session.wait_for("paused, 0 new");
    disk.record_all((0..500).map(|row| format!("late-{row}")));
    session.wait_for("paused, 500 new");
    session.write("p");
    session.wait_for("late-499");
    assert!(!session.screen.screen().contents().contains("skipped"));
    session.write("q");
    assert_eq!(session.end(), 0);
}

#[test]
fn suspended_it_gives_the_terminal_back_and_continued_it_takes_it_again() {
    let gateway = Gateway::start(&Disk::new());
    let mut session = Session::start(&gateway.url(), Some(TOKEN));
    session.wait_for("$4.999900");
    session.write("\u{1a}");
    session.wait_until("the user's screen", |screen| !screen.alternate_screen());
    let process = session.child.process_id().unwrap().to_string();
    assert!((0..5_000).any(|_| is_stopped(&process)), "it gave the terminal back and went on");
    signal("CONT", &process);
    session.wait_until("the dashboard", vt100::Screen::alternate_screen);
    session.wait_for("$4.999900");
    session.write("2");
    session.wait_for("no keys yet");
    session.write("q");
    assert_eq!(session.end(), 0);
}

#[test]
fn signs_in_at_the_keyboard() {
    let gateway = Gateway::start(&Disk::new());
    let mut session = Session::start(&gateway.url(), None);
    session.wait_for("password");
    session.write("ada\tnonsense\r");
    session.wait_for("wrong name or password");
    session.write(&format!("{PASSWORD}\r"));
    session.wait_for("$4.999900");
    session.write("\u{3}");
    assert_eq!(session.end(), 0);
}

#[test]
fn a_stopped_gateway_is_said_and_sigterm_restores_the_terminal() {
    let gateway = Gateway::start(&Disk::new());
    let mut session = Session::start(&gateway.url(), Some(TOKEN));
    session.wait_for("● live");
    gateway.stop();
    session.wait_for("reconnecting…");
    session.wait_for("$4.999900");
    let process = session.child.process_id().unwrap().to_string();
    signal("TERM", &process);
    assert_eq!(session.end(), 128 + 15);
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
