//! What kinds of tools there are, and which of them a function can stand for (`T-5`).

/// What becomes of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sent as it is (`T-1`).
    Function,
    /// Its members are sent (`T-6`).
    Namespace,
    /// Sent as a function that takes one text (`T-8`).
    Custom,
    /// Sent as a function; the client searches (`T-10`).
    ClientSearch,
    /// Would run, or is defined, at the API's operator.
    Hosted,
    /// Nothing that we know.
    Unknown,
}

const HOSTED: &[&str] = &[
    "apply_patch",
    "code_interpreter",
    "file_search",
    "image_generation",
    "local_shell",
    "mcp",
    "programmatic_tool_calling",
    "shell",
    "tool_search",
];

/// The one table: from `type` and, for tool search, `execution`.
pub(super) fn kind(kind: &str, execution: Option<&str>) -> Kind {
    match kind {
        "function" => Kind::Function,
        "namespace" => Kind::Namespace,
        "custom" => Kind::Custom,
        "tool_search" if execution == Some("client") => Kind::ClientSearch,
        _ if kind.starts_with("computer") || kind.starts_with("web_search") => Kind::Hosted,
        _ if HOSTED.contains(&kind) => Kind::Hosted,
        _ => Kind::Unknown,
    }
}
