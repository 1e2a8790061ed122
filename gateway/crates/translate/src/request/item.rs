//! Parses input items (§2.1, §2.2).

use std::borrow::Cow;

use super::super::path::{INPUT, Path, excerpt};
use super::super::plan::ToolKind;
use super::super::raw::{Object, elements, string};
use super::part::{Part, PartContext, parts, stringified};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::RawJson;

/// An input item that has a chat equivalent, or that is resolved before the translation.
#[derive(Debug)]
pub(super) enum Item<'a> {
    /// A user, system or developer message.
    Message { role: Role, content: Vec<Part<'a>> },
    /// An assistant message.
    Assistant(Vec<Part<'a>>),
    /// Reasoning.
    Reasoning(Reasoning<'a>),
    /// A tool call.
    Call(Call<'a>),
    /// A tool result.
    Output(CallOutput<'a>),
    /// Additional tools (`I-14`).
    Tools(Vec<RawJson<'a>>),
    /// The id of a stored item (`I-13`).
    Reference(Cow<'a, str>),
    /// The record of a hosted tool, unreadable without server state (`I-15`); its `type`.
    HostedRecord(&'static str),
}

/// The role of a message to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    User,
    /// `system` and `developer` (`I-3`).
    System,
}

/// Reasoning sent back by the client (`I-12`).
#[derive(Debug)]
pub(super) struct Reasoning<'a> {
    /// The item id, for reports.
    pub(super) id: Option<Cow<'a, str>>,
    /// The `encrypted_content`, which may be created by another server.
    pub(super) sealed: Option<Cow<'a, str>>,
    pub(super) content: Vec<Cow<'a, str>>,
    pub(super) summary: Vec<Cow<'a, str>>,
}

/// A tool call (`I-9`, `I-11`, `I-16`).
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) kind: ToolKind,
    /// The `call_id`.
    pub(super) id: Cow<'a, str>,
    pub(super) namespace: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    /// The arguments as JSON text; for a custom tool, the raw input.
    pub(super) arguments: Cow<'a, str>,
}

/// A tool result (`I-10`).
#[derive(Debug)]
pub(super) struct CallOutput<'a> {
    /// The id of the call.
    pub(super) call_id: Cow<'a, str>,
    pub(super) result: ToolOutput<'a>,
}

/// The content of a tool result.
#[derive(Debug)]
pub(super) enum ToolOutput<'a> {
    /// Text, images and files.
    Parts(Vec<Part<'a>>),
    /// The tools found by a client-side tool search (`T-10`).
    Tools(Vec<RawJson<'a>>),
}

/// The position of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemLocation {
    /// An index in this request's `input`.
    Input(usize),
    /// Among the stored items of previous responses.
    Previous,
}

// === impl ItemLocation ===

impl ItemLocation {
    /// Returns the path of the item.
    pub(super) fn path(self) -> Path<'static> {
        match self {
            Self::Input(index) => INPUT.at(index),
            Self::Previous => Path::Previous,
        }
    }
}

// === impl Item ===

impl<'a> Item<'a> {
    /// Parses the item at `at`.
    pub(super) fn read(raw: RawJson<'a>, at: Path<'_>) -> Result<Self, Refusal> {
        let object = Object::read(raw, at)?;
        let Some(kind) = object.string("type")? else { return untyped(&object) };
        match kind.as_ref() {
            "message" => message(&object),
            "reasoning" => reasoning(&object).map(Self::Reasoning),
            "function_call" => function_call(&object).map(Self::Call),
            "custom_tool_call" => custom_call(&object).map(Self::Call),
            "tool_search_call" => search_call(&object).map(Self::Call),
            "function_call_output" | "custom_tool_call_output" => output(&object).map(Self::Output),
            "tool_search_output" => search_output(&object).map(Self::Output),
            "additional_tools" => {
                let tools = object.require("tools")?;
                Ok(Self::Tools(elements(tools, &object.path("tools"))?))
            }
            "item_reference" => object.non_empty_string("id").map(Self::Reference),
            "web_search_call" => Ok(Self::HostedRecord("web_search_call")),
            "image_generation_call" => Ok(Self::HostedRecord("image_generation_call")),
            other => Err(unsupported(&object, other, "")),
        }
    }
}

/// Parses an item without `type`: a message or a reference (`I-1`).
fn untyped<'a>(object: &Object<'a, '_>) -> Result<Item<'a>, Refusal> {
    if object.get("role").is_some() {
        return message(object);
    }
    let only_id = object.members().iter().all(|(key, _)| key == "id" || key == "type");
    if only_id && object.get("id").is_some() {
        return object.non_empty_string("id").map(Item::Reference);
    }
    Err(object.at().invalid("has neither a `type` nor a `role`"))
}

fn message<'a>(object: &Object<'a, '_>) -> Result<Item<'a>, Refusal> {
    let role = object.required_string("role")?;
    let content = object.require("content")?;
    let at = object.path("content");
    let role = match role.as_ref() {
        "assistant" => return parts(content, &at, PartContext::Assistant).map(Item::Assistant),
        "user" => Role::User,
        "system" | "developer" => Role::System,
        _ => {
            let allowed = "must be one of `user`, `assistant`, `system`, `developer`";
            return Err(object.path("role").invalid(allowed));
        }
    };
    Ok(Item::Message { role, content: parts(content, &at, PartContext::Input)? })
}

fn reasoning<'a>(object: &Object<'a, '_>) -> Result<Reasoning<'a>, Refusal> {
    let texts = |name: &'static str| {
        let at = object.path(name);
        let list = object.array(name)?;
        list.into_iter()
            .enumerate()
            .map(|(index, raw)| Object::read(raw, at.at(index))?.required_string("text"))
            .collect::<Result<Vec<_>, Refusal>>()
    };
    Ok(Reasoning {
        id: object.string("id")?,
        sealed: object.string("encrypted_content")?,
        content: texts("content")?,
        summary: texts("summary")?,
    })
}

fn function_call<'a>(object: &Object<'a, '_>) -> Result<Call<'a>, Refusal> {
    Ok(Call {
        kind: ToolKind::Function,
        id: object.non_empty_string("call_id")?,
        namespace: object.string("namespace")?.filter(|namespace| !namespace.is_empty()),
        name: object.non_empty_string("name")?,
        arguments: arguments(object)?,
    })
}

fn custom_call<'a>(object: &Object<'a, '_>) -> Result<Call<'a>, Refusal> {
    Ok(Call {
        kind: ToolKind::Custom,
        id: object.non_empty_string("call_id")?,
        namespace: object.string("namespace")?.filter(|namespace| !namespace.is_empty()),
        name: object.non_empty_string("name")?,
        arguments: object.required_string("input")?,
    })
}

fn search_call<'a>(object: &Object<'a, '_>) -> Result<Call<'a>, Refusal> {
    Ok(Call {
        kind: ToolKind::ToolSearch,
        id: client_search(object)?,
        namespace: None,
        name: Cow::Borrowed("tool_search"),
        arguments: arguments(object)?,
    })
}

/// Returns the arguments as JSON text: a string unchanged, any other value as its source text
/// (`I-9`).
fn arguments<'a>(object: &Object<'a, '_>) -> Result<Cow<'a, str>, Refusal> {
    let given = match object.get("arguments") {
        None => Cow::Borrowed(""),
        Some(raw) if raw.first_byte() == b'"' => string(raw, &object.path("arguments"))?,
        Some(raw) => Cow::Borrowed(raw.get()),
    };
    Ok(if given.trim().is_empty() { Cow::Borrowed("{}") } else { given })
}

fn output<'a>(object: &Object<'a, '_>) -> Result<CallOutput<'a>, Refusal> {
    let call_id = object.non_empty_string("call_id")?;
    let at = object.path("output");
    let parts = match object.get("output") {
        // `null` is an empty result, but the member is required.
        None if object.has("output") => vec![Part::Text(Cow::Borrowed(""))],
        None => return Err(at.missing()),
        Some(raw) => match raw.first_byte() {
            b'"' => {
                let text = string(raw, &at)?;
                stringified(&text).unwrap_or_else(|| vec![Part::Text(text)])
            }
            b'[' => parts(raw, &at, PartContext::ToolOutput)?,
            _ => vec![Part::Text(Cow::Borrowed(raw.get()))],
        },
    };
    Ok(CallOutput { call_id, result: ToolOutput::Parts(parts) })
}

fn search_output<'a>(object: &Object<'a, '_>) -> Result<CallOutput<'a>, Refusal> {
    let call_id = client_search(object)?;
    let tools = elements(object.require("tools")?, &object.path("tools"))?;
    Ok(CallOutput { call_id, result: ToolOutput::Tools(tools) })
}

/// Returns the call id of a client-side tool search. A server-side search has no call id (`I-16`).
fn client_search<'a>(object: &Object<'a, '_>) -> Result<Cow<'a, str>, Refusal> {
    let execution = object.string("execution")?;
    if execution.is_some_and(|execution| execution != "client") || object.get("call_id").is_none() {
        let kind = object.required_string("type")?;
        return Err(unsupported(object, &kind, "; only client-side tool search is"));
    }
    object.non_empty_string("call_id")
}

fn unsupported(object: &Object<'_, '_>, kind: &str, but: &str) -> Refusal {
    let message = format!("an input item of type `{}` is not supported{but}", excerpt(kind));
    object.path("type").refuse(RequestFault::UnsupportedInputItem, message)
}
