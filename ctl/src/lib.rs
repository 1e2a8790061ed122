//! The command line of Tollgate as a library: one command per admin call, data on stdout, messages
//! on stderr, and an exit code for each class of failure.
//!
//! It contains no business rules and never imports the gateway. Start at [`run`]: `cli` is the
//! command tree, `commands` has one file per noun, `output` is the only module that prints,
//! [`profile`] selects the gateway and the token, [`api`] sends requests to `/v1`, and
//! [`spreadsheet`] formats cells of CSV (all three also for `tui`). [`complete`] answers a shell's
//! completion requests.

pub mod api;
mod cli;
mod clock;
mod commands;
mod complete;
pub mod error;
mod output;
pub mod profile;
pub mod spreadsheet;

use std::ffi::OsString;
use std::io::{BufRead, Write};

use clap::{CommandFactory, FromArgMatches};
use proto::client::{Connection, IdempotencyKeys};

use cli::{Cli, Globals};
use error::{Exit, Failure};
use output::Output;
use profile::{Endpoint, Environment, TokenSource};

pub use complete::complete;

/// Runs a command line, whose first argument is the program name, and returns the exit code.
///
/// Reads only `environment`, `stdin`, the files named in them and the gateway. Writes only `out`,
/// `err`, files named on the command line, and the profile and token files.
///
/// # Cancel safety
/// Dropping the future cancels the command; a request already sent may still take effect.
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
                    outcome.map_err(|failure| shell.suggest_operator_token(failure))
                }
                Err(error) => Err(Failure::usage(error)),
            }
        }
        Err(error) => return print_clap_message(&error, environment, out, err) as u8,
    };
    match outcome.and_then(|()| out.flush().map_err(Failure::from)) {
        Ok(()) => Exit::Ok as u8,
        Err(failure) => {
            // A closed stderr leaves no way to report the failure.
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

/// Prints a message of clap: help and version to stdout, usage errors to stderr.
fn print_clap_message(
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

/// The context of a running command.
struct Shell<'a> {
    environment: &'a Environment,
    globals: Globals,
    /// The idempotency keys of this command's calls, which make retries safe.
    keys: IdempotencyKeys,
    stdin: &'a mut (dyn BufRead + Send),
    output: Output<'a>,
}

impl Shell<'_> {
    /// Returns the selected gateway and the token for it.
    fn endpoint(&self) -> Result<Endpoint, Failure> {
        self.environment.resolve_flags(self.globals.endpoint_flags())
    }

    /// Returns the selected gateway, without a token.
    fn gateway(&self) -> Result<Endpoint, Failure> {
        self.environment.gateway(self.globals.endpoint_flags())
    }

    /// Connects to the selected gateway, with its token if there is one.
    async fn connect(&mut self) -> Result<Connection, Failure> {
        let endpoint = self.endpoint()?;
        Ok(connect(&endpoint).await?.with_idempotency_keys(self.keys.clone()))
    }

    /// Adapts the advice to ask an operator: names this host's operator token file if it is
    /// readable, and removes the advice if the command already used that token.
    fn suggest_operator_token(&self, failure: Failure) -> Failure {
        let Ok(endpoint) = self.endpoint() else { return failure };
        match (self.environment.operator_token_for(&endpoint.server), endpoint.source) {
            (_, TokenSource::Operator) => failure.without_operator_advice(),
            (Some(file), TokenSource::File(given)) if given == file => {
                failure.without_operator_advice()
            }
            (Some(file), _) => failure.suggest_token_file(&file),
            (None, _) => failure,
        }
    }

    /// Returns whether destructive commands ask for confirmation: on a terminal, without `--yes`.
    fn should_confirm(&self) -> bool {
        self.environment.interactive && !self.globals.yes
    }

    /// Asks for confirmation, if [`Self::should_confirm`].
    ///
    /// # Errors
    /// The answer is not yes, or cannot be read.
    fn confirm(&mut self, question: &str) -> Result<(), Failure> {
        if !self.should_confirm() {
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

/// Connects to `endpoint` with its certificates.
async fn connect(endpoint: &Endpoint) -> Result<Connection, Failure> {
    let (server, token) = (&endpoint.server, endpoint.token.as_ref());
    proto::client::connect_with(server, token, &endpoint.tls()?)
        .await
        .map_err(|error| Failure::connecting(server, &error))
}
