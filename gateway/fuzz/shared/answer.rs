//! An answer of the API, whatever the version of HTTP.

use serde_json::Value;

/// The errors of requests that have no known key, or are not requests.
const UNRECORDED: [&str; 6] = [
    "invalid_api_key",
    "unknown_url",
    "malformed_request",
    "headers_too_large",
    "request_timeout",
    "uri_too_long",
];

/// An answer as received.
#[derive(Debug, Default)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The received part of the body.
    pub body: Vec<u8>,
    /// Whether all of the body was received.
    pub is_whole: bool,
}

impl Answer {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// Returns the id of its request.
    ///
    /// # Panics
    /// If it has none, or several.
    pub fn request_id(&self) -> &str {
        let ids = self.headers.iter().filter(|(name, _)| name == "x-request-id").count();
        let id = self.header("x-request-id").filter(|id| id.len() == 36 && ids == 1);
        id.unwrap_or_else(|| panic!("no request id: {self:?}"))
    }

    /// Checks what every answer must have, and that an error has the shape of an error.
    ///
    /// # Panics
    /// If it does not.
    pub fn check(&self) {
        self.request_id();
        if self.status < 400 || !self.is_whole || self.is_health() || self.has_no_body() {
            return;
        }
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body: Value = serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("an error is no JSON: {error} {self:?}"));
        let keys = |value: &Value| -> Vec<String> {
            let object = value.as_object().unwrap_or_else(|| panic!("no object: {self:?}"));
            let mut keys: Vec<_> = object.keys().cloned().collect();
            keys.sort_unstable();
            keys
        };
        assert_eq!(keys(&body), ["error"], "{self:?}");
        let error = &body["error"];
        assert_eq!(keys(error), ["code", "message", "param", "type"], "{self:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{self:?}");
        assert!(error["type"].is_string(), "{self:?}");
    }

    /// Returns whether the request of this answer must have a record, whatever the request was.
    pub fn must_be_recorded(&self) -> bool {
        if self.status < 400 {
            let is_grpc = self.header("content-type").is_some_and(|it| it.contains("grpc"));
            return self.status == 200
                && self.is_whole
                && !self.is_health()
                && !is_grpc
                && !self.has_no_body();
        }
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let (code, message) = (&body["error"]["code"], &body["error"]["message"]);
        let is_framing = message
            .as_str()
            .is_none_or(|text| text.contains("`Host`") || text.contains("`Transfer-Encoding`"));
        !is_framing && code.as_str().is_some_and(|code| !UNRECORDED.contains(&code))
    }

    /// Returns whether it answers a HEAD request, which has no body.
    fn has_no_body(&self) -> bool {
        self.body.is_empty()
    }

    fn is_health(&self) -> bool {
        self.body.starts_with(b"{\"status\":")
    }
}
