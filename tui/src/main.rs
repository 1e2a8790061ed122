//! `tui`: arguments, the terminal and the event loop. All else is in the library.

use anyhow::{Context, Result, bail};
use clap::Parser;
use crossterm::event::EventStream;
use futures_util::StreamExt;
use jiff::tz::TimeZone;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tui::effect::Runner;
use tui::keymap;
use tui::message::Message;
use tui::model::Model;
use tui::theme::Theme;
use tui::update::update;
use tui::view;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

/// The dashboard of Tollgate.
///
/// Address and token are found as `ctl` finds them: flags, else `TOLLGATE_SERVER`, `TOLLGATE_TOKEN`
/// and `TOLLGATE_TOKEN_FILE`, else the session of `ctl login`, else this host's operator token.
/// Without any it asks for name and password.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The gateway's admin address: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A file with the session token or the operator token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tui: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the event loop: draw, wait for something to happen, update. Draws only after a message.
async fn run(args: Args) -> Result<ExitCode> {
    let endpoint = ctl::profile::resolve(args.server.as_deref(), args.token_file.as_deref())?;
    let mut signals = Signals::new()?;
    let mut terminal = Guard::new()?;
    let mut events = EventStream::new();
    let (sender, mut messages) = mpsc::channel(64);
    let mut runner = Runner::new(endpoint.server.clone(), sender);
    let mut model = Model::new(endpoint.server, TimeZone::system(), theme());
    let mut next = endpoint.token.map_or(Message::Resized, Message::TokenFound);
    loop {
        // What has piled up is taken in before the next drawing.
        loop {
            for effect in update(&mut model, next) {
                if runner.run(effect).is_break() {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            match messages.try_recv() {
                Ok(message) => next = message,
                Err(_) => break,
            }
        }
        terminal.0.draw(|frame| {
            let area = frame.area();
            view::render(&model, frame.buffer_mut(), area);
        })?;
        next = loop {
            tokio::select! {
                event = events.next() => {
                    let event = event.context("the terminal is gone")?;
                    let event = event.context("reading from the terminal")?;
                    if let Some(message) = keymap::message(model.focus(), &event) {
                        break message;
                    }
                }
                Some(message) = messages.recv() => break message,
                error = runner.panicked() => std::panic::resume_unwind(error.into_panic()),
                code = signals.next() => return Ok(ExitCode::from(code)),
            }
        };
    }
}

/// Returns the theme that the user wants (<https://no-color.org>).
#[expect(clippy::disallowed_methods, reason = "NO_COLOR is no setting of ours")]
fn theme() -> Theme {
    match std::env::var_os("NO_COLOR") {
        Some(value) if !value.is_empty() => Theme::plain(),
        _ => Theme::colourful(),
    }
}

/// The terminal in raw mode on its other screen; dropping it brings the user's screen back, as does
/// ratatui's panic hook before it prints.
struct Guard(DefaultTerminal);

impl Guard {
    fn new() -> Result<Self> {
        if !std::io::stdout().is_terminal() {
            bail!("standard output is no terminal: run it in one, or use `ctl` in scripts");
        }
        ratatui::try_init()
            .map(Self)
            .inspect_err(|_| ratatui::restore())
            .context("setting up the terminal")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Nothing helps if the terminal is gone.
        let _ = self.0.show_cursor();
        ratatui::restore();
    }
}

/// The signals that end the program; without them the terminal would stay as we made it.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one and returns the exit code that shells expect of it. Cancel safe.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + 15,
            _ = self.hangup.recv() => 128 + 1,
            _ = self.interrupt.recv() => 128 + 2,
        }
    }
}
