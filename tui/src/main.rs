//! `tui`: arguments, the terminal and the event loop. All else is in the library.

use anyhow::{Context, Result, bail};
use clap::Parser;
use crossterm::event::EventStream;
use futures_util::StreamExt;
use jiff::tz::TimeZone;
use ratatui::DefaultTerminal;
use secrecy::SecretString;
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
/// Address and token come from the flags, else from `TOLLGATE_SERVER`, `TOLLGATE_TOKEN`
/// and `TOLLGATE_TOKEN_FILE`. Without a token it asks for name and password.
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
    let endpoint = endpoint(args)?;
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

/// Where the gateway is, and the token to say there.
struct Endpoint {
    server: String,
    token: Option<SecretString>,
}

/// Finds the gateway and the token: flags, else environment, else the default address.
///
/// The one place to replace by `ctl::profile::resolve(args.server, args.token_file)`.
#[expect(clippy::disallowed_methods, reason = "stands in for ctl's profile.rs")]
fn endpoint(args: Args) -> Result<Endpoint> {
    let variable = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let server = args.server.or_else(|| variable("TOLLGATE_SERVER"));
    let server = server.unwrap_or_else(|| "http://127.0.0.1:8081".to_owned());
    let file = match (args.token_file, variable("TOLLGATE_TOKEN")) {
        (None, Some(token)) => return Ok(Endpoint { server, token: Some(token.into()) }),
        (flag, _) => flag.or_else(|| variable("TOLLGATE_TOKEN_FILE").map(PathBuf::from)),
    };
    let Some(file) = file else { return Ok(Endpoint { server, token: None }) };
    let token = std::fs::read_to_string(&file)
        .with_context(|| format!("reading the token from `{}`", file.display()))?;
    Ok(Endpoint { server, token: Some(token.trim().into()) })
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
