//! The properties of a request that its answer depends on.

use std::collections::{HashMap, HashSet};

use super::report::LossReport;

/// Created by the translation of the request, read by the translation of the answer.
#[derive(Debug, Default)]
pub struct ResponsePlan {
    /// The model name that the client sent.
    pub model: String,
    /// The members of the response object that repeat the request (§4.1), as JSON text without
    /// braces: `"instructions":null,"max_output_tokens":null,…`. Excludes the members that depend
    /// on the answer: `id`, `object`, `created_at`, `completed_at`, `status`, `error`,
    /// `incomplete_details`, `model`, `output`, `usage`, `service_tier`.
    pub echo: String,
    /// The tools that are declared to the model.
    pub tools: ToolNames,
    /// The wire names that `tool_choice` restricts calls to (§3.6); `None` allows any.
    pub allowed: Option<HashSet<String>>,
    /// Where reasoning appears in the response.
    pub reasoning: ReasoningOutput,
    /// Whether reasoning items also have `encrypted_content` (`R-9`).
    pub seals_reasoning: bool,
    /// Whether the client requested log probabilities (`R-14`).
    pub logprobs: bool,
    /// The losses and repairs of the translation.
    pub report: LossReport,
}

/// Maps the names that the upstream knows tools by to the client's declarations (`T-6`).
#[derive(Debug, Default)]
pub struct ToolNames {
    by_wire_name: HashMap<String, Tool>,
}

/// A tool as declared by the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The kind, which decides the type of the call item.
    pub kind: ToolKind,
    /// The namespace of the tool.
    pub namespace: Option<String>,
    /// The name within the namespace.
    pub name: String,
}

/// The kinds of tools that are converted to functions (`T-5`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// Calls are `function_call` items.
    Function,
    /// Calls are `custom_tool_call` items with free text (`T-8`).
    Custom,
    /// Calls are `tool_search_call` items, which the client executes (`T-10`).
    ToolSearch,
}

/// Where reasoning appears in the response (`R-8`, `S-9`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReasoningOutput {
    /// In `summary`: the only event family that every client displays.
    #[default]
    Summary,
    /// In `content`.
    Content,
    /// Nowhere: the reasoning item has no text.
    Hidden,
}

/// Seals reasoning so that a stateless client can send it back, and so that clients cannot forge
/// reasoning of the model (`R-9`, `I-12`).
pub trait ReasoningSealer: Send + Sync {
    /// Seals `text` into an opaque string.
    fn seal(&self, text: &str) -> String;
    /// Opens a string created by [`seal`](Self::seal); returns `None` for any other string.
    fn open(&self, sealed: &str) -> Option<String>;
}

// === impl ToolNames ===

impl ToolNames {
    /// Adds a tool. Adding an identical tool again has no effect.
    ///
    /// # Errors
    /// Returns the existing tool if a different tool has the same wire name (`T-3`).
    pub fn add(&mut self, wire_name: String, tool: Tool) -> Result<(), Tool> {
        match self.by_wire_name.get(&wire_name) {
            Some(other) if *other != tool => Err(other.clone()),
            _ => {
                self.by_wire_name.insert(wire_name, tool);
                Ok(())
            }
        }
    }

    /// Returns the tool with this wire name.
    pub fn find(&self, wire_name: &str) -> Option<&Tool> {
        self.by_wire_name.get(wire_name)
    }

    /// Returns all wire names in arbitrary order.
    pub fn wire_names(&self) -> impl Iterator<Item = &str> {
        self.by_wire_name.keys().map(String::as_str)
    }
}
