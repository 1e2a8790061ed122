//! `tui`: arguments, signals and the event loop. All else is in the library.

use anyhow::{Context, Result};
use clap::{CommandFactory, Parser};
use jiff::tz::TimeZone;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tui::connection::Address;
use tui::effect::{Effect, Runner};
use tui::message::Message;
use tui::model::{Action, Model};
use tui::terminal::Terminal;
use tui::terminal::events::Events;
use tui::theme::{Palette, Theme};
use tui::update::update;
use tui::{clock, input};

use std::io::{Write, stderr, stdout};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The least time between two drawings; what happens meanwhile is drawn together.
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// How often the clock is looked at. It shows ages and days, which grow slowly.
const TICK_INTERVAL: Duration = Duration::from_secs(15);
/// How many messages may wait to be taken in.
const MESSAGE_QUEUE_CAPACITY: usize = 64;
/// The exit code of who was hung up on, whether a signal says so or not.
const SIGHUP_EXIT_CODE: u8 = 128 + 1;

/// The dashboard of Tollgate.
///
/// Address and token are found as `ctl` finds them: flags, else `TOLLGATE_SERVER`, `TOLLGATE_TOKEN`
/// and `TOLLGATE_TOKEN_FILE`, else the session of `ctl login`, else this host's operator token.
/// Without any it asks for name and password. `?` shows the keys of the open screen.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The gateway's admin address: `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// A file with the session token or the operator token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where clients reach the API [default: what the gateway says, see its `public_url`]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The colours; by default what the terminal is known to have, and none with `NO_COLOR`
    #[arg(long)]
    theme: Option<Palette>,
    /// Listen to the mouse, too: scroll, click on tabs and rows
    #[arg(long)]
    mouse: bool,
    /// Write the manual page to stdout, and end
    #[arg(long)]
    man: bool,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    let result = if args.man { manual() } else { Box::pin(run(args)).await };
    match result {
        Ok(code) => code,
        Err(error) => {
            // there may be nobody left to read it
            let _ = writeln!(stderr(), "tui: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the manual page, made from the command line.
fn manual() -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command().name("tui")).render(&mut page)?;
    stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the event loop: wait for something to happen, take it in, and draw when there is something
/// to draw and the last drawing is a frame ago.
async fn run(args: Args) -> Result<ExitCode> {
    let (endpoint, token_error) =
        ctl::profile::resolve_for_sign_in(args.server.as_deref(), args.token_file.as_deref())?;
    let theme = Theme::new(args.theme.unwrap_or_else(detect_palette));
    let mut signals = Signals::new()?;
    let mut terminal = Terminal::acquire()?;
    let mut events = Events::listen()?;
    let mut ticks = interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (sender, mut messages) = mpsc::channel(MESSAGE_QUEUE_CAPACITY);
    let mut runner = Runner::new(Address::from_endpoint(&endpoint)?, endpoint.source, sender);
    let mut model = Model::new(endpoint.server, args.base_url, TimeZone::system(), theme);

    let (columns, rows) = terminal.size()?;
    let mut first = vec![Message::Tick(clock::now()), Message::Resized(columns, rows)];
    first.extend(args.mouse.then_some(Message::Act(Action::Mouse)));
    // Whoever named a token file is not taken for somebody else: the person signs in.
    first.extend(match token_error {
        Some(failure) => Some(Message::SignInFailed(failure.to_string())),
        None => endpoint.token.map(Message::TokenFound),
    });
    for message in first {
        if dispatch(&mut model, message, &mut runner, &mut terminal)?.is_break() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut changed = true;
    let mut next_frame = Instant::now();
    loop {
        let message = tokio::select! {
            () = sleep_until(next_frame), if changed => {
                terminal.draw(&model)?;
                changed = false;
                next_frame = Instant::now() + FRAME_INTERVAL;
                continue;
            }
            event = events.next() => {
                let Some(event) = event else { return Ok(ExitCode::from(SIGHUP_EXIT_CODE)) };
                let event = event.context("reading from the terminal")?;
                match input::message(&model, &event) {
                    Some(message) => message,
                    None => continue,
                }
            }
            Some(message) = messages.recv() => message,
            _ = ticks.tick() => Message::Tick(clock::now()),
            error = runner.next_panic() => std::panic::resume_unwind(error.into_panic()),
            signal = signals.next() => match signal {
                SignalAction::Exit(code) => return Ok(ExitCode::from(code)),
                SignalAction::Suspend => Message::Act(Action::Suspend),
                SignalAction::Continue => {
                    terminal.reacquire()?;
                    changed = true;
                    continue;
                }
            },
        };
        changed = true;
        if dispatch(&mut model, message, &mut runner, &mut terminal)?.is_break() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Takes a message in and does what follows from it; breaks when the program shall end.
fn dispatch(
    model: &mut Model,
    message: Message,
    runner: &mut Runner,
    terminal: &mut Terminal,
) -> Result<ControlFlow<()>> {
    for effect in update(model, message) {
        match runner.run(effect) {
            Some(Effect::Quit) => return Ok(ControlFlow::Break(())),
            Some(Effect::Copy(text)) => terminal.copy(&text)?,
            Some(Effect::ClearScreen) => terminal.clear()?,
            Some(Effect::Mouse(enabled)) => terminal.set_mouse(enabled)?,
            Some(Effect::Suspend) => terminal.suspend()?,
            _ => {}
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Returns the colours that user and terminal want.
#[expect(clippy::disallowed_methods, reason = "none of these is a setting of ours")]
fn detect_palette() -> Palette {
    let variable = |name| std::env::var(name).ok();
    let (no_color, colorterm) = (variable("NO_COLOR"), variable("COLORTERM"));
    let ground = variable("COLORFGBG");
    Palette::guess(no_color.as_deref(), colorterm.as_deref(), ground.as_deref())
}

/// The signals that mean something to us; without them the terminal would stay as we made it.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    stop: Signal,
    cont: Signal,
}

/// What a signal wants.
enum SignalAction {
    /// An end, with the exit code that shells expect.
    Exit(u8),
    /// The terminal, until the process is continued.
    Suspend,
    /// It is continued.
    Continue,
}

impl Signals {
    fn new() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            stop: signal(SignalKind::from_raw(signal_hook::consts::SIGTSTP))?,
            cont: signal(SignalKind::from_raw(signal_hook::consts::SIGCONT))?,
        })
    }

    /// Waits for one. Cancel safe.
    async fn next(&mut self) -> SignalAction {
        tokio::select! {
            _ = self.terminate.recv() => SignalAction::Exit(128 + 15),
            _ = self.hangup.recv() => SignalAction::Exit(SIGHUP_EXIT_CODE),
            _ = self.interrupt.recv() => SignalAction::Exit(128 + 2),
            _ = self.stop.recv() => SignalAction::Suspend,
            _ = self.cont.recv() => SignalAction::Continue,
        }
    }
}
