//! All that can happen: what the user did and what the gateway said.

use secrecy::SecretString;

use crate::keymap::Action;
use crate::model::Link;
use crate::model::record::{Snapshot, Tailed};

/// Something happened.
#[derive(Debug)]
pub enum Message {
    /// The user pressed a key that means something here.
    Act(Action),
    /// The terminal has a new size.
    Resized,
    /// A token was found at start: no need to ask for a password.
    TokenFound(SecretString),
    /// The password was right.
    SignedIn(SecretString),
    /// It was not, or nobody could say; the text says what to do.
    SignInFailed(String),
    /// The gateway does not accept the token any more; the text says what to do.
    SignedOut(String),
    /// The connection came up or went down.
    LinkChanged(Link),
    /// Account and sums were fetched.
    Loaded(Box<Snapshot>),
    /// The request log went on.
    Tailed(Tailed),
}
