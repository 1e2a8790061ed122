//! The state of the sign-in screen: a form to sign in with, or one to register.

use super::form::{Field, Form, FormKind};

/// The label of the field for the account's name.
pub const NAME: &str = "name";
/// The label of the field for its password.
pub const PASSWORD: &str = "password";
/// The label of the field for the password once more.
pub const AGAIN: &str = "again";
/// The label of the field for an invite code.
pub const INVITE: &str = "invite";

/// The sign-in screen.
#[derive(Debug)]
pub struct SignIn {
    /// The form that is shown.
    pub form: Form,
}

impl SignIn {
    /// Returns the form to sign in with.
    pub fn sign_in(name: &str) -> Form {
        let fields = vec![
            Field::text(NAME, "name or e-mail", name),
            Field::masked(PASSWORD, "your password"),
        ];
        Form::new("Sign in", FormKind::SignIn, fields)
    }

    /// Returns the form to register with.
    pub fn register(name: &str) -> Form {
        let fields = vec![
            Field::text(NAME, "a name or an e-mail address", name),
            Field::masked(PASSWORD, "eight characters or more"),
            Field::masked(AGAIN, "the same once more"),
            Field::text(INVITE, "a code, if the gateway asks for one", ""),
        ];
        Form::new("Register", FormKind::Register, fields)
    }
}

impl Default for SignIn {
    fn default() -> Self {
        Self { form: Self::sign_in("") }
    }
}
