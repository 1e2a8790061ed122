//! The `tui` binary: arguments, signals and the event loop. The library contains everything else.

use anyhow::{Context, Result, bail};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use ctl::profile::{EndpointFlags, Environment};
use jiff::tz::TimeZone;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tui::connection::Address;
use tui::effect::{Effect, Runner};
use tui::message::Message;
use tui::model::first_steps::FirstSteps;
use tui::model::sign_in::SignInRefusal;
use tui::model::{Action, Model, Start, kept};
use tui::options::{Format, Options};
use tui::terminal::Terminal;
use tui::terminal::events::Events;
use tui::terminal::pacing::Pacing;
use tui::theme::{Palette, Theme, catalogue, terminfo};
use tui::update::update;
use tui::{clock, files, input, snapshot};

use std::io::{Write, stderr, stdout};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

/// The interval at which the model is asked whether it needs the time.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// The capacity of the message channel. Senders wait while it is full.
const MESSAGE_QUEUE_CAPACITY: usize = 64;
/// The exit code after a terminal hang-up, with or without a `SIGHUP`.
const SIGHUP_EXIT_CODE: u8 = 128 + 1;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = Options::parse();
    let result = match args.completions {
        Some(shell) => completions(shell),
        None if args.man => manual(),
        None => Box::pin(run(args)).await,
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed.
            let _ = writeln!(stderr(), "tui: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the manual page, generated from the command line definition.
fn manual() -> Result<ExitCode> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Options::command().name("tui")).render(&mut page)?;
    stdout().write_all(&page)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completion script of a shell, generated from the command line definition.
fn completions(shell: Shell) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), "tui", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a snapshot or runs the event loop, as the options say.
async fn run(args: Options) -> Result<ExitCode> {
    let environment = Environment::of_process();
    let (endpoint, token_error) = environment.resolve_for_sign_in(EndpointFlags {
        server: args.server.as_deref(),
        token_file: args.token_file.as_deref(),
        ..EndpointFlags::default()
    })?;
    let palette = match args.snapshot {
        // A picture has colours wherever it is made.
        Some(_) => Palette::Dark,
        None => detect_palette(),
    };
    let directory = environment.config_dir.clone();
    let (sender, messages) = mpsc::channel(MESSAGE_QUEUE_CAPACITY);
    let address = Address::from_endpoint(&endpoint)?;
    let mut runner = Runner::new(address, endpoint.source, environment, sender);
    let theme = Theme::new(palette);
    let mut model = Model::new(endpoint.server, args.base_url.clone(), TimeZone::system(), theme);
    model.is_mouse_enabled = args.mouse;
    // Settings that cannot be read stay as they are, for the user to mend.
    let mut may_save_settings = true;
    let mut broken_themes = Vec::new();
    if let Some(directory) = directory.as_deref() {
        let (themes, broken) = files::read_themes(directory);
        catalogue::add(&mut model.themes, themes);
        broken_themes = broken;
        for broken in broken_themes.iter().rev() {
            match args.snapshot {
                // Standard error may be closed.
                Some(_) => drop(writeln!(stderr(), "tui: {broken}")),
                None => model.set_problem(broken.to_string()),
            }
        }
        if args.snapshot.is_none() {
            match files::read_kept(directory) {
                Ok(kept) => {
                    kept::apply(&mut model, &kept);
                    model.is_mouse_enabled |= kept["mouse"] == true;
                    if !model.introduced_servers.contains(&model.server) {
                        model.first_steps = FirstSteps::Pending;
                    }
                }
                Err(error) => {
                    may_save_settings = false;
                    model.set_problem(format!(
                        "the settings file tui.json is unreadable and stays as it is: {error}"
                    ));
                }
            }
        }
    }
    match &args.theme {
        Some(name) if !model.choose_theme(name) => {
            if let Some(broken) = broken_themes.iter().find(|it| it.name == *name) {
                bail!("{broken}");
            }
            let names: Vec<_> = model.themes.iter().map(|it| it.name.as_str()).collect();
            bail!("there is no theme `{name}`; there are {}", names.join(", "));
        }
        None if palette == Palette::Plain => model.theme = theme,
        _ => {}
    }
    model.is_read_only = args.read_only;
    if let Some(screen) = args.first_screen().filter(|it| args.filter.is_some() && !it.has_list()) {
        let name = screen.name();
        bail!("the screen `{name}` has no list to filter: name another one, such as `usage`");
    }
    let asked = args.first_screen().map(|screen| {
        let filter = args.filter.clone().unwrap_or_default();
        Start { screen, filter, is_asked: true }
    });
    model.start = asked.or(model.start);
    // An unreadable token file is reported on the sign-in screen. Falling back to another token
    // could sign in a different account than the user named.
    let first = match token_error {
        Some(failure) => {
            let refusal = SignInRefusal::general(failure.to_string());
            vec![Message::SignInFailed(refusal), Message::NoToken]
        }
        None => vec![endpoint.token.map_or(Message::NoToken, Message::TokenFound)],
    };
    if args.snapshot.is_some() {
        model.size = args.size;
        return Box::pin(print_snapshot(model, first, runner, messages, args.format)).await;
    }
    let code = Box::pin(interact(&mut model, first, &mut runner, messages)).await;
    runner.end().await;
    if let Some(directory) = directory.filter(|_| may_save_settings) {
        // The next start has the defaults if this fails.
        let _ = files::write_kept(&directory, &kept::of(&model));
    }
    code
}

/// Prints the first screen once its data has arrived.
async fn print_snapshot(
    mut model: Model,
    first: Vec<Message>,
    runner: Runner,
    messages: mpsc::Receiver<Message>,
    format: Format,
) -> Result<ExitCode> {
    model.now = Some(clock::now());
    snapshot::load(&mut model, first, runner, messages).await?;
    let text = snapshot::draw(&model, format);
    stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the event loop: waits for an event, applies it, and redraws if the model has changed, as
/// often as [`Pacing`] allows.
async fn interact(
    model: &mut Model,
    messages_of_start: Vec<Message>,
    runner: &mut Runner,
    mut messages: mpsc::Receiver<Message>,
) -> Result<ExitCode> {
    let mut signals = Signals::new()?;
    let mut terminal = Terminal::acquire()?;
    let mut events = Events::listen()?;
    let mut ticks = interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (columns, rows) = terminal.size()?;
    let mut first = vec![Message::Tick(clock::now()), Message::Resized(columns, rows)];
    if model.is_mouse_enabled {
        terminal.set_mouse(true)?;
    }
    first.extend(messages_of_start);
    for message in first {
        if dispatch(model, message, runner, &mut terminal)?.is_break() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut changed = true;
    let mut pacing = Pacing::new(Instant::now());
    loop {
        let message = tokio::select! {
            () = sleep_until(pacing.next_frame()), if changed => {
                let bytes = terminal.draw(model)?;
                changed = false;
                pacing.drawn(bytes, Instant::now());
                continue;
            }
            event = events.next() => {
                let Some(event) = event else { return Ok(ExitCode::from(SIGHUP_EXIT_CODE)) };
                let event = event.context("reading from the terminal")?;
                match input::message(model, &event) {
                    Some(message) => {
                        pacing.ask(Instant::now());
                        message
                    }
                    None => continue,
                }
            }
            Some(message) = messages.recv() => message,
            _ = ticks.tick() => match clock::now() {
                now if model.needs_tick(now) => Message::Tick(now),
                _ => continue,
            },
            error = runner.next_panic() => std::panic::resume_unwind(error.into_panic()),
            signal = signals.next() => match signal {
                SignalAction::Exit(code) => return Ok(ExitCode::from(code)),
                SignalAction::Suspend => Message::Act(Action::Suspend),
                SignalAction::Continue => {
                    terminal.reacquire()?;
                    pacing.ask(Instant::now());
                    changed = true;
                    continue;
                }
            },
        };
        changed = true;
        if dispatch(model, message, runner, &mut terminal)?.is_break() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Applies a message to the model and runs the resulting effects. Returns `Break` if the program
/// should exit.
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

/// Selects the colour palette from the user's and the terminal's environment variables.
#[expect(clippy::disallowed_methods, reason = "none of these is a setting of ours")]
fn detect_palette() -> Palette {
    let variable = |name| std::env::var(name).ok();
    let (no_color, colorterm) = (variable("NO_COLOR"), variable("COLORTERM"));
    let background = variable("COLORFGBG");
    let directories = [variable("TERMINFO"), variable("HOME").map(|home| home + "/.terminfo")];
    let has_truecolor = variable("TERM").is_some_and(|name| has_truecolor(&name, directories));
    Palette::detect(no_color.as_deref(), colorterm.as_deref(), background.as_deref(), has_truecolor)
}

/// Returns whether the terminfo entry of the terminal, from the first directory that has one, says
/// that it has 24-bit colours.
fn has_truecolor(terminal: &str, directories: [Option<String>; 2]) -> bool {
    let usual = ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"].map(str::to_owned);
    let directories = directories.into_iter().flatten().chain(usual);
    let Some(files) = terminfo::files(terminal) else { return false };
    let mut entries = directories
        .flat_map(|directory| files.each_ref().map(|file| format!("{directory}/{file}")))
        .filter_map(|path| std::fs::read(path).ok());
    entries.next().is_some_and(|entry| terminfo::has_truecolor(&entry))
}

/// The handled signals. With the default action, a signal would end the program without restoring
/// the terminal.
struct Signals {
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    stop: Signal,
    cont: Signal,
}

/// The reaction to a signal.
enum SignalAction {
    /// Exit with this code, `128 + signal` by shell convention.
    Exit(u8),
    /// Release the terminal and stop the process until `SIGCONT`.
    Suspend,
    /// Set the terminal up again after `SIGCONT`.
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

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Cancel safe: no signal is lost.
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
