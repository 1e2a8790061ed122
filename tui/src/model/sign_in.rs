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
    /// Why the gateway cannot be reached, if it cannot.
    pub unreachable: Option<String>,
}

/// Why a sign-in or a registration failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInRefusal {
    /// The label of the field that has to change, if it is one of them.
    pub field: Option<&'static str>,
    /// What went wrong and what to do.
    pub text: String,
}

impl SignInRefusal {
    /// Returns a refusal that is about no field.
    pub fn general(text: impl Into<String>) -> Self {
        Self { field: None, text: text.into() }
    }

    /// Returns a refusal about the field with this label.
    pub fn of(field: &'static str, text: impl Into<String>) -> Self {
        Self { field: Some(field), text: text.into() }
    }
}

impl SignIn {
    /// Returns the sign-in form.
    pub fn sign_in(name: &str) -> Form {
        let fields = vec![
            Field::text(NAME, "name or e-mail", name).required(),
            Field::masked(PASSWORD, "your password").required(),
        ];
        Form::new("Sign in", FormKind::SignIn, fields)
    }

    /// Returns the registration form.
    pub fn register(name: &str) -> Form {
        let fields = vec![
            Field::text(NAME, "a name or an e-mail address", name).required(),
            Field::masked(PASSWORD, "eight characters or more").required(),
            Field::masked(AGAIN, "the same once more").required(),
            Field::text(INVITE, "a code, if the gateway asks for one", ""),
        ];
        Form::new("Register", FormKind::Register, fields)
    }
}

impl Default for SignIn {
    fn default() -> Self {
        Self { form: Self::sign_in(""), unreachable: None }
    }
}
