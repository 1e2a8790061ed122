//! The commands, one file per noun: each makes its calls and prints the result, without business
//! rules.

mod account;
mod agent_config;
mod audit;
mod backup;
mod catalogue;
mod completions;
mod doctor;
mod key;
mod ledger;
mod limits;
mod login;
mod man;
mod model;
mod node;
mod operator_token;
mod plan;
mod profile;
mod quickstart;
mod reload;
mod request;
mod restore;
mod route;
mod seal;
mod session;
mod top;
mod traffic;
mod upstream;
mod usage;
mod version;
mod webhook;

use jiff::Timestamp;
use proto::v1::Percentiles;
use secrecy::SecretString;

use crate::Shell;
use crate::cli::Command;
use crate::error::{Exit, Failure};

/// The length of a shortened request id in narrow tables, in characters; `ctl request show` accepts
/// it.
const SHORT_ID: usize = 8;

/// Runs `command`.
pub(crate) async fn run(shell: &mut Shell<'_>, command: Command) -> Result<(), Failure> {
    match command {
        Command::Register(input) => login::register(shell, input).await,
        Command::Login(input) => login::login(shell, input).await,
        Command::Logout => login::logout(shell).await,
        Command::Whoami => login::whoami(shell).await,
        Command::Account(command) => account::run(shell, command).await,
        Command::Session(command) => session::run(shell, command).await,
        Command::Plan(command) => plan::run(shell, command).await,
        Command::Key(command) => key::run(shell, command).await,
        Command::Model(command) => model::run(shell, command).await,
        Command::Route(command) => route::run(shell, command).await,
        Command::Upstream(command) => upstream::run(shell, command).await,
        Command::Node(command) => node::run(shell, command).await,
        Command::OperatorToken(command) => operator_token::run(shell, command).await,
        Command::Usage(input) => usage::run(shell, input).await,
        Command::Top(input) => top::run(shell, input).await,
        Command::Traffic(input) => traffic::run(shell, input).await,
        Command::Request(command) => request::run(shell, command).await,
        Command::Audit(command) => audit::run(shell, command).await,
        Command::Ledger(command) => ledger::run(shell, command).await,
        Command::Apply(input) => catalogue::apply(shell, input).await,
        Command::Export => catalogue::export(shell).await,
        Command::Doctor(input) => doctor::run(shell, input).await,
        Command::Profile(command) => profile::run(shell, command),
        Command::Backup(input) => backup::run(shell, input).await,
        Command::Restore(input) => restore::run(shell, &input),
        Command::Reload => reload::run(shell).await,
        Command::Seal(command) => seal::run(shell, command).await,
        Command::Webhook(command) => webhook::run(shell, command).await,
        Command::Version => version::run(shell).await,
        Command::Quickstart(input) => quickstart::run(shell, input).await,
        Command::AgentConfig(input) => agent_config::run(shell, input).await,
        Command::Completions(input) => completions::run(shell, input.shell),
        Command::Man(input) => man::run(shell, input),
    }
}

/// Unwraps a field that every answer of the gateway must have.
fn required<T>(value: Option<T>, name: &str) -> Result<T, Failure> {
    value.ok_or_else(|| Failure::new(Exit::Failed, format!("the gateway's answer has no `{name}`")))
}

/// Converts the proto name of an enum value (`ACCOUNT_STATUS_ACTIVE`) to its printed form
/// (`active`); `None` for `UNSPECIFIED`.
fn enum_name(name: &str, prefix: &str) -> Option<String> {
    let word = name.strip_prefix(prefix).unwrap_or(name).to_lowercase();
    (word != "unspecified").then_some(word)
}

/// Formats a time as RFC 3339, in UTC; `None` if it is absent or out of range.
fn rfc3339(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = time?;
    Timestamp::new(time.seconds, time.nanos).ok().map(|time| time.to_string())
}

/// Converts the proto default of an unset string, the empty string, to `None`.
fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Removes the empty values, which clear a list.
fn without_empty(list: Vec<String>) -> Vec<String> {
    list.into_iter().filter(|word| !word.is_empty()).collect()
}

/// Returns the last characters of a request id. The first ones encode the time, and are equal for
/// all requests of the same minute.
fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT_ID)..).unwrap_or(id)
}

/// Unwraps the object that a list call found, to show it in the confirmation of its removal.
fn require_listed<T>(found: Option<T>, noun: &str, name: &str) -> Result<T, Failure> {
    found.ok_or_else(|| {
        Failure::new(Exit::NotFound, format!("{noun} `{name}` does not exist"))
            .advise(format!("`ctl {noun} list` shows those that do"))
    })
}

/// Returns the 50th, 90th and 99th percentile, in milliseconds.
fn percentiles(measured: Option<Percentiles>) -> [Option<f64>; 3] {
    measured.map_or([None; 3], |it| [it.p50_ms, it.p90_ms, it.p99_ms].map(Some))
}

/// Returns the failure for an update without changes.
fn nothing_to_change() -> Failure {
    Failure::usage("no change is given").advise("see the command's --help for what can be changed")
}

/// Reads one line from stdin, without its line ending; `what` names the value in errors.
///
/// # Errors
/// Stdin cannot be read, or the line is empty.
fn read_secret_line(shell: &mut Shell<'_>, what: &str) -> Result<SecretString, Failure> {
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
        return Err(Failure::usage(format!("stdin has no {what}")));
    }
    Ok(SecretString::from(line))
}
