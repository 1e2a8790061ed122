//! Error texts for the user: one line that says what is wrong and what to do.

use proto::client::SpeaksTlsError;
use tonic::{Code, Status, transport};
use trust::TlsProblem;

/// The text for a failed connection or an invalid address.
pub(super) fn unreachable(server: &str, error: &anyhow::Error) -> String {
    if let Some(problem) = TlsProblem::find(error.as_ref()) {
        let advice = problem.advice("TOLLGATE_CA_FILE=FILE", "TOLLGATE_IDENTITY_FILE=FILE");
        return format!("no TLS connection to `{server}`: {problem}; {advice}");
    }
    if error.chain().any(<dyn std::error::Error>::is::<transport::Error>) {
        format!("no gateway at `{server}`: start it, or name another with --server")
    } else {
        format!("{error:#}")
    }
}

/// The text for a rejected token.
pub(super) fn signed_out() -> String {
    "the token is not valid: sign in".to_owned()
}

/// The text for a change requested while disconnected.
pub(super) fn not_connected() -> String {
    "not connected: try again when the gateway is back".to_owned()
}

/// The text for a change whose connection was lost before the response arrived.
pub(super) fn unanswered() -> String {
    "the connection was lost: check whether the change was made before you try again".to_owned()
}

/// The text for a failed sign-in.
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

/// The text for a failed registration.
pub(super) fn register(status: &Status) -> String {
    match status.code() {
        Code::AlreadyExists => "that name is taken: choose another, or sign in".to_owned(),
        Code::ResourceExhausted => "too many registrations: try again later".to_owned(),
        _ => change(status),
    }
}

/// The text for a failed change.
pub(super) fn change(status: &Status) -> String {
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Unimplemented => call(status),
        _ if status.message().is_empty() => call(status),
        _ => status.message().to_owned(),
    }
}

/// The text for a failed call.
pub(super) fn call(status: &Status) -> String {
    if SpeaksTlsError::is_cause_of(status) {
        return SpeaksTlsError.to_string();
    }
    if let Some(problem @ TlsProblem::ClientCertificate(_)) = TlsProblem::find(status) {
        let advice = problem.advice("TOLLGATE_CA_FILE=FILE", "TOLLGATE_IDENTITY_FILE=FILE");
        return format!("{problem}; {advice}");
    }
    match status.code() {
        Code::Unavailable => "the gateway went away".to_owned(),
        Code::DeadlineExceeded => "the gateway does not answer".to_owned(),
        // A status with a message comes from a server that gives a better explanation, such as the
        // API's port.
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
    fn unimplemented_means_an_older_gateway_unless_a_message_explains_it() {
        let message = "this is the address of the API";
        assert!(call(&Status::unimplemented(message)).contains(message));
        assert!(call(&Status::unimplemented("")).contains("older than this program"));
    }
}
