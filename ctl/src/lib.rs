//! The command line of Tollgate as a library: one command per admin call, data on stdout, talk on
//! stderr, an exit code that says what kind of trouble it was.
//!
//! It knows no business rule and never imports the gateway. Start at [`run`]; `cli` is the command
//! tree, `commands` has a file per noun, `output` is the only printer and [`profile`] says which
//! gateway is meant and who asks (`tui` uses that, too). [`complete`] ends half-typed lines for a shell.

mod cli;
mod clock;
mod commands;
mod complete;
pub mod error;
mod output;
pub mod profile;

use std::ffi::OsString;
use std::io::{BufRead, Write};

use clap::{CommandFactory, FromArgMatches};
use proto::client::{Connection, IdempotencyKeys};

use cli::{Cli, Globals};
use error::{Exit, Failure};
use output::Output;
use profile::{Endpoint, Environment, TokenSource};

pub use complete::complete;

/// Runs one command line (`args` begins with the program's name) and returns its exit code.
///
/// Nothing but `environment`, `stdin`, the files it names and the gateway is read; nothing but
/// `out`, `err`, the profile and token files is written. Dropping the future ends the command.
pub async fn run<I, A>(
    args: I,
    environment: &Environment,
    stdin: &mut (dyn BufRead + Send),
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> u8
where
    I: IntoIterator<Item = A>,
    A: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let outcome = match parse(args, environment) {
        Ok(Cli { globals, command }) => {
            let output = Output::new(globals.output, globals.quiet, environment, out, err);
            let key = globals.idempotency_key.clone().unwrap_or_else(clock::random_word);
            match IdempotencyKeys::new(&key) {
                Ok(keys) => {
                    let mut shell = Shell { environment, globals, keys, stdin, output };
                    let outcome = Box::pin(commands::run(&mut shell, command)).await;
                    outcome.map_err(|failure| shell.point_to_token(failure))
                }
                Err(error) => Err(Failure::usage(error)),
            }
        }
        Err(error) => return explain(&error, environment, out, err) as u8,
    };
    match outcome.and_then(|()| out.flush().map_err(Failure::from)) {
        Ok(()) => Exit::Ok as u8,
        Err(failure) => {
            // Nothing can be done about a stderr that is gone.
            let _ = failure.write_to(err, environment.width.map(usize::from));
            failure.exit() as u8
        }
    }
}

fn parse(args: Vec<OsString>, environment: &Environment) -> Result<Cli, clap::Error> {
    let width = environment.width.map_or(100, usize::from);
    let mut command = Cli::command().term_width(width.min(100));
    let matches = command.try_get_matches_from_mut(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// Writes what clap has to say: help and version are data, everything else is talk.
fn explain(
    error: &clap::Error,
    environment: &Environment,
    out: &mut (dyn Write + Send),
    err: &mut (dyn Write + Send),
) -> Exit {
    let text = error.render();
    let text = if environment.colour { text.ansi().to_string() } else { text.to_string() };
    if error.use_stderr() {
        let _ = err.write_all(text.as_bytes());
        return Exit::Usage;
    }
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Exit::Ok,
        Err(error) => Failure::from(error).exit(),
    }
}

/// What a command has at hand.
struct Shell<'a> {
    environment: &'a Environment,
    globals: Globals,
    /// What the calls of this command are named by, so that they may be sent again.
    keys: IdempotencyKeys,
    stdin: &'a mut (dyn BufRead + Send),
    output: Output<'a>,
}

impl Shell<'_> {
    /// Says which gateway is meant and who asks.
    fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.environment.choose(self.globals.choice())
    }

    /// Says which gateway is meant, whoever asks.
    fn gateway(&self) -> Result<Endpoint, Failure> {
        self.environment.gateway(self.globals.choice())
    }

    /// Connects to the gateway with the caller's token, if there is one.
    async fn connect(&mut self) -> Result<Connection, Failure> {
        let endpoint = self.endpoint()?;
        Ok(connect(&endpoint).await?.with_idempotency_keys(self.keys.clone()))
    }

    /// Says where this host's operator token is, to somebody who failed for the want of one; who presented
    /// it need ask nobody.
    fn point_to_token(&self, failure: Failure) -> Failure {
        let Ok(endpoint) = self.endpoint() else { return failure };
        match (self.environment.operator_token_for(&endpoint.server), endpoint.source) {
            (_, TokenSource::Operator) => failure.without_asking(),
            (Some(file), TokenSource::File(given)) if given == file => failure.without_asking(),
            (Some(file), _) => failure.naming_token(&file),
            (None, _) => failure,
        }
    }

    /// Whether somebody is asked before what cannot be undone: a person at a terminal, without --yes.
    fn asks(&self) -> bool {
        self.environment.interactive && !self.globals.yes
    }

    /// Asks before what cannot be undone, if anybody is to be asked.
    fn confirm(&mut self, question: &str) -> Result<(), Failure> {
        if !self.asks() {
            return Ok(());
        }
        self.output.ask(&format!("{question} [y/N]"));
        let mut line = String::new();
        self.stdin
            .read_line(&mut line)
            .map_err(|error| Failure::usage(format!("reading the answer: {error}")))?;
        match line.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(Exit::Failed, "nothing was changed")),
        }
    }
}

/// Connects to `endpoint`.
async fn connect(endpoint: &Endpoint) -> Result<Connection, Failure> {
    let authorities = endpoint.authorities()?;
    let (server, token) = (&endpoint.server, endpoint.token.as_ref());
    proto::client::connect_trusting(server, token, authorities.as_deref())
        .await
        .map_err(|error| Failure::connecting(server, &error))
}
