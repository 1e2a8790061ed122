//! What a translation depends on besides the request.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::super::dialect::Dialect;
use super::super::plan::{ReasoningOutput, ReasoningSealer};
use domain::model::{Modality, Model};

/// On what options a request is translated. They differ from deployment to deployment.
#[derive(Clone, Copy)]
pub struct TranslateOptions<'t> {
    /// What the upstream takes.
    pub dialect: &'t Dialect,
    /// What the model takes beside text; the rest is refused (§2.1).
    pub inputs: InputModalities,
    /// Whether the model takes `verbosity` whatever the dialect says (`Q-22`).
    pub verbosity: bool,
    /// Whether any loss is a refusal instead of a note.
    pub strict: bool,
    /// What becomes of hosted tools.
    pub hosted_tools: HostedTools,
    /// Where reasoning is shown.
    pub reasoning: ReasoningOutput,
    /// Opens reasoning that we sealed.
    pub sealer: &'t dyn ReasoningSealer,
    /// What the request goes on from.
    pub history: StoredHistory<'t>,
}

/// What messages may hold beside text (§2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputModalities {
    /// Images.
    pub images: bool,
    /// Files.
    pub files: bool,
    /// Recordings.
    pub audio: bool,
}

impl InputModalities {
    /// What `model` takes from an upstream of `dialect`, which decides where the model's entry does not say.
    pub fn of(model: &Model, dialect: &Dialect) -> Self {
        Self {
            images: model.takes(Modality::Image).unwrap_or(true),
            files: model.takes(Modality::File).unwrap_or(dialect.files),
            audio: model.takes(Modality::Audio).unwrap_or(dialect.files),
        }
    }
}

/// What becomes of tools that would run at the API's operator (§9.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostedTools {
    /// The request is refused.
    #[default]
    Refuse,
    /// They are left out, and the report names each.
    Omit,
}

/// What the gateway has kept of earlier responses (§9.5).
#[derive(Clone, Copy, Debug)]
pub enum StoredHistory<'t> {
    /// Nothing: the store is off, and requests that need it are refused (`Q-27`, `I-13`).
    Disabled,
    /// The store is on.
    Loaded {
        /// The input and output items of all responses before this one, oldest first.
        items: &'t [Box<RawValue>],
        /// The items that this request refers to, by id.
        references: &'t HashMap<String, Box<RawValue>>,
    },
}

impl StoredHistory<'_> {
    /// Whether the store is on.
    pub const fn is_enabled(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }
}
