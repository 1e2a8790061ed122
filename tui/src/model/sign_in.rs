//! The state of the sign-in screen.
//!
//! The password lives here only while it is typed: submitting moves it out.

use secrecy::SecretString;
use tui_input::Input;

use std::fmt;

/// The form and what came of it.
#[derive(Default)]
pub struct SignIn {
    /// The account's name.
    pub name: Input,
    /// The password; shown masked.
    pub password: Input,
    /// The field that is typed into.
    pub field: Field,
    /// Whether an answer is being waited for.
    pub busy: bool,
    /// What went wrong and what to do about it.
    pub problem: Option<String>,
}

/// The fields of the form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field {
    /// The account's name.
    #[default]
    Name,
    /// The password.
    Password,
}

// === impl SignIn ===

impl SignIn {
    /// Returns the field that is typed into.
    pub fn input_mut(&mut self) -> &mut Input {
        match self.field {
            Field::Name => &mut self.name,
            Field::Password => &mut self.password,
        }
    }

    /// Takes the password out, and leaves nothing of it in the form, the yank buffer included.
    pub fn take_password(&mut self) -> SecretString {
        let mut input = std::mem::take(&mut self.password);
        SecretString::from(input.value_and_reset())
    }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SignIn")
            .field("name", &self.name.value())
            .field("field", &self.field)
            .field("busy", &self.busy)
            .field("problem", &self.problem)
            .finish_non_exhaustive()
    }
}
