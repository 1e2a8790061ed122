//! A binary in a pseudo-terminal.

use std::io::{Read, Write};
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::thread::{JoinHandle, spawn};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::TEST_TIMEOUT;
use crate::process::binary;

/// A pseudo-terminal that runs a binary. Dropping it hangs up.
pub struct Terminal {
    child: Box<dyn Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    output: mpsc::UnboundedReceiver<Vec<u8>>,
    reader: JoinHandle<()>,
    screen: vt100::Parser,
    master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    /// Starts a binary of the workspace in a terminal of this size. Its home directory is `home`;
    /// its environment contains only what `change` adds.
    ///
    /// # Panics
    /// If no terminal can be opened or the binary does not start.
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
            // EIO marks the end on Linux, a read of zero bytes elsewhere.
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

    /// Resizes the terminal.
    ///
    /// # Panics
    /// If the size cannot be set.
    pub fn resize(&mut self, (rows, columns): (u16, u16)) {
        self.screen.screen_mut().set_size(lines(rows), lines(columns));
        self.master.resize(size(rows, columns)).unwrap();
    }

    /// Sends a signal to the binary. `name` is a signal name as for `kill`.
    ///
    /// # Panics
    /// If the binary has exited.
    pub fn signal(&self, name: &str) {
        signal(name, &self.id());
    }

    /// Returns the process id of the binary.
    ///
    /// # Panics
    /// If the binary has exited.
    pub fn id(&self) -> String {
        self.child.process_id().unwrap().to_string()
    }

    /// Types `keys`.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Returns the text on the screen.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Returns whether the binary uses the alternate screen.
    pub fn is_alternate_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// Waits until the screen shows `text`.
    ///
    /// # Panics
    /// If it does not.
    pub async fn wait_for_text(&mut self, text: &str) {
        self.wait_until(&format!("`{text}`"), |screen| screen.contains(text)).await;
    }

    /// Waits until the screen no longer shows `text`.
    ///
    /// # Panics
    /// If it still does.
    pub async fn wait_until_hidden(&mut self, text: &str) {
        self.wait_until(&format!("no `{text}`"), |screen| !screen.contains(text)).await;
    }

    /// Waits until the screen text satisfies `expected`.
    ///
    /// # Panics
    /// If it does not.
    pub async fn wait_until(&mut self, what: &str, expected: impl Fn(&str) -> bool) {
        self.wait_for_screen(what, |screen| expected(&screen.contents())).await;
    }

    /// Waits until the binary has entered or left the alternate screen.
    ///
    /// # Panics
    /// If it does not.
    pub async fn wait_for_alternate_screen(&mut self, active: bool) {
        self.wait_for_screen("the alternate screen to change", |it| {
            it.alternate_screen() == active
        })
        .await;
    }

    async fn wait_for_screen(&mut self, what: &str, expected: impl Fn(&vt100::Screen) -> bool) {
        let reading = async {
            while !expected(self.screen.screen()) {
                let Some(bytes) = self.output.recv().await else { return false };
                self.screen.process(&bytes);
            }
            true
        };
        let came = timeout(TEST_TIMEOUT, reading).await;
        assert_eq!(came, Ok(true), "waiting for {what}, the screen is\n{}", self.text());
    }

    /// Waits until the binary has exited, and returns its exit status.
    ///
    /// # Panics
    /// If it does not exit, or does not restore the screen.
    pub async fn wait_for_exit(mut self) -> u32 {
        let reading = async {
            while let Some(bytes) = self.output.recv().await {
                self.screen.process(&bytes);
            }
        };
        let ended = timeout(TEST_TIMEOUT, reading).await;
        assert_eq!(ended, Ok(()), "the binary does not exit:\n{}", self.text());
        assert_eq!(self.text(), "", "the user's screen is not restored");
        assert!(!self.is_alternate_screen(), "the alternate screen is still active");
        assert!(!self.screen.screen().hide_cursor(), "the cursor is hidden");
        self.child.wait().unwrap().exit_code()
    }

    /// Closes the terminal, as a closed window or a broken connection does, and returns the exit
    /// status of the binary.
    ///
    /// # Panics
    /// If the binary does not exit, or a signal terminates it.
    pub async fn hang_up(mut self) -> u32 {
        let id = self.id();
        // The reader holds the terminal open, too. The output for the new size is not received,
        // which ends the reader.
        drop(self.output);
        self.master.resize(size(30, 90)).unwrap();
        let ending = spawn_blocking(move || {
            self.reader.join().unwrap();
            drop((self.keyboard, self.master));
            self.child.wait().unwrap()
        });
        let Ok(ended) = timeout(TEST_TIMEOUT, ending).await else {
            signal("KILL", &id);
            panic!("it keeps running without a terminal");
        };
        let status = ended.unwrap();
        assert_eq!(status.signal(), None, "a signal ended it");
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
