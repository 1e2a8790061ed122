//! The table of tool types and their convertibility (`T-5`).

/// The treatment of a tool type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sent as a function (`T-1`).
    Function,
    /// Flattened into its members (`T-6`).
    Namespace,
    /// Sent as a function with one text argument (`T-8`).
    Custom,
    /// Sent as a function; the client searches (`T-10`).
    ClientSearch,
    /// Executed or defined by the API provider.
    Hosted,
    /// Unknown.
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

/// Returns the treatment of a tool with this `type` and `execution`.
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
