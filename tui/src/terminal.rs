//! The one owner of the terminal: takes it, gives it back, and lets the program be suspended.
//!
//! Whatever ends the program (a key, a signal, an error, a panic), the user's screen comes back: by
//! dropping [`Terminal`], or by ratatui's panic hook before it prints. What it reports is in [`events`].

pub mod events;

use anyhow::{Context, Result, bail};
use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::Hide;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use ratatui::DefaultTerminal;
use ratatui::backend::CrosstermBackend;
use secrecy::{ExposeSecret, SecretString};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use std::io::{IsTerminal, stdout};
use std::mem::ManuallyDrop;

use crate::model::Model;
use crate::view;

/// The terminal in raw mode on its other screen.
#[derive(Debug)]
pub struct Terminal {
    /// Its own drop shows the cursor, as ours has done by then, and panics if it can neither do that nor
    /// complain: a terminal that is gone is most often standard error, too.
    screen: ManuallyDrop<DefaultTerminal>,
    mouse: bool,
}

impl Terminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Standard output is none, or it cannot be set up.
    pub fn acquire() -> Result<Self> {
        if !stdout().is_terminal() {
            bail!("standard output is no terminal: run it in one, or use `ctl` in scripts");
        }
        let screen = ratatui::try_init()
            .inspect_err(|_| ratatui::restore())
            .context("setting up the terminal")?;
        let terminal = Self { screen: ManuallyDrop::new(screen), mouse: false };
        terminal.enable_input()?;
        Ok(terminal)
    }

    /// Returns columns and rows.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = self.screen.size().context("asking for the terminal's size")?;
        Ok((size.width, size.height))
    }

    /// Draws what has changed.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, model: &Model) -> Result<()> {
        self.screen
            .draw(|frame| {
                let area = frame.area();
                view::render(model, frame.buffer_mut(), area);
            })
            .context("drawing")?;
        Ok(())
    }

    /// Empties the screen and forgets what was on it; the next drawing draws every cell.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn clear(&mut self) -> Result<()> {
        // ratatui's own clearing asks for the cursor's place, and who types meanwhile is in its way
        execute!(stdout(), Clear(ClearType::All)).context("clearing the screen")?;
        let backend = CrosstermBackend::new(stdout());
        *self.screen = ratatui::Terminal::new(backend).context("setting up the terminal")?;
        Ok(())
    }

    /// Puts `text` into the clipboard of the terminal, over ssh, too (OSC 52).
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn copy(&mut self, text: &SecretString) -> Result<()> {
        execute!(stdout(), CopyToClipboard::to_clipboard_from(text.expose_secret()))
            .context("copying")
    }

    /// Listens to the mouse, or leaves it to the terminal.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn set_mouse(&mut self, enabled: bool) -> Result<()> {
        self.mouse = enabled;
        if enabled {
            execute!(stdout(), EnableMouseCapture).context("asking for the mouse")
        } else {
            execute!(stdout(), DisableMouseCapture).context("leaving the mouse")
        }
    }

    /// Gives the terminal back, stops the process, and takes the terminal again when the process is
    /// continued.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn suspend(&mut self) -> Result<()> {
        self.release();
        emulate_default_handler(SIGTSTP).context("stopping")?;
        self.reacquire()
    }

    /// Sets the terminal up once more, for example after the shell has had it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn reacquire(&mut self) -> Result<()> {
        enable_raw_mode().context("setting up the terminal")?;
        execute!(stdout(), EnterAlternateScreen, Hide).context("setting up the terminal")?;
        self.enable_input()?;
        self.clear()
    }

    fn enable_input(&self) -> Result<()> {
        execute!(stdout(), EnableBracketedPaste).context("setting up the terminal")?;
        if self.mouse {
            execute!(stdout(), EnableMouseCapture).context("asking for the mouse")?;
        }
        Ok(())
    }

    fn release(&mut self) {
        // Nothing helps if the terminal is gone.
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
