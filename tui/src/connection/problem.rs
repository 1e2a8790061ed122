//! Error texts for the user: one line that says what is wrong and what to do.

use proto::client::SpeaksTlsError;
use tonic::{Code, Status, transport};
use trust::TlsProblem;

use crate::model::sign_in::{INVITE, NAME, PASSWORD, SignInRefusal};

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

/// The text for a rejected token. `was_accepted` is whether it was valid before.
pub(super) fn signed_out(was_accepted: bool) -> &'static str {
    if was_accepted {
        "the session has expired or was ended elsewhere: sign in again with name and password"
    } else {
        "the token is not valid: sign in"
    }
}

/// The text for a change requested while disconnected.
pub(super) fn not_connected() -> String {
    "not connected: try again when the gateway is back".to_owned()
}

/// The text for a change whose connection was lost before the response arrived.
pub(super) fn unanswered() -> String {
    "the connection was lost: check whether the change was made before you try again".to_owned()
}

/// The refusal of a sign-in.
pub(super) fn sign_in(status: &Status) -> SignInRefusal {
    match status.code() {
        Code::Unauthenticated | Code::NotFound => {
            SignInRefusal::of(PASSWORD, "wrong name or password: type the password again")
        }
        Code::ResourceExhausted => {
            SignInRefusal::general("too many attempts: wait a minute, then try again")
        }
        Code::InvalidArgument => by_word(status.message()),
        Code::PermissionDenied => SignInRefusal::general(status.message()),
        _ => SignInRefusal::general(format!("{}: Enter tries again", call(status))),
    }
}

/// The refusal of a registration.
pub(super) fn register(status: &Status) -> SignInRefusal {
    match status.code() {
        Code::AlreadyExists => {
            SignInRefusal::of(NAME, "that name is taken: choose another, or sign in")
        }
        Code::ResourceExhausted => {
            SignInRefusal::general("too many registrations: try again later")
        }
        Code::InvalidArgument | Code::PermissionDenied | Code::FailedPrecondition => {
            by_word(status.message())
        }
        _ => SignInRefusal::general(change(status)),
    }
}

/// Returns a refusal about the field that the gateway's message names.
fn by_word(message: &str) -> SignInRefusal {
    let field = [PASSWORD, INVITE, NAME].into_iter().find(|field| message.contains(field));
    SignInRefusal { field, text: message.to_owned() }
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
