//! Forms with labelled fields, one of which has the focus.
//!
//! Secrets stay in a form until the gateway accepts it, so that a refused form can be sent again.
//! Dropping a form wipes them.

use secrecy::SecretString;
use tui_input::Input;

use std::fmt;

use super::catalogue::CatalogueModel;
use super::keys::Key;
use super::operations::OperationKind;
use super::picker::{Known, Picker};
use super::upstreams::Upstream;

/// A form and its submission state.
pub struct Form {
    /// The title of the form.
    pub title: String,
    /// The operation that submitting performs.
    pub kind: FormKind,
    /// The fields, from top to bottom.
    pub fields: Vec<Field>,
    /// The index of the focused field.
    pub current: usize,
    /// The choice among the values that the focused field offers.
    pub picker: Picker,
    /// Whether the form was sent and the response is pending.
    pub is_submitting: bool,
    /// The error and what to do about it.
    pub problem: Option<String>,
    /// The `ctl` command that does the same, while the fields are valid.
    pub command: Option<String>,
    /// What the change would mean, as far as that is known.
    pub preview: Option<String>,
}

/// The operation that submitting a form performs.
#[derive(Clone, Debug, PartialEq)]
pub enum FormKind {
    /// Signs in.
    SignIn,
    /// Creates an account and signs in.
    Register,
    /// Shows the requests before a time.
    Jump,
    /// Starts this operation.
    Operation(OperationKind),
    /// Changes the password of the signed-in account.
    ChangePassword,
    /// Creates a key.
    CreateKey,
    /// Updates this key.
    EditKey(Box<Key>),
    /// Renames the account with this name.
    Rename(String),
    /// Deletes the account with this name.
    DeleteAccount(String),
    /// Adds a person to the account with this name; empty for the signed-in one.
    AddPerson(String),
    /// Gives the person with this name another role.
    SetPersonRole(String),
    /// Creates an invite.
    CreateInvite,
    /// Rotates the key with this id.
    RotateKey(String),
    /// Credits the account with this name.
    Credit(String),
    /// Suspends the accounts with these names.
    Suspend(Vec<String>),
    /// Changes the plan of the account with this name.
    SetPlan(String),
    /// Gives the account with this name another role.
    GrantRole(String),
    /// Creates or replaces a plan.
    PutPlan {
        /// Whether it is a new one.
        is_new: bool,
    },
    /// Adds a model to the catalogue.
    AddModel,
    /// Updates this catalogue entry.
    EditModel(Box<CatalogueModel>),
    /// Adds an upstream.
    AddUpstream,
    /// Updates this upstream.
    EditUpstream(Box<Upstream>),
}

/// A labelled field of a form.
pub struct Field {
    /// The label, unique within the form.
    pub label: &'static str,
    /// The placeholder shown while the field is empty.
    pub hint: &'static str,
    /// The kind of input.
    pub kind: FieldKind,
    /// The current text.
    pub input: Input,
    /// The kind of values that a text field offers, if any are known.
    pub known: Option<Known>,
    /// Whether the form is refused while the field is empty.
    pub is_required: bool,
}

/// The kind of input that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Visible text.
    Text,
    /// Text displayed as dots.
    Masked,
    /// One of these options.
    Choice(&'static [&'static str]),
    /// Read-only text.
    Fixed,
}

// === impl Form ===

impl Form {
    /// Returns a form with the focus on its first editable field.
    pub fn new(title: impl Into<String>, kind: FormKind, fields: Vec<Field>) -> Self {
        let current = fields.iter().position(|it| it.kind != FieldKind::Fixed).unwrap_or(0);
        Self {
            title: title.into(),
            kind,
            fields,
            current,
            picker: Picker::default(),
            is_submitting: false,
            problem: None,
            command: None,
            preview: None,
        }
    }

    /// Returns the field with this label.
    pub fn field(&self, label: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.label == label)
    }

    /// Returns the trimmed text of the field with this label.
    pub fn text(&self, label: &str) -> &str {
        self.field(label).map_or("", |field| field.input.value().trim())
    }

    /// Splits the text of the field with this label at commas and spaces.
    pub fn parts(&self, label: &str) -> Vec<String> {
        let parts = self.text(label).split([',', ' ']);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// Returns a copy of a secret. The form keeps it for another attempt.
    pub fn secret(&self, label: &str) -> SecretString {
        SecretString::from(self.field(label).map_or("", |field| field.input.value()))
    }

    /// Clears a field, and wipes its text and its yank buffer from memory.
    pub fn clear(&mut self, label: &str) {
        if let Some(field) = self.fields.iter_mut().find(|field| field.label == label) {
            drop(SecretString::from(std::mem::take(&mut field.input).value_and_reset()));
        }
    }

    /// Moves the focus `steps` editable fields forward, wrapping around.
    pub fn move_focus(&mut self, steps: isize) {
        let count = self.fields.len();
        self.picker = Picker::default();
        if let Some(field) = self.fields.get_mut(self.current) {
            field.trim_list();
        }
        for _ in 0..count {
            self.current = (self.current + count).saturating_add_signed(steps) % count.max(1);
            if self.fields[self.current].kind != FieldKind::Fixed {
                return;
            }
        }
    }

    /// Moves the focus to the field with this label and shows `problem` with the label.
    pub fn reject_field(&mut self, label: &str, problem: &str) {
        if let Some(index) = self.fields.iter().position(|field| field.label == label) {
            self.current = index;
        }
        self.picker = Picker { is_hidden: true, ..Picker::default() };
        self.problem = Some(format!("{label}: {problem}"));
    }

    /// Shows a problem from the gateway, and moves the focus to the field that it names: by its
    /// value in backticks, else by its label.
    pub fn reject(&mut self, problem: String) {
        self.is_submitting = false;
        let editable = |field: &&Field| !matches!(field.kind, FieldKind::Fixed);
        let fields = || self.fields.iter().filter(editable);
        let quoted: Vec<_> = problem.split('`').skip(1).step_by(2).collect();
        let has_quoted = |field: &&Field| {
            let mut parts = self.text(field.label).split([',', ' ']).filter(|it| !it.is_empty());
            field.kind != FieldKind::Masked && parts.any(|part| quoted.contains(&part))
        };
        let is_letter = |it: char| it.is_alphanumeric() || "/$".contains(it);
        let names = |field: &&Field| {
            let starts = problem.match_indices(field.label).map(|(start, _)| start);
            let mut ends = starts.map(|start| (start, start + field.label.len()));
            ends.any(|(start, end)| {
                !problem[..start].ends_with(is_letter) && !problem[end..].starts_with(is_letter)
            })
        };
        let found = fields().find(has_quoted).or_else(|| fields().find(names));
        let label = found.map(|field| field.label);
        if let Some(index) = self.fields.iter().position(|field| Some(field.label) == label) {
            self.current = index;
        }
        self.picker = Picker { is_hidden: true, ..Picker::default() };
        self.problem = Some(problem);
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
    /// Returns a text field.
    pub fn text(label: &'static str, hint: &'static str, value: impl Into<String>) -> Self {
        Self::new(label, hint, FieldKind::Text, Input::new(value.into()))
    }

    /// Returns an empty field for a secret.
    pub fn masked(label: &'static str, hint: &'static str) -> Self {
        Self::new(label, hint, FieldKind::Masked, Input::default())
    }

    /// Returns a field with a fixed set of options.
    pub fn choice(label: &'static str, choices: &'static [&'static str], value: &str) -> Self {
        Self::new(label, "", FieldKind::Choice(choices), Input::new(value.to_owned()))
    }

    /// Returns a read-only field.
    pub fn fixed(label: &'static str, value: impl Into<String>) -> Self {
        Self::new(label, "", FieldKind::Fixed, Input::new(value.into()))
    }

    fn new(label: &'static str, hint: &'static str, kind: FieldKind, input: Input) -> Self {
        Self { label, hint, kind, input, known: None, is_required: false }
    }

    /// Marks the field as one that must not be empty.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Makes a text field offer known values.
    #[must_use]
    pub fn offering(mut self, known: Known) -> Self {
        self.known = Some(known);
        self
    }

    /// Drops the separators after the last value of a list.
    fn trim_list(&mut self) {
        if self.known.is_some_and(Known::is_list) {
            let trimmed = self.input.value().trim_end_matches([',', ' ']);
            if trimmed.len() < self.input.value().len() {
                self.input = Input::new(trimmed.to_owned());
            }
        }
    }

    /// Selects the option `steps` after the current one, wrapping around.
    pub fn choose(&mut self, steps: isize) {
        if let FieldKind::Choice(choices) = self.kind
            && !choices.is_empty()
        {
            let current = choices.iter().position(|it| *it == self.input.value()).unwrap_or(0);
            let next = (current + choices.len()).saturating_add_signed(steps) % choices.len();
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
