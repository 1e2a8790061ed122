//! The endpoints of `/v1` whose requests are recorded.

/// The endpoint of a request record.
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
    /// Any other request with a known key: an unknown path or a wrong method.
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

    /// Returns the name in request records.
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
