//! What went wrong, as one line for the reader, a line that says what to do next, and an exit code.
//!
//! The table from [`tonic::Code`] to [`Exit`] is here and nowhere else.
#![warn(clippy::wildcard_enum_match_arm)]

use std::fmt;
use std::io::{self, Write};

use proto::client::SpeaksTlsError;
use tonic::{Code, Status};
use trust::TlsProblem;

use crate::output::wrap::wrapped;

/// The exit codes; scripts rely on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It was done (or the reader of the output had seen enough).
    Ok = 0,
    /// It failed for a reason that has no code of its own.
    Failed = 1,
    /// The command line, or a value in it, is wrong.
    Usage = 2,
    /// Not signed in, or not allowed.
    NotAllowed = 3,
    /// What was named does not exist.
    NotFound = 4,
    /// It exists already, or its state forbids it.
    Conflict = 5,
    /// The gateway cannot be reached or cannot answer now.
    Unavailable = 6,
}

/// What who is not allowed to do something does next.
const ASK_AN_OPERATOR: &str =
    "ask an operator, or give an operator's token with `--token-file FILE`";

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    advice: Option<String>,
}

// === impl Failure ===

impl Failure {
    /// Makes a failure with this exit code and message.
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: one_line(&message.to_string()), advice: None }
    }

    /// Makes a failure of the command line.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Makes the failure for a file that could not be read or written.
    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &io::Error) -> Self {
        Self::new(Exit::Failed, format!("{doing} `{}`: {error}", path.display()))
    }

    /// Makes the failure for a gateway that could not be reached.
    pub(crate) fn connecting(server: &str, error: &anyhow::Error) -> Self {
        let unreachable = error.chain().any(<dyn std::error::Error>::is::<tonic::transport::Error>);
        let cause = error.root_cause().to_string();
        if let Some(problem) = TlsProblem::find(error.as_ref()) {
            return Self::tls(&format!("the gateway at `{server}`"), &problem);
        }
        if unreachable {
            let message = format!("no gateway answers at `{server}`: {cause}");
            let advice = if cause.contains("lookup") {
                "check the name of its host, or name another with --server URL"
            } else {
                "start one with `gateway`, or name another with --server URL"
            };
            Self::new(Exit::Unavailable, message).advise(advice)
        } else {
            Self::new(Exit::Failed, format!("connecting to `{server}`: {cause}"))
        }
    }

    /// Makes the failure for a server, `whose` words name it, with which no TLS connection can be made.
    pub(crate) fn tls(whose: &str, problem: &TlsProblem) -> Self {
        Self::new(Exit::Unavailable, format!("no TLS connection to {whose}: {problem}"))
            .advise(problem.advice("--ca-file FILE"))
    }

    /// Says what to do next.
    #[must_use]
    pub(crate) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// Names the operator token that is at hand, where an operator's would do.
    #[must_use]
    pub(crate) fn naming_token(self, file: &std::path::Path) -> Self {
        if self.advice() != Some(ASK_AN_OPERATOR) {
            return self;
        }
        self.advise(format!(
            "run it as the operator of this host, with `--token-file {}`",
            file.display()
        ))
    }

    /// Leaves out the advice to ask an operator, for somebody who is one.
    #[must_use]
    pub(crate) fn without_asking(mut self) -> Self {
        self.advice = self.advice.filter(|advice| advice != ASK_AN_OPERATOR);
        self
    }

    /// Returns the exit code that stands for this failure.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Returns what to do next, where that is known.
    pub fn advice(&self) -> Option<&str> {
        self.advice.as_deref()
    }

    /// Writes `error: …` and the advice in lines of `width` columns, if there is one; nothing if the
    /// failure is a reader that went away.
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
        // The gateway's own statuses have no source: this one was made here, from a connection
        // that broke.
        if SpeaksTlsError::is_cause_of(&status) {
            return Self::new(
                Exit::Unavailable,
                "the gateway speaks TLS, and was addressed in clear",
            )
            .advise("use https:// in the address that --server names");
        }
        if status.code() != Code::Ok && std::error::Error::source(&status).is_some() {
            return Self::new(Exit::Unavailable, "the connection to the gateway broke")
                .advise("try again in a moment");
        }
        let (exit, fallback) = meaning(status.code());
        let message = if status.message().is_empty() { fallback } else { status.message() };
        let failure = Self::new(exit, message);
        match status.code() {
            Code::Unauthenticated => failure.advise(
                "sign in with `ctl login NAME`, or give an operator's token with `--token-file FILE`",
            ),
            Code::PermissionDenied => failure.advise(ASK_AN_OPERATOR),
            Code::InvalidArgument | Code::OutOfRange => {
                failure.advise("see the command's --help for what it takes")
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

/// A failure to write the output. A reader that went away (`ctl … | head`) had seen enough.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Self::new(Exit::Ok, "the reader went away")
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

/// What a code means to a script, and to a reader if the gateway said nothing more.
fn meaning(code: Code) -> (Exit, &'static str) {
    match code {
        Code::Unauthenticated => (Exit::NotAllowed, "not signed in"),
        Code::PermissionDenied => (Exit::NotAllowed, "not allowed"),
        Code::NotFound => (Exit::NotFound, "there is no such thing"),
        Code::AlreadyExists => (Exit::Conflict, "it exists already"),
        Code::FailedPrecondition => (Exit::Conflict, "its state does not allow that"),
        Code::Aborted => (Exit::Conflict, "somebody else changed it at the same time"),
        Code::InvalidArgument | Code::OutOfRange => (Exit::Usage, "a value is wrong"),
        Code::Unavailable => (Exit::Unavailable, "the gateway is not available"),
        Code::DeadlineExceeded => (Exit::Unavailable, "the gateway took too long"),
        Code::Unimplemented => (Exit::Failed, "the server does not know this call"),
        Code::ResourceExhausted => (Exit::Failed, "the gateway allows no more of that now"),
        Code::Cancelled => (Exit::Failed, "the call was cancelled"),
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => {
            (Exit::Failed, "the gateway failed")
        }
    }
}

/// Keeps a message on its line, and a terminal safe from what a server wrote into it.
pub(crate) fn one_line(text: &str) -> String {
    let spaced = |c: char| if c.is_control() { ' ' } else { c };
    proto::text::visible(&text.trim_end().chars().map(spaced).collect::<String>())
}
