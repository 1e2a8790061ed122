//! Translates `tool_choice` (§3.6).

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::super::path::{Path, excerpt};
use super::super::plan::ToolKind;
use super::super::raw::{Object, string};
use super::super::request::{HostedTools, TranslateOptions};
use super::collect::Tools;
use super::kind::{Kind, kind};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::RawJson;

static AT: Path<'static> = Path::In(&Path::Root, "tool_choice");

/// The result of [`apply`].
#[derive(Debug, Default)]
pub(crate) struct ToolChoice {
    /// The `tool_choice` of the chat request.
    pub(crate) chat: Option<Value>,
    /// The wire names that calls are restricted to; `None` allows any.
    pub(crate) allowed: Option<HashSet<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Auto,
    None,
    Required,
}

/// Translates `tool_choice`, and removes the tools from `tools` that must not be declared to the
/// model.
pub(crate) fn apply(
    raw: Option<RawJson<'_>>,
    tools: &mut Tools<'_>,
    options: &TranslateOptions<'_>,
) -> Result<ToolChoice, Refusal> {
    let Some(raw) = raw else { return Ok(ToolChoice::default()) };
    if raw.first_byte() == b'"' {
        let mode = mode(&string(raw, &AT)?, &AT)?;
        let chat = apply_mode(mode, tools, options)?;
        return Ok(ToolChoice { chat, allowed: None });
    }
    let choice = Object::read(raw, AT)?;
    let tool_type = choice.required_string("type")?;
    if tool_type == "allowed_tools" {
        return allowed(&choice, tools, options);
    }
    let Some(kind) = tool_kind(&tool_type) else { return Err(unsupported(&tool_type)) };
    let wire_name = find(&choice, kind, tools)?;
    if !options.dialect.tool_choice {
        return Err(not_honoured());
    }
    let chat = json!({"type": "function", "function": {"name": wire_name}});
    Ok(ToolChoice { chat: Some(chat), allowed: None })
}

fn apply_mode(
    mode: Mode,
    tools: &mut Tools<'_>,
    options: &TranslateOptions<'_>,
) -> Result<Option<Value>, Refusal> {
    if mode == Mode::Required {
        if tools.is_empty() {
            return Err(AT.invalid("must not be `required` without tools"));
        }
        if !options.dialect.tool_choice {
            return Err(not_honoured());
        }
    }
    if mode == Mode::None && !options.dialect.tool_choice {
        tools.declared.clear();
    }
    if !options.dialect.tool_choice {
        return Ok(None);
    }
    Ok((!tools.is_empty()).then(|| json!(mode)))
}

fn allowed(
    choice: &Object<'_, '_>,
    tools: &mut Tools<'_>,
    options: &TranslateOptions<'_>,
) -> Result<ToolChoice, Refusal> {
    let mode = match choice.string("mode")? {
        Some(text) => mode(&text, &choice.path("mode"))?,
        None => Mode::Auto,
    };
    choice.require("tools")?;
    let at = choice.path("tools");
    let list = choice.array("tools")?;
    if !(1..=128).contains(&list.len()) {
        return Err(at.invalid("must name 1 to 128 tools"));
    }
    let mut wire_names = Vec::with_capacity(list.len());
    for (index, raw) in list.into_iter().enumerate() {
        let entry = Object::read(raw, at.at(index))?;
        let tool_type = entry.required_string("type")?;
        match (tool_kind(&tool_type), kind(&tool_type, None)) {
            (Some(kind), _) => wire_names.push(find(&entry, kind, tools)?),
            (None, Kind::Hosted) if options.hosted_tools == HostedTools::Omit => {}
            (None, _) => return Err(unsupported(&tool_type)),
        }
    }
    let allowed: HashSet<String> = wire_names.iter().cloned().collect();
    let as_allowed_tools = options.dialect.allowed_tools && !wire_names.is_empty();
    if !as_allowed_tools {
        tools.retain(&allowed);
    }
    let plain = apply_mode(mode, tools, options)?;
    let chat = if as_allowed_tools && mode != Mode::None {
        let functions: Vec<Value> = wire_names
            .iter()
            .map(|name| json!({"type": "function", "function": {"name": name}}))
            .collect();
        let restricted = json!({"mode": mode, "tools": functions});
        Some(json!({"type": "allowed_tools", "allowed_tools": restricted}))
    } else {
        plain
    };
    Ok(ToolChoice { chat, allowed: Some(allowed) })
}

fn mode(text: &str, at: &Path<'_>) -> Result<Mode, Refusal> {
    match text {
        "auto" => Ok(Mode::Auto),
        "none" => Ok(Mode::None),
        "required" => Ok(Mode::Required),
        _ => Err(at.invalid("must be `auto`, `none`, `required` or an object")),
    }
}

/// Returns the kind of a tool type that can be chosen; `None` if it is not a function upstream.
fn tool_kind(tool_type: &str) -> Option<ToolKind> {
    match tool_type {
        "function" => Some(ToolKind::Function),
        "custom" => Some(ToolKind::Custom),
        "tool_search" => Some(ToolKind::ToolSearch),
        _ => None,
    }
}

/// Returns the wire name of the tool that `choice` names, in the Responses or in the chat shape.
fn find(choice: &Object<'_, '_>, kind: ToolKind, tools: &Tools<'_>) -> Result<String, Refusal> {
    let nested = if choice.has("name") { None } else { choice.object("function")? };
    let name = match &nested {
        _ if kind == ToolKind::ToolSearch => Cow::Borrowed("tool_search"),
        Some(nested) => nested.non_empty_string("name")?,
        None => choice.non_empty_string("name")?,
    };
    let namespace = choice.string("namespace")?.filter(|namespace| !namespace.is_empty());
    let shown = excerpt(&name);
    match tools.by_key.get(&(namespace, kind, name)) {
        Some(&index) => Ok(tools.declared[index].chat.function.name.clone()),
        None => Err(AT.invalid(format_args!("names `{shown}`, which is not among the tools"))),
    }
}

fn unsupported(tool_type: &str) -> Refusal {
    let message = format!("a tool of type `{}` cannot be chosen", excerpt(tool_type));
    AT.refuse(RequestFault::UnsupportedToolChoice, message)
}

fn not_honoured() -> Refusal {
    let message = "the upstream of this model does not support `tool_choice`; use `auto` or `none`";
    AT.refuse(RequestFault::UnsupportedToolChoice, message)
}
