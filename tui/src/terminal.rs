//! Acquires, releases and suspends the terminal. No other file writes to it.
//!
//! The user's screen is restored whatever ends the program (a key, a signal, an error or a panic):
//! by dropping [`Terminal`], or by ratatui's panic hook before it prints. Terminal events come from
//! [`events`]; [`pacing`] says when to draw.

pub mod events;
pub mod pacing;

use anyhow::{Context, Result, bail};
use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::Hide;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use ratatui::backend::CrosstermBackend;
use secrecy::{ExposeSecret, SecretString};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write, stdout};
use std::mem::ManuallyDrop;
use std::rc::Rc;

use crate::model::Model;
use crate::view;

/// The size of the buffer of a frame.
const FRAME_BUFFER_BYTES: usize = 32 << 10;

/// The terminal in raw mode on the alternate screen.
#[derive(Debug)]
pub struct Terminal {
    /// Not dropped: ratatui's `Drop` shows the cursor (ours has already done that) and panics if it
    /// can neither do that nor print an error. When the terminal is gone, so is standard error,
    /// most often.
    screen: ManuallyDrop<Screen>,
    /// The number of bytes of the frame that is drawn.
    written: Rc<Cell<usize>>,
    mouse: bool,
}

/// Ratatui's terminal. The buffer holds most frames as a whole.
type Screen = ratatui::Terminal<CrosstermBackend<BufWriter<CountedOutput>>>;

/// Standard output, which counts what it takes.
#[derive(Debug)]
struct CountedOutput {
    stdout: Stdout,
    written: Rc<Cell<usize>>,
}

// === impl CountedOutput ===

impl Write for CountedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.stdout.write(bytes)?;
        self.written.set(self.written.get() + count);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// Returns a screen that knows of no cell, so that the next draw writes all.
fn screen(written: &Rc<Cell<usize>>) -> io::Result<Screen> {
    let output = CountedOutput { stdout: stdout(), written: Rc::clone(written) };
    let output = BufWriter::with_capacity(FRAME_BUFFER_BYTES, output);
    ratatui::Terminal::new(CrosstermBackend::new(output))
}

// === impl Terminal ===

impl Terminal {
    /// Enters raw mode and the alternate screen.
    ///
    /// # Errors
    /// Returns an error if standard output is not a terminal or cannot be configured.
    pub fn acquire() -> Result<Self> {
        if !stdout().is_terminal() {
            bail!("standard output is not a terminal: run `tui` in one, or use `ctl` in scripts");
        }
        let written = Rc::default();
        // Ratatui's own screen has no counted output; it has drawn nothing yet.
        let screen = ratatui::try_init()
            .and_then(|_| screen(&written))
            .inspect_err(|_| ratatui::restore())
            .context("setting up the terminal")?;
        let terminal = Self { screen: ManuallyDrop::new(screen), written, mouse: false };
        terminal.enable_input()?;
        Ok(terminal)
    }

    /// Returns the terminal size as columns and rows.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = self.screen.size().context("asking for the terminal's size")?;
        Ok((size.width, size.height))
    }

    /// Draws the cells that changed since the last call, and returns the number of bytes that this
    /// took. Waits until the terminal has accepted them.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn draw(&mut self, model: &Model) -> Result<usize> {
        self.screen
            .draw(|frame| {
                let area = frame.area();
                view::render(model, frame.buffer_mut(), area);
            })
            .context("drawing")?;
        Ok(self.written.take())
    }

    /// Clears the screen and the diff buffer, so that the next draw writes every cell.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn clear(&mut self) -> Result<()> {
        // Ratatui's own `clear` queries the cursor position, and keys typed meanwhile interfere
        // with the response.
        execute!(stdout(), Clear(ClearType::All)).context("clearing the screen")?;
        *self.screen = screen(&self.written).context("setting up the terminal")?;
        Ok(())
    }

    /// Copies `text` to the terminal's clipboard with OSC 52, which also works over ssh.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn copy(&mut self, text: &SecretString) -> Result<()> {
        execute!(stdout(), CopyToClipboard::to_clipboard_from(text.expose_secret()))
            .context("copying")
    }

    /// Enables or disables mouse reporting.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn set_mouse(&mut self, enabled: bool) -> Result<()> {
        self.mouse = enabled;
        if enabled {
            execute!(stdout(), EnableMouseCapture).context("enabling the mouse")
        } else {
            execute!(stdout(), DisableMouseCapture).context("disabling the mouse")
        }
    }

    /// Releases the terminal, stops the process with `SIGTSTP`, and acquires the terminal again on
    /// `SIGCONT`.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn suspend(&mut self) -> Result<()> {
        self.release();
        emulate_default_handler(SIGTSTP).context("stopping")?;
        self.reacquire()
    }

    /// Sets the terminal up again, for example after the shell has used it.
    ///
    /// # Errors
    /// Returns an error if the terminal is gone.
    pub fn reacquire(&mut self) -> Result<()> {
        enable_raw_mode().context("setting up the terminal")?;
        execute!(stdout(), EnterAlternateScreen, Hide).context("setting up the terminal")?;
        self.enable_input()?;
        self.clear()
    }

    fn enable_input(&self) -> Result<()> {
        execute!(stdout(), EnableBracketedPaste).context("setting up the terminal")?;
        if self.mouse {
            execute!(stdout(), EnableMouseCapture).context("enabling the mouse")?;
        }
        Ok(())
    }

    fn release(&mut self) {
        // Errors are ignored: if the terminal is gone, there is nothing to restore.
        let _ = execute!(stdout(), DisableMouseCapture, DisableBracketedPaste);
        let _ = self.screen.show_cursor();
        let _ = ratatui::try_restore();
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.release();
    }
}
