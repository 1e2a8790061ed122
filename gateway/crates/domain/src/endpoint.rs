//! The endpoints of `/v1` that leave a request record.

/// An endpoint, as request records name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/responses`
    Responses,
    /// `GET` and `DELETE /v1/responses/{id}`, and its input items
    Response,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model,
    /// Anything else that a known key asked for: an unknown path or a wrong method.
    Other,
}

impl Endpoint {
    /// Every endpoint.
    pub const ALL: [Self; 6] = [
        Self::ChatCompletions,
        Self::Responses,
        Self::Response,
        Self::Models,
        Self::Model,
        Self::Other,
    ];

    /// The name in records.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ChatCompletions => "chat.completions",
            Self::Responses => "responses",
            Self::Response => "responses.retrieve",
            Self::Models => "models",
            Self::Model => "models.retrieve",
            Self::Other => "other",
        }
    }
}
