//! The state of the sign-in screen: the sign-in form or the registration form.

use super::form::{Field, Form, FormKind};

/// The label of the account name field.
pub const NAME: &str = "name";
/// The label of the password field.
pub const PASSWORD: &str = "password";
/// The label of the field that repeats the password.
pub const AGAIN: &str = "again";
/// The label of the invite code field.
pub const INVITE: &str = "invite";

/// The sign-in screen.
#[derive(Debug)]
pub struct SignIn {
    /// The displayed form.
    pub form: Form,
}

impl SignIn {
    /// Returns the sign-in form.
    pub fn sign_in(name: &str) -> Form {
        let fields = vec![
            Field::text(NAME, "name or e-mail", name),
            Field::masked(PASSWORD, "your password"),
        ];
        Form::new("Sign in", FormKind::SignIn, fields)
    }

    /// Returns the registration form.
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
