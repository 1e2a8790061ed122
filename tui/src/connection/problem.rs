//! Errors as a line that says what is wrong and what to do about it.

use proto::client::SpeaksTlsError;
use tonic::{Code, Status, transport};
use trust::TlsProblem;

/// Nobody answered at `server`, or it is no address.
pub(super) fn unreachable(server: &str, error: &anyhow::Error) -> String {
    if let Some(problem) = TlsProblem::find(error.as_ref()) {
        let advice = problem.advice("TOLLGATE_CA_FILE=FILE");
        return format!("no TLS connection to `{server}`: {problem}; {advice}");
    }
    if error.chain().any(<dyn std::error::Error>::is::<transport::Error>) {
        format!("no gateway at `{server}`: start it, or name another with --server")
    } else {
        format!("{error:#}")
    }
}

/// The token is not accepted.
pub(super) fn signed_out() -> String {
    "the token is not valid (any more): sign in".to_owned()
}

/// Nothing can be changed while nobody answers.
pub(super) fn not_connected() -> String {
    "not connected: try again when the gateway is back".to_owned()
}

/// The connection went away before the answer to a change came.
pub(super) fn unanswered() -> String {
    "the connection was lost: look whether it was done before you try again".to_owned()
}

/// A password was not accepted, or could not be checked.
pub(super) fn sign_in(status: &Status) -> String {
    match status.code() {
        Code::Unauthenticated | Code::NotFound => {
            "wrong name or password: type the password again".to_owned()
        }
        Code::ResourceExhausted => "too many attempts: wait a minute, then try again".to_owned(),
        Code::InvalidArgument | Code::PermissionDenied => status.message().to_owned(),
        _ => format!("{}: type the password to try again", call(status)),
    }
}

/// An account was not created.
pub(super) fn register(status: &Status) -> String {
    match status.code() {
        Code::AlreadyExists => "that name is taken: choose another, or sign in".to_owned(),
        Code::ResourceExhausted => "too many registrations: try again later".to_owned(),
        _ => change(status),
    }
}

/// A change was not made.
pub(super) fn change(status: &Status) -> String {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Unimplemented => call(status),
        _ if status.message().is_empty() => call(status),
        _ => status.message().to_owned(),
    }
}

/// A call failed in a way that may pass.
pub(super) fn call(status: &Status) -> String {
    if SpeaksTlsError::is_cause_of(status) {
        return SpeaksTlsError.to_string();
    }
    match status.code() {
        Code::Unavailable => "the gateway went away".to_owned(),
        Code::DeadlineExceeded => "the gateway does not answer".to_owned(),
        // one with words is from an address that knows better, such as the API's
        Code::Unimplemented if status.message().is_empty() => {
            "the gateway is older than this program: update the gateway".to_owned()
        }
        code if status.message().is_empty() => {
            format!("the gateway failed: {}", code.description())
        }
        _ => format!("the gateway says: {}", status.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_implemented_is_old_unless_the_other_side_says_why() {
        let told = "this is the address of the API";
        assert!(call(&Status::unimplemented(told)).contains(told));
        assert!(call(&Status::unimplemented("")).contains("older than this program"));
    }
}
