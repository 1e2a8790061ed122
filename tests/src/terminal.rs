//! A pseudo-terminal with a binary in it, and somebody at its keyboard.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::PATIENCE;
use crate::process::binary;

/// A terminal in which a binary runs. Its end hangs up on the binary.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
    screen: vt100::Parser,
    _master: Box<dyn MasterPty + Send>,
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
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(binary(name));
        command.env_clear();
        command.env("HOME", home);
        command.env("TERM", "xterm-256color");
        command.cwd(home);
        change(&mut command);
        let child = pty.slave.spawn_command(command).unwrap();
        let mut reader = pty.master.try_clone_reader().unwrap();
        let (sender, output) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // The end is an error on Linux (EIO) and a zero elsewhere.
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    break;
                }
            }
        });
        let keyboard = pty.master.take_writer().unwrap();
        let lines = |count| NonZero::new(count).unwrap();
        let screen = vt100::Parser::new(lines(rows), lines(columns), 0);
        Self { child, keyboard, output, screen, _master: pty.master }
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
        let reading = async {
            while !expected(&self.screen.screen().contents()) {
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
    /// It does not end, or leaves something on the screen.
    pub async fn end(mut self) -> u32 {
        let reading = async {
            while let Some(bytes) = self.output.recv().await {
                self.screen.process(&bytes);
            }
        };
        let ended = timeout(PATIENCE, reading).await;
        assert_eq!(ended, Ok(()), "it does not end:\n{}", self.text());
        assert_eq!(self.text(), "", "something was left on the user's screen");
        self.child.wait().unwrap().exit_code()
    }
}
