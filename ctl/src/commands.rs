//! The commands, a file per noun: one call, one render, no business rule.

mod account;
mod agent_config;
mod api;
mod audit;
mod backup;
mod catalogue;
mod completions;
mod doctor;
mod key;
mod ledger;
mod limits;
mod man;
mod model;
mod plan;
mod profile;
mod quickstart;
mod request;
mod session;
mod sessions;
mod traffic;
mod upstream;
mod usage;

use jiff::Timestamp;
use proto::v1::Percentiles;
use secrecy::SecretString;

use crate::Shell;
use crate::cli::Command;
use crate::error::{Exit, Failure};

/// How many characters of a request's id are shown where there is no room for all, and are enough to
/// find it again.
const SHORT_ID: usize = 8;

/// Runs a command.
pub(crate) async fn run(shell: &mut Shell<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::Register(input) => session::register(shell, input).await,
        Command::Login(input) => session::login(shell, input).await,
        Command::Logout => session::logout(shell).await,
        Command::Whoami => session::whoami(shell).await,
        Command::Account(command) => account::run(shell, command).await,
        Command::Session(command) => sessions::run(shell, command).await,
        Command::Plan(command) => plan::run(shell, command).await,
        Command::Key(command) => key::run(shell, command).await,
        Command::Model(command) => model::run(shell, command).await,
        Command::Upstream(command) => upstream::run(shell, command).await,
        Command::Usage(input) => usage::run(shell, input).await,
        Command::Traffic(input) => traffic::run(shell, input).await,
        Command::Request(command) => request::run(shell, command).await,
        Command::Audit(command) => audit::run(shell, command).await,
        Command::Ledger(command) => ledger::run(shell, command).await,
        Command::Apply(input) => catalogue::apply(shell, input).await,
        Command::Export => catalogue::export(shell).await,
        Command::Doctor(input) => doctor::run(shell, input).await,
        Command::Profile(command) => profile::run(shell, command),
        Command::Backup(input) => backup::run(shell, input).await,
        Command::Quickstart(input) => quickstart::run(shell, input).await,
        Command::AgentConfig(input) => agent_config::run(shell, input).await,
        Command::Completions(input) => completions::run(shell, input.shell),
        Command::Man(input) => man::run(shell, input),
    }
}

/// Returns what an answer must have.
fn present<T>(value: Option<T>, name: &str) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::new(Exit::Failed, format!("the gateway's answer has no `{name}`")))
}

/// Turns the name of an enum's value (`ACCOUNT_STATUS_ACTIVE`) into its word (`active`); the value
/// "unspecified" is unknown.
fn word(name: &str, prefix: &str) -> Option<String> {
    let word = name.strip_prefix(prefix).unwrap_or(name).to_lowercase();
    (word != "unspecified").then_some(word)
}

/// Turns a time into RFC 3339, in UTC.
fn time(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = time?;
    Timestamp::new(time.seconds, time.nanos).ok().map(|time| time.to_string())
}

/// The text, unless the contract's "not set" stands in its place.
fn filled(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// The words of a list, without the empty ones that clear it.
fn words(list: Vec<String>) -> Vec<String> {
    list.into_iter().filter(|word| !word.is_empty()).collect()
}

/// The end of a request's id. Its beginning is the time, which it shares with those of the same minute.
fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(id)
}

/// Returns what is about to be removed, as the gateway lists it.
fn listed<T>(found: Option<T>, noun: &str, name: &str) -> Result<T, Failure> {
    found.ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("{noun} `{name}` does not exist"))
            .advise(format!("`ctl {noun} list` shows those that do"))
    })
}

/// The half, nine in ten and 99 in 100 of a measure, in milliseconds.
fn percentiles(measured: Option<Percentiles>) -> [Option<f64>; 3] {
    measured.map_or([None; 3], |it| [it.p50_ms, it.p90_ms, it.p99_ms].map(Some))
}

/// What an update without a change is.
fn nothing_to_change() -> Failure {
    Failure::usage("no change is given").advise("see the command's --help for what can be changed")
}

/// Reads one line from stdin, without its line end.
fn secret_line(shell: &mut Shell<'_>, what: &str) -> Result<SecretString, Failure> {
    let mut line = String::new();
    shell
        .stdin
        .read_line(&mut line)
        .map_err(|error| Failure::usage(format!("reading the {what} from stdin: {error}")))?;
    if line.ends_with('\n') {
        line.pop();
        if line.ends_with('\r') {
            line.pop();
        }
    }
    if line.is_empty() {
        return Err(Failure::usage(format!("stdin holds no {what}")));
    }
    Ok(SecretString::from(line))
}
