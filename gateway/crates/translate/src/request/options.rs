//! The parameters of a translation other than the request.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::super::dialect::Dialect;
use super::super::plan::{ReasoningOutput, ReasoningSealer};
use domain::model::{Modality, Model};

/// The parameters of a translation. They differ per deployment.
#[derive(Clone, Copy)]
pub struct TranslateOptions<'t> {
    /// The dialect of the upstream.
    pub dialect: &'t Dialect,
    /// The content types that the model accepts besides text; others are refused (§2.1).
    pub inputs: InputModalities,
    /// Whether the model accepts `verbosity` regardless of the dialect (`Q-22`).
    pub verbosity: bool,
    /// Whether a loss refuses the request instead of being reported.
    pub strict: bool,
    /// The treatment of hosted tools.
    pub hosted_tools: HostedTools,
    /// Where reasoning appears in the response.
    pub reasoning: ReasoningOutput,
    /// Opens reasoning sealed by an earlier response.
    pub sealer: &'t dyn ReasoningSealer,
    /// The stored items that the request continues or references.
    pub history: StoredHistory<'t>,
}

/// The content types that messages may have besides text (§2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputModalities {
    /// Images.
    pub images: bool,
    /// Files.
    pub files: bool,
    /// Audio recordings.
    pub audio: bool,
}

impl InputModalities {
    /// Returns the modalities of `model`; those that its catalogue entry does not specify come from
    /// `dialect`.
    pub fn of(model: &Model, dialect: &Dialect) -> Self {
        Self {
            images: model.takes(Modality::Image).unwrap_or(true),
            files: model.takes(Modality::File).unwrap_or(dialect.files),
            audio: model.takes(Modality::Audio).unwrap_or(dialect.files),
        }
    }
}

/// The treatment of tools that the API provider would execute (§9.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HostedTools {
    /// Refuses the request.
    #[default]
    Refuse,
    /// Leaves the tools out and reports each.
    Omit,
}

/// The stored responses (§9.5).
#[derive(Clone, Copy, Debug)]
pub enum StoredHistory<'t> {
    /// The response store is off; requests that need it are refused (`Q-27`, `I-13`).
    Disabled,
    /// The response store is on.
    Loaded {
        /// The input and output items of all previous responses, oldest first.
        items: &'t [Box<RawValue>],
        /// The items that this request references, by id.
        references: &'t HashMap<String, Box<RawValue>>,
    },
}

impl StoredHistory<'_> {
    /// Returns whether the response store is on.
    pub const fn is_enabled(&self) -> bool {
        matches!(self, Self::Loaded { .. })
    }
}
