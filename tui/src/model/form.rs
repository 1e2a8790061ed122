//! A form: fields with a label each, one of which is typed into.
//!
//! Secrets live here only while they are typed: [`Form::take_secret`] moves them out, and a form that
//! is closed wipes them.

use secrecy::SecretString;
use tui_input::Input;

use std::fmt;

use super::catalogue::CatalogueModel;

/// A form and what came of it.
pub struct Form {
    /// What it is about.
    pub title: String,
    /// What sending it does.
    pub kind: FormKind,
    /// The fields, in the order in which they are filled in.
    pub fields: Vec<Field>,
    /// Which of them is typed into.
    pub current: usize,
    /// Whether an answer is being waited for.
    pub is_submitting: bool,
    /// What went wrong and what to do about it.
    pub problem: Option<String>,
}

/// What sending a form does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormKind {
    /// Opens a session.
    SignIn,
    /// Creates an account and opens a session.
    Register,
    /// Gives the account that is signed in another password.
    ChangePassword,
    /// Creates a key.
    CreateKey,
    /// Replaces the key of that id.
    RotateKey(String),
    /// Adds to the balance of the account of that name.
    Credit(String),
    /// Suspends the account of that name.
    Suspend(String),
    /// Puts the account of that name on another plan.
    SetPlan(String),
    /// Creates a plan or replaces it.
    PutPlan,
    /// Puts a model into the catalogue.
    AddModel,
    /// Changes that model of the catalogue.
    EditModel(Box<CatalogueModel>),
    /// Adds an upstream.
    AddUpstream,
    /// Changes the upstream of that name.
    EditUpstream(String),
}

/// A field of a form.
pub struct Field {
    /// What it is called.
    pub label: &'static str,
    /// What to write there; shown while it is empty.
    pub hint: &'static str,
    /// How it is filled in.
    pub kind: FieldKind,
    /// What was written.
    pub input: Input,
}

/// How a field is filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// By typing.
    Text,
    /// By typing what nobody else shall see.
    Masked,
    /// By going through these.
    Choice(&'static [&'static str]),
    /// Not at all: it says what the form is about.
    Fixed,
}

// === impl Form ===

impl Form {
    /// Returns a form whose first open field is typed into.
    pub fn new(title: impl Into<String>, kind: FormKind, fields: Vec<Field>) -> Self {
        let current = fields.iter().position(|it| it.kind != FieldKind::Fixed).unwrap_or(0);
        Self { title: title.into(), kind, fields, current, is_submitting: false, problem: None }
    }

    /// Returns the field of that label.
    pub fn field(&self, label: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.label == label)
    }

    /// Returns what is in the field of that label, without the spaces around it.
    pub fn text(&self, label: &str) -> &str {
        self.field(label).map_or("", |field| field.input.value().trim())
    }

    /// Returns the parts of the field of that label, which are separated by commas or spaces.
    pub fn parts(&self, label: &str) -> Vec<String> {
        let parts = self.text(label).split([',', ' ']);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Takes a secret out and leaves nothing of it in the form, the yank buffer included.
    pub fn take_secret(&mut self, label: &str) -> SecretString {
        let field = self.fields.iter_mut().find(|field| field.label == label);
        let input = field.map(|field| std::mem::take(&mut field.input));
        SecretString::from(input.map(|mut it| it.value_and_reset()).unwrap_or_default())
    }

    /// Goes `steps` fields on, from the last to the first.
    pub fn move_focus(&mut self, steps: isize) {
        let count = self.fields.len();
        for _ in 0..count {
            self.current = (self.current + count).saturating_add_signed(steps) % count.max(1);
            if self.fields[self.current].kind != FieldKind::Fixed {
                return;
            }
        }
    }

    /// Goes to the field of that label, and says what is wrong with it.
    pub fn reject_field(&mut self, label: &str, problem: impl Into<String>) {
        if let Some(place) = self.fields.iter().position(|field| field.label == label) {
            self.current = place;
        }
        self.problem = Some(problem.into());
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Form")
            .field("kind", &self.kind)
            .field("current", &self.current)
            .field("is_submitting", &self.is_submitting)
            .field("problem", &self.problem)
            .finish_non_exhaustive()
    }
}

// === impl Field ===

impl Field {
    /// Returns a field for text.
    pub fn text(label: &'static str, hint: &'static str, value: impl Into<String>) -> Self {
        Self { label, hint, kind: FieldKind::Text, input: Input::new(value.into()) }
    }

    /// Returns a field for a secret.
    pub fn masked(label: &'static str, hint: &'static str) -> Self {
        Self { label, hint, kind: FieldKind::Masked, input: Input::default() }
    }

    /// Returns a field in which one of `choices` stands.
    pub fn choice(label: &'static str, choices: &'static [&'static str], value: &str) -> Self {
        Self {
            label,
            hint: "",
            kind: FieldKind::Choice(choices),
            input: Input::new(value.to_owned()),
        }
    }

    /// Returns a field that cannot be changed.
    pub fn fixed(label: &'static str, value: impl Into<String>) -> Self {
        Self { label, hint: "", kind: FieldKind::Fixed, input: Input::new(value.into()) }
    }

    /// Puts the choice there that stands `steps` after the one that does now.
    pub fn choose(&mut self, steps: isize) {
        if let FieldKind::Choice(choices) = self.kind
            && !choices.is_empty()
        {
            let now = choices.iter().position(|it| *it == self.input.value()).unwrap_or(0);
            let next = (now + choices.len()).saturating_add_signed(steps) % choices.len();
            self.input = Input::new(choices[next].to_owned());
        }
    }
}

impl Drop for Field {
    fn drop(&mut self) {
        if self.kind == FieldKind::Masked {
            drop(SecretString::from(self.input.value_and_reset()));
        }
    }
}
