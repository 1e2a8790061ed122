//! Where in a request something is, and the refusals that say so.

use std::fmt;

use domain::refusal::{Refusal, RequestFault};

/// A place in the request, shown as the `param` of a refusal: `input[3].content[0].type`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Path<'p> {
    /// The request itself.
    Root,
    /// Anything in the responses that this one goes on from; what is inside is not told apart.
    Previous,
    /// A member of an object.
    In(&'p Path<'p>, &'p str),
    /// An element of an array.
    At(&'p Path<'p>, usize),
}

/// The `input` of the request.
pub(super) static INPUT: Path<'static> = Path::In(&Path::Root, "input");

/// The first 64 characters of what a client wrote, to be repeated in a message.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

impl<'p> Path<'p> {
    /// A member of what is here.
    pub(super) const fn field(&'p self, name: &'p str) -> Self {
        Self::In(self, name)
    }

    /// An element of what is here.
    pub(super) const fn at(&'p self, index: usize) -> Self {
        Self::At(self, index)
    }

    /// A refusal of what is here.
    pub(super) fn refuse(&self, code: RequestFault, message: impl Into<String>) -> Refusal {
        let param = self.to_string();
        Refusal::invalid(code, (!param.is_empty()).then_some(param.as_str()), message)
    }

    /// What is here has the wrong type.
    pub(super) fn mistyped(&self, wanted: &str) -> Refusal {
        self.refuse(RequestFault::InvalidType, format!("`{self}` must be {wanted}"))
    }

    /// What should be here is not.
    pub(super) fn missing(&self) -> Refusal {
        self.refuse(RequestFault::MissingRequiredParameter, format!("`{self}` is required"))
    }

    /// What is here breaks a rule: `message` goes on after the path.
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
