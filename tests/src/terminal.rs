//! A pseudo-terminal with a binary in it, and somebody at its keyboard.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::thread::{JoinHandle, spawn};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::process::binary;

/// A terminal in which a binary runs. Its end hangs up on the binary.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
    reader: JoinHandle<()>,
    screen: vt100::Parser,
    master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    /// Starts a binary of the workspace in a terminal of that size, with `home` to itself and nothing
    /// of our environment but what `change` adds.
    ///
    /// # Panics
    /// There is no terminal to be had, or the binary does not start.
    pub fn start(
        name: &str,
        home: &Path,
        (rows, columns): (u16, u16),
        change: impl FnOnce(&mut CommandBuilder),
    ) -> Self {
        let pty = native_pty_system().openpty(size(rows, columns)).unwrap();
        let mut command = CommandBuilder::new(binary(name));
        command.env_clear();
        command.env("HOME", home);
        command.env("TERM", "xterm-256color");
        command.cwd(home);
        change(&mut command);
        let child = pty.slave.spawn_command(command).unwrap();
        let mut shown = pty.master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::unbounded_channel();
        let reader = spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error on Linux (EIO) and a zero elsewhere.
            while let Ok(length @ 1..) = shown.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keyboard = pty.master.take_writer().unwrap();
        let screen = vt100::Parser::new(lines(rows), lines(columns), 0);
        Self { child, keyboard, output, reader, screen, master: pty.master }
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// It cannot have that.
    pub fn resize(&mut self, (rows, columns): (u16, u16)) {
        self.screen.screen_mut().set_size(lines(rows), lines(columns));
        self.master.resize(size(rows, columns)).unwrap();
    }

    /// Sends the binary a signal, named as `kill` names it.
    ///
    /// # Panics
    /// It has ended.
    pub fn signal(&self, name: &str) {
        signal(name, &self.id());
    }

    /// The process id of the binary.
    ///
    /// # Panics
    /// It has ended.
    pub fn id(&self) -> String {
        self.child.process_id().unwrap().to_string()
    }

    /// Presses `keys`, one after the other.
    ///
    /// # Panics
    /// Nobody reads them any more.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Returns what the screen shows now.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Whether the binary has the screen to itself, and the user's is kept for later.
    pub fn is_taken(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Reads until the screen shows `text`.
    ///
    /// # Panics
    /// It does not.
    pub async fn shows(&mut self, text: &str) {
        self.is(&format!("`{text}`"), |screen| screen.contains(text)).await;
    }

    /// Reads until the screen no longer shows `text`.
    ///
    /// # Panics
    /// It does all the time.
    pub async fn hides(&mut self, text: &str) {
        self.is(&format!("no `{text}`"), |screen| !screen.contains(text)).await;
    }

    /// Reads until what the screen shows is as it should be.
    ///
    /// # Panics
    /// It never is.
    pub async fn is(&mut self, what: &str, expected: impl Fn(&str) -> bool) {
        self.comes_to(what, |screen| expected(&screen.contents())).await;
    }

    /// Reads until the binary has the screen to itself, or no longer.
    ///
    /// # Panics
    /// It never comes to that.
    pub async fn takes(&mut self, taken: bool) {
        self.comes_to("the screen to change hands", |it| it.alternate_screen() == taken).await;
    }

    async fn comes_to(&mut self, what: &str, expected: impl Fn(&vt100::Screen) -> bool) {
        let reading = async {
            while !expected(self.screen.screen()) {
                let Some(bytes) = self.output.recv().await else { return false };
                self.screen.process(&bytes);
            }
            true
        };
        let came = timeout(PATIENCE, reading).await;
        assert_eq!(came, Ok(true), "waiting for {what}, the screen is\n{}", self.text());
    }

    /// Waits until the binary has ended, and returns its exit status.
    ///
    /// # Panics
    /// It does not end, or does not leave the screen as it was.
    pub async fn end(mut self) -> u32 {
        let reading = async {
            while let Some(bytes) = self.output.recv().await {
                self.screen.process(&bytes);
            }
        };
        let ended = timeout(PATIENCE, reading).await;
        assert_eq!(ended, Ok(()), "it does not end:\n{}", self.text());
        assert_eq!(self.text(), "", "something was left on the user's screen");
        assert!(!self.is_taken(), "the user's screen did not come back");
        assert!(!self.screen.screen().hide_cursor(), "the cursor is hidden");
        self.child.wait().unwrap().exit_code()
    }

    /// Closes the terminal under the binary, as a window is closed or a connection breaks, and returns
    /// its exit status once it has ended by itself.
    ///
    /// # Panics
    /// It has not, or it took a signal to end it.
    pub async fn hang_up(mut self) -> u32 {
        let id = self.id();
        // The reader has the terminal open, too. What is drawn at the new size finds nobody who wants
        // it, and that is the reader's end.
        drop(self.output);
        self.master.resize(size(30, 90)).unwrap();
        let ending = spawn_blocking(move || {
            self.reader.join().unwrap();
            drop((self.keyboard, self.master));
            self.child.wait().unwrap()
        });
        let Ok(ended) = timeout(PATIENCE, ending).await else {
            signal("KILL", &id);
            panic!("it goes on without a terminal");
        };
        let status = ended.unwrap();
        assert_eq!(status.signal(), None, "it did not end by itself");
        status.exit_code()
    }
}

fn signal(name: &str, process: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), process]).status();
    assert!(kill.unwrap().success());
}

fn lines(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}
