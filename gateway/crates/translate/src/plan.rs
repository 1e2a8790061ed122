//! What the answer has to know of the request it answers.

use std::collections::{HashMap, HashSet};

use super::report::LossReport;

/// Made by the request's translation, read by the answer's.
#[derive(Debug, Default)]
pub struct ResponsePlan {
    /// The model as the client named it.
    pub model: String,
    /// The members of the response object that repeat the request (§4.1), as JSON text without
    /// braces: `"instructions":null,"max_output_tokens":null,…`. All but those that the answer
    /// decides: `id`, `object`, `created_at`, `completed_at`, `status`, `error`,
    /// `incomplete_details`, `model`, `output`, `usage`, `service_tier`.
    pub echo: String,
    /// The tools that the model was told of.
    pub tools: ToolNames,
    /// The wire names that `tool_choice` restricts the model to (§3.6).
    pub allowed: Option<HashSet<String>>,
    /// Where reasoning is shown.
    pub reasoning: ReasoningOutput,
    /// Whether reasoning is also given as `encrypted_content` (`R-9`).
    pub seals_reasoning: bool,
    /// Whether the client wants the tokens' probabilities (`R-14`).
    pub logprobs: bool,
    /// What was lost or mended.
    pub report: LossReport,
}

/// From the name that the upstream knows a tool by to the one that the client declared (`T-6`).
#[derive(Debug, Default)]
pub struct ToolNames {
    by_wire_name: HashMap<String, Tool>,
}

/// A tool as the client declared it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// What a call of it becomes.
    pub kind: ToolKind,
    /// The namespace that it is a member of.
    pub namespace: Option<String>,
    /// Its name there.
    pub name: String,
}

/// What kinds of tools are converted to functions (`T-5`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToolKind {
    /// A call is a `function_call`.
    Function,
    /// A call is a `custom_tool_call` with free text (`T-8`).
    Custom,
    /// A call is a `tool_search_call`, which the client answers (`T-10`).
    ToolSearch,
}

/// Where reasoning is shown (`R-8`, `S-9`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReasoningOutput {
    /// In `summary`, the one family of events that every client shows.
    #[default]
    Summary,
    /// In `content`.
    Content,
    /// Nowhere: the item has no text.
    Hidden,
}

/// Wraps reasoning so that a client which keeps nothing can give it back, and nobody can write our
/// model's thoughts for it (`R-9`, `I-12`).
pub trait ReasoningSealer: Send + Sync {
    /// Wraps `text`.
    fn seal(&self, text: &str) -> String;
    /// Unwraps what [`seal`](Self::seal) made; `None` for anything else.
    fn open(&self, sealed: &str) -> Option<String>;
}

// === impl ToolNames ===

impl ToolNames {
    /// Adds a tool; gives back the one that already has the name, if it is another one.
    ///
    /// # Errors
    /// Two tools would have one wire name (`T-3`).
    pub fn add(&mut self, wire_name: String, tool: Tool) -> Result<(), Tool> {
        match self.by_wire_name.get(&wire_name) {
            Some(other) if *other != tool => Err(other.clone()),
            _ => {
                self.by_wire_name.insert(wire_name, tool);
                Ok(())
            }
        }
    }

    /// The tool that the upstream knows by this name.
    pub fn find(&self, wire_name: &str) -> Option<&Tool> {
        self.by_wire_name.get(wire_name)
    }

    /// All wire names, in no order.
    pub fn wire_names(&self) -> impl Iterator<Item = &str> {
        self.by_wire_name.keys().map(String::as_str)
    }
}
