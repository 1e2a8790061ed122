//! Collects the tools of a request, flattens namespaces and removes duplicates (`T-2` to `T-6`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::super::loss_recorder::LossRecorder;
use super::super::path::Path;
use super::super::plan::{Tool, ToolKind, ToolNames};
use super::super::raw::Object;
use super::super::report::Loss;
use super::super::request::{HostedTools, TranslateOptions};
use super::declare::{self, DeclaredTool};
use super::kind::{Kind, kind};
use super::name;
use super::unsupported::UnsupportedToolList;
use domain::refusal::Refusal;
use domain::wire::json::RawJson;

/// Collects tools list by list.
pub(crate) struct Collector<'a, 't> {
    options: &'t TranslateOptions<'t>,
    tools: Vec<DeclaredTool<'a>>,
    by_key: HashMap<Key<'a>, usize>,
    unsupported: UnsupportedToolList,
}

/// The tools that may be declared to the model.
#[derive(Debug)]
pub(crate) struct Tools<'a> {
    pub(super) declared: Vec<DeclaredTool<'a>>,
    pub(super) by_key: HashMap<Key<'a>, usize>,
}

/// The identity of a tool: namespace, kind and name (`T-2`).
pub(super) type Key<'a> = (Option<Cow<'a, str>>, ToolKind, Cow<'a, str>);

/// The source of a list of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Declared by the client.
    Declared,
    /// Found by a tool search, which loads deferred tools (`T-10`).
    Found,
}

/// The namespace of the current list.
type Namespace<'n, 'a> = Option<&'n Cow<'a, str>>;

// === impl Collector ===

impl<'a, 't> Collector<'a, 't> {
    /// Creates an empty collector.
    pub(crate) fn new(options: &'t TranslateOptions<'t>) -> Self {
        Self {
            options,
            tools: Vec::new(),
            by_key: HashMap::new(),
            unsupported: UnsupportedToolList::default(),
        }
    }

    /// Adds a list of tools and returns their wire names.
    pub(crate) fn add(
        &mut self,
        list: &[RawJson<'a>],
        at: &Path<'_>,
        source: Source,
        losses: &mut LossRecorder,
    ) -> Result<Vec<String>, Refusal> {
        let mut names = Vec::new();
        for (index, raw) in list.iter().enumerate() {
            self.add_one(*raw, at.at(index), None, source, losses, &mut names)?;
        }
        Ok(names)
    }

    /// Returns all tools, or the refusal of those that cannot be converted.
    pub(crate) fn finish(self) -> Result<Tools<'a>, Refusal> {
        self.unsupported.check()?;
        Ok(Tools { declared: self.tools, by_key: self.by_key })
    }

    fn add_one(
        &mut self,
        raw: RawJson<'a>,
        at: Path<'_>,
        namespace: Namespace<'_, 'a>,
        source: Source,
        losses: &mut LossRecorder,
        names: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let tool = Object::read(raw, at)?;
        let Some(tool_type) = tool.string("type")? else {
            self.unsupported.add(None, "", at.to_string());
            return Ok(());
        };
        let kind = kind(&tool_type, tool.string("execution")?.as_deref());
        let converts = match kind {
            Kind::Function | Kind::Custom => true,
            Kind::Namespace | Kind::ClientSearch => namespace.is_none(),
            Kind::Hosted
                if self.options.hosted_tools == HostedTools::Omit && !self.options.strict =>
            {
                return losses.record(Loss::HostedToolOmitted, &tool_type, &at);
            }
            Kind::Hosted | Kind::Unknown => false,
        };
        if !converts {
            self.unsupported.add(Some(&tool_type), "", at.to_string());
            return Ok(());
        }
        if let Some(suffix) = unsupported_feature(&tool, source)? {
            self.unsupported.add(Some(&tool_type), suffix, at.to_string());
            return Ok(());
        }
        let supports_strict = self.options.dialect.strict;
        let declared = match kind {
            Kind::Namespace => return self.add_members(&tool, source, losses, names),
            Kind::Custom => declare::custom(&tool, namespace, losses)?,
            Kind::ClientSearch => declare::search(&tool)?,
            _ => declare::function(&tool, namespace, supports_strict, losses)?,
        };
        names.push(declared.chat.function.name.clone());
        self.insert(declared);
        Ok(())
    }

    fn add_members(
        &mut self,
        namespace: &Object<'a, '_>,
        source: Source,
        losses: &mut LossRecorder,
        names: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let name = namespace.non_empty_string("name")?;
        name::check(&name, &namespace.path("name"))?;
        namespace.require("tools")?;
        let at = namespace.path("tools");
        for (index, raw) in namespace.array("tools")?.into_iter().enumerate() {
            self.add_one(raw, at.at(index), Some(&name), source, losses, names)?;
        }
        Ok(())
    }

    /// Inserts a tool. A duplicate keeps the first position and takes the newest definition
    /// (`T-2`).
    fn insert(&mut self, tool: DeclaredTool<'a>) {
        let key = (tool.namespace.clone(), tool.kind, tool.name.clone());
        if let Some(&index) = self.by_key.get(&key) {
            self.tools[index] = tool;
        } else {
            self.by_key.insert(key, self.tools.len());
            self.tools.push(tool);
        }
    }
}

/// Returns the description of an unsupported feature that the tool requires, if any (`T-4`).
fn unsupported_feature(
    tool: &Object<'_, '_>,
    source: Source,
) -> Result<Option<&'static str>, Refusal> {
    if tool.boolean("defer_loading")? == Some(true) && source == Source::Declared {
        return Ok(Some(" with `defer_loading`"));
    }
    if tool.boolean("async")? == Some(true) {
        return Ok(Some(" with `async`"));
    }
    if tool.get("allowed_callers").is_some() {
        let callers = tool.array("allowed_callers")?;
        if !callers.iter().any(|caller| caller.get() == "\"direct\"") {
            return Ok(Some(" with `allowed_callers` other than `direct`"));
        }
    }
    Ok(None)
}

// === impl Tools ===

impl Tools<'_> {
    /// Returns whether there is no tool.
    pub(crate) fn is_empty(&self) -> bool {
        self.declared.is_empty()
    }

    /// Removes all tools except those with these wire names.
    pub(super) fn retain(&mut self, wire_names: &HashSet<String>) {
        self.declared.retain(|tool| wire_names.contains(&tool.chat.function.name));
    }

    /// Returns the `tools` of the chat request.
    pub(crate) fn chat(&self) -> impl serde::Serialize {
        self.declared.iter().map(|tool| &tool.chat).collect::<Vec<_>>()
    }

    /// Returns the map from wire names to tools.
    ///
    /// # Errors
    /// Two tools have the same wire name (`T-3`).
    pub(crate) fn names(&self) -> Result<ToolNames, Refusal> {
        let mut names = ToolNames::default();
        for tool in &self.declared {
            let wire_name = tool.chat.function.name.clone();
            let declared = Tool {
                kind: tool.kind,
                namespace: tool.namespace.as_deref().map(str::to_owned),
                name: tool.name.clone().into_owned(),
            };
            names.add(wire_name, declared).map_err(|_| {
                let name = &tool.chat.function.name;
                let message = format!(
                    "tool name collision: another tool is known to the model as `{name}` too"
                );
                let code = domain::refusal::RequestFault::InvalidValue;
                Refusal::invalid(code, Some(&tool.at), message)
            })?;
        }
        Ok(names)
    }
}
