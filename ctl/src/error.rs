//! The error type of `ctl`: a one-line message, optional advice, and an exit code.
//!
//! Contains the only mapping from [`tonic::Code`] to [`Exit`].
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;
use std::io::{self, Write};

use proto::client::SpeaksTlsError;
use tonic::{Code, Status};
use trust::TlsProblem;

use crate::output::wrap::wrapped;

/// The exit codes of `ctl`, stable for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success, or the reader of stdout closed the pipe.
    Ok = 0,
    /// Any failure without a more specific code.
    Failed = 1,
    /// The command line or one of its values is invalid.
    Usage = 2,
    /// Not signed in, or not allowed.
    NotAllowed = 3,
    /// The named object does not exist.
    NotFound = 4,
    /// The object exists already, or its state forbids the operation.
    Conflict = 5,
    /// The gateway cannot be reached, or cannot serve the call now.
    Unavailable = 6,
}

/// The advice for a call that requires the operator role.
const ASK_AN_OPERATOR: &str =
    "ask an operator, or give an operator's token with `--token-file FILE`";

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    advice: Option<String>,
}

// === impl Failure ===

impl Failure {
    /// Creates a failure; line breaks and control characters in `message` are replaced.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: one_line(&message.to_string()), advice: None }
    }

    /// Creates the failure for an invalid command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Creates the failure for an I/O error of a file; `operation` is a word such as "reading".
    pub(crate) fn file(operation: &str, path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(Exit::Failed, format!("{operation} `{}`: {error}", path.display()))
    }

    /// Creates the failure for a gateway that cannot be reached.
    pub(crate) fn connecting(server: &str, error: &anyhow::Error) -> Self {
        let unreachable = error.chain().any(<dyn std::error::Error>::is::<tonic::transport::Error>);
        let cause = error.root_cause().to_string();
        if let Some(problem) = TlsProblem::find(error.as_ref()) {
            return Self::tls(&format!("the gateway at `{server}`"), &problem);
        }
        if unreachable {
            let message = format!("no gateway answers at `{server}`: {cause}");
            let advice = if cause.contains("lookup") {
                "check the host name, or give another address with --server URL"
            } else {
                "start one with `gateway`, or give another address with --server URL"
            };
            Self::new(Exit::Unavailable, message).advise(advice)
        } else {
            Self::new(Exit::Failed, format!("connecting to `{server}`: {cause}"))
        }
    }

    /// Creates the failure for a failed TLS handshake; `server` describes the peer.
    pub(crate) fn tls(server: &str, problem: &TlsProblem) -> Self {
        Self::new(Exit::Unavailable, format!("no TLS connection to {server}: {problem}"))
            .advise(problem.advice("--ca-file FILE", "--identity-file FILE"))
    }

    /// Sets the advice, a line on what to do next.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Replaces the advice to ask an operator with the path of this host's operator token.
    #[must_use]
    pub(crate) fn suggest_token_file(self, file: &std::path::Path) -> Self {
        if self.advice() != Some(ASK_AN_OPERATOR) {
            return self;
        }
        self.advise(format!(
            "run it as the operator of this host, with `--token-file {}`",
            file.display()
        ))
    }

    /// Removes the advice to ask an operator, for a caller that is one.
    #[must_use]
    pub(crate) fn without_operator_advice(mut self) -> Self {
        self.advice = self.advice.filter(|advice| advice != ASK_AN_OPERATOR);
        self
    }

    /// Returns the exit code of this failure.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns the advice, if there is any.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// Writes `error: …` and the advice, wrapped at `width` columns; writes nothing for a closed
    /// pipe.
    pub(crate) fn write_to(&self, err: &mut dyn Write, width: Option<usize>) -> io::Result<()> {
        if self.exit == Exit::Ok {
            return Ok(());
        }
        let message = format!("error: {}", self.message);
        for text in [Some(&message), self.advice.as_ref()].into_iter().flatten() {
            writeln!(err, "{}", wrapped(text, 0, width))?;
        }
        err.flush()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        // A status with a source was created locally, from a broken connection: statuses sent by
        // the gateway have none.
        if SpeaksTlsError::is_cause_of(&status) {
            return Self::new(
                Exit::Unavailable,
                "the gateway speaks TLS, but the address is http://",
            )
            .advise("use https:// in the --server address");
        }
        if let Some(problem @ TlsProblem::ClientCertificate(_)) = TlsProblem::find(&status) {
            return Self::tls("the gateway", &problem);
        }
        if status.code() != Code::Ok && std::error::Error::source(&status).is_some() {
            return Self::new(Exit::Unavailable, "the connection to the gateway was lost")
                .advise("try again in a moment");
        }
        let (exit, default_message) = exit_and_default_message(status.code());
        let message = if status.message().is_empty() { default_message } else { status.message() };
        let failure = Self::new(exit, message);
        match status.code() {
            Code::Unauthenticated => failure.advise(
                "sign in with `ctl login NAME`, or give an operator's token with `--token-file FILE`",
            ),
            Code::PermissionDenied => failure.advise(ASK_AN_OPERATOR),
            Code::InvalidArgument | Code::OutOfRange => {
                failure.advise("see the command's --help for valid values")
            }
            Code::Unavailable | Code::DeadlineExceeded => failure.advise("try again in a moment"),
            Code::Unimplemented => failure.advise(
                "check that --server is the admin address (default http://127.0.0.1:8081), \
                 and that ctl and the gateway are of the same version",
            ),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::Internal
            | Code::DataLoss => failure,
        }
    }
}

/// Converts an error of writing the output. A closed pipe (`ctl … | head`) is a success.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::new(Exit::Ok, "stdout was closed")
        } else {
            Self::new(Exit::Failed, format!("writing the output: {error}"))
        }
    }
}

impl From<csv::Error> for Failure {
    fn from(error: csv::Error) -> Self {
        let message = error.to_string();
        // Not `io::Error::from`, which would hide the kind of a broken pipe.
        if let csv::ErrorKind::Io(error) = error.into_kind() {
            return error.into();
        }
        Self::new(Exit::Failed, format!("writing the output: {message}"))
    }
}

/// Returns the exit code of a status, and its message if the gateway sent none.
fn exit_and_default_message(code: Code) -> (Exit, &'static str) {
    match code {
        Code::Unauthenticated => (Exit::NotAllowed, "not signed in"),
        Code::PermissionDenied => (Exit::NotAllowed, "not allowed"),
        Code::NotFound => (Exit::NotFound, "not found"),
        Code::AlreadyExists => (Exit::Conflict, "already exists"),
        Code::FailedPrecondition => (Exit::Conflict, "not allowed in the current state"),
        Code::Aborted => (Exit::Conflict, "a concurrent change conflicted with this one"),
        Code::InvalidArgument | Code::OutOfRange => (Exit::Usage, "invalid value"),
        Code::Unavailable => (Exit::Unavailable, "the gateway is not available"),
        Code::DeadlineExceeded => (Exit::Unavailable, "the gateway took too long"),
        Code::Unimplemented => (Exit::Failed, "the server does not support this call"),
        Code::ResourceExhausted => (Exit::Failed, "a limit of the gateway is reached"),
        Code::Cancelled => (Exit::Failed, "the call was cancelled"),
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => {
            (Exit::Failed, "the gateway failed")
        }
    }
}

/// Replaces control characters with spaces, and other invisible characters as
/// [`proto::text::visible`] does, so that a message from a server stays on one line and cannot
/// control the terminal.
pub(crate) fn one_line(text: &str) -> String {
    let spaced = |c: char| if c.is_control() { ' ' } else { c };
    proto::text::visible(&text.trim_end().chars().map(spaced).collect::<String>())
}
