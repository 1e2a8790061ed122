//! Positions in a request, and the refusals that name them.

use std::fmt;

use domain::refusal::{Refusal, RequestFault};

/// A position in the request, displayed as the `param` of a refusal: `input[3].content[0].type`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'p> {
    /// The request body.
    Root,
    /// The stored items of previous responses. Positions inside it are all displayed as
    /// `previous_response_id`.
    Previous,
    /// A member of an object.
    In(&'p Path<'p>, &'p str),
    /// An element of an array.
    At(&'p Path<'p>, usize),
}

/// The `input` of the request.
pub(super) static INPUT: Path<'static> = Path::In(&Path::Root, "input");

/// Returns the first 64 characters of client-supplied text, for use in a message.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

impl<'p> Path<'p> {
    /// Returns the path of a member.
    pub(super) const fn field(&'p self, name: &'p str) -> Self {
        Self::In(self, name)
    }

    /// Returns the path of an element.
    pub(super) const fn at(&'p self, index: usize) -> Self {
        Self::At(self, index)
    }

    /// Returns a refusal with this path as `param`.
    pub(super) fn refuse(&self, code: RequestFault, message: impl Into<String>) -> Refusal {
        let param = self.to_string();
        Refusal::invalid(code, (!param.is_empty()).then_some(param.as_str()), message)
    }

    /// Returns the refusal of a value of the wrong type.
    pub(super) fn mistyped(&self, wanted: &str) -> Refusal {
        self.refuse(RequestFault::InvalidType, format!("`{self}` must be {wanted}"))
    }

    /// Returns the refusal for a missing value.
    pub(super) fn missing(&self) -> Refusal {
        self.refuse(RequestFault::MissingRequiredParameter, format!("`{self}` is required"))
    }

    /// Returns the refusal of an invalid value; `message` follows the path in the text.
    pub(super) fn invalid(&self, message: impl fmt::Display) -> Refusal {
        self.refuse(RequestFault::InvalidValue, format!("`{self}` {message}"))
    }

    fn is_earlier(&self) -> bool {
        match self {
            Self::Root => false,
            Self::Previous => true,
            Self::In(parent, _) | Self::At(parent, _) => parent.is_earlier(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            _ if self.is_earlier() => f.write_str("previous_response_id"),
            Self::Root | Self::Previous => Ok(()),
            Self::In(Self::Root, name) => f.write_str(name),
            Self::In(parent, name) => write!(f, "{parent}.{name}"),
            Self::At(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
