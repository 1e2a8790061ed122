//! Converts tools to chat functions (`T-1`, `T-8`, `T-10`).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::loss_recorder::LossRecorder;
use super::super::path::Path;
use super::super::plan::ToolKind;
use super::super::raw::{Object, raw_value};
use super::super::report::Loss;
use super::name;
use domain::refusal::Refusal;

const EMPTY_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;
const CUSTOM_TOOL_PARAMETERS: &str = r#"{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}"#;
const TOOL_SEARCH_PARAMETERS: &str = r#"{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}"#;

/// An entry of the chat request's `tools`.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename = "function")]
pub(super) struct ChatTool<'a> {
    pub(super) function: Function<'a>,
}

/// The function as declared to the model.
#[derive(Debug, Serialize)]
pub(super) struct Function<'a> {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<Cow<'a, str>>,
    pub(super) parameters: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

/// A converted tool.
#[derive(Debug)]
pub(super) struct DeclaredTool<'a> {
    pub(super) kind: ToolKind,
    pub(super) namespace: Option<Cow<'a, str>>,
    pub(super) name: Cow<'a, str>,
    pub(super) chat: ChatTool<'a>,
    /// Its path in the request, for refusals.
    pub(super) at: String,
}

/// Converts a function tool.
pub(super) fn function<'a>(
    tool: &Object<'a, '_>,
    namespace: Option<&Cow<'a, str>>,
    supports_strict: bool,
    losses: &mut LossRecorder,
) -> Result<DeclaredTool<'a>, Refusal> {
    // Some clients send the nested shape of chat.
    if !tool.has("name")
        && let Some(nested) = tool.object("function")?
    {
        return function(&nested, namespace, supports_strict, losses);
    }
    let name = tool.non_empty_string("name")?;
    name::check(&name, &tool.path("name"))?;
    let mut strict = tool.boolean("strict")?;
    if !supports_strict && strict.take() == Some(true) {
        losses.record(Loss::StrictNotEnforced, &name, &tool.path("strict"))?;
    }
    let parameters = parameters(tool, EMPTY_PARAMETERS)?;
    Ok(declared(
        ToolKind::Function,
        namespace,
        name,
        tool.string("description")?,
        parameters,
        strict,
    ))
    .map(|declared| DeclaredTool { at: tool.at().to_string(), ..declared })
}

/// Converts a custom tool to a function with the text as `input`; its grammar becomes part of the
/// description.
pub(super) fn custom<'a>(
    tool: &Object<'a, '_>,
    namespace: Option<&Cow<'a, str>>,
    losses: &mut LossRecorder,
) -> Result<DeclaredTool<'a>, Refusal> {
    let name = tool.non_empty_string("name")?;
    name::check(&name, &tool.path("name"))?;
    let mut description = tool.string("description")?.unwrap_or_default().into_owned();
    if !description.is_empty() {
        description.push_str("\n\n");
    }
    description.push_str("Put the raw text, unmodified and not quoted in any way, into `input`.");
    if let Some(format) = tool.object("format")? {
        match format.required_string("type")?.as_ref() {
            "text" => {}
            "grammar" => {
                let syntax = format.required_string("syntax")?;
                let definition = format.required_string("definition")?;
                losses.record(Loss::GrammarNotEnforced, &name, &tool.path("format"))?;
                description.push_str("\n\nThe text must follow this grammar (");
                description.push_str(&syntax);
                description.push_str("):\n");
                description.push_str(&definition);
            }
            _ => return Err(format.path("type").invalid("must be `text` or `grammar`")),
        }
    }
    let parameters = Cow::Owned(raw_value(CUSTOM_TOOL_PARAMETERS.to_owned()));
    let description = Some(Cow::Owned(description));
    Ok(declared(ToolKind::Custom, namespace, name, description, parameters, None))
        .map(|declared| DeclaredTool { at: tool.at().to_string(), ..declared })
}

/// Converts the client-side tool search.
pub(super) fn search<'a>(tool: &Object<'a, '_>) -> Result<DeclaredTool<'a>, Refusal> {
    let description = tool.string("description")?;
    let description = description.or(Some(Cow::Borrowed("Finds more tools that can be called.")));
    let parameters = parameters(tool, TOOL_SEARCH_PARAMETERS)?;
    let name = Cow::Borrowed("tool_search");
    Ok(declared(ToolKind::ToolSearch, None, name, description, parameters, None))
        .map(|declared| DeclaredTool { at: tool.at().to_string(), ..declared })
}

fn declared<'a>(
    kind: ToolKind,
    namespace: Option<&Cow<'a, str>>,
    name: Cow<'a, str>,
    description: Option<Cow<'a, str>>,
    parameters: Cow<'a, RawValue>,
    strict: Option<bool>,
) -> DeclaredTool<'a> {
    let wire_name = name::wire_name(namespace.map(AsRef::as_ref), &name);
    let function = Function { name: wire_name, description, parameters, strict };
    let namespace = namespace.cloned();
    DeclaredTool { kind, namespace, name, chat: ChatTool { function }, at: String::new() }
}

/// Returns the schema of the arguments; adds `type` if absent and changes nothing else.
fn parameters<'a>(tool: &Object<'a, '_>, absent: &str) -> Result<Cow<'a, RawValue>, Refusal> {
    let Some(raw) = tool.get("parameters") else {
        return Ok(Cow::Owned(raw_value(absent.to_owned())));
    };
    let at: Path<'_> = tool.path("parameters");
    if raw.first_byte() != b'{' {
        return Err(at.mistyped("an object"));
    }
    let schema = Object::read(raw, at)?;
    if schema.members().is_empty() {
        return Ok(Cow::Owned(raw_value(absent.to_owned())));
    }
    if schema.has("type") {
        return Ok(Cow::Borrowed(raw.to_raw_value()));
    }
    Ok(Cow::Owned(raw_value(format!(r#"{{"type":"object",{}"#, &raw.get()[1..]))))
}
