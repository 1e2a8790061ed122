//! Writes the members of the response object that repeat the request (§4.1).

use super::super::raw::{Object, ObjectWriter, compact};
use super::fields::Fields;
use domain::refusal::Refusal;
use domain::wire::json::RawJson;

/// Members that are repeated unchanged, and their values if absent.
const ECHOED: &[(&str, &str)] = &[
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("previous_response_id", "null"),
    ("safety_identifier", "null"),
    ("prompt_cache_key", "null"),
    ("parallel_tool_calls", "true"),
    ("temperature", "1"),
    ("top_p", "1"),
    ("presence_penalty", "0"),
    ("frequency_penalty", "0"),
    ("top_logprobs", "0"),
    ("tool_choice", "\"auto\""),
    ("truncation", "\"disabled\""),
    ("metadata", "{}"),
];

/// Members that are repeated only if the client sent them.
const ECHOED_IF_SENT: [&str; 3] = ["user", "prompt_cache_retention", "prompt_cache_options"];

/// Returns the members as JSON text on one line, without braces.
pub(super) fn echo(fields: &Fields<'_>, store: bool) -> Result<String, Refusal> {
    let body = &fields.body;
    let mut echo = ObjectWriter::default();
    for (name, absent) in ECHOED {
        echo.put_json(name, body.get(name).map_or(absent, RawJson::get));
    }
    echo.put("store", &store);
    echo.put("background", &false);
    echo.put_json("reasoning", &reasoning(body)?);
    echo.put_json("text", &text(body)?);
    let tools: Vec<String> = fields.tools.iter().map(|raw| tool(*raw)).collect();
    echo.put_json("tools", &format!("[{}]", tools.join(",")));
    for name in ECHOED_IF_SENT {
        if let Some(raw) = body.get(name) {
            echo.put_json(name, raw.get());
        }
    }
    Ok(echo.into_text())
}

/// Returns `reasoning`: an object with `effort` and `summary` always, and with `context` and `mode`
/// if sent (`Q-17`, `Q-18`).
fn reasoning(body: &Object<'_, '_>) -> Result<String, Refusal> {
    let mut echo = ObjectWriter::default();
    let sent = body.object("reasoning")?;
    let get = |name| sent.as_ref().and_then(|sent| sent.get(name)).map(RawJson::get);
    echo.put_json("effort", get("effort").unwrap_or("null"));
    echo.put_json("summary", get("summary").or(get("generate_summary")).unwrap_or("null"));
    for name in ["context", "mode"] {
        if let Some(raw) = get(name) {
            echo.put_json(name, raw);
        }
    }
    Ok(echo.into_object())
}

/// Returns `text`, always with a `format`; a schema format has all its keys.
fn text(body: &Object<'_, '_>) -> Result<String, Refusal> {
    let mut echo = ObjectWriter::default();
    let sent = body.object("text")?;
    let format = match &sent {
        Some(sent) => sent.object("format")?,
        None => None,
    };
    match format {
        None => echo.put_json("format", r#"{"type":"text"}"#),
        Some(format) if format.get("schema").is_some() => {
            let absent = [("description", "null"), ("strict", "false")];
            echo.put_json("format", &completed(&format, &absent));
        }
        Some(format) => echo.put_json("format", &completed(&format, &[])),
    }
    for (name, value) in sent.iter().flat_map(Object::members) {
        if name != "format" {
            echo.put_json(name, value.get());
        }
    }
    Ok(echo.into_object())
}

/// Returns a tool unchanged, except that a function has all its keys.
fn tool(raw: RawJson<'_>) -> String {
    let is_function = raw.first_byte() == b'{';
    match Object::read(raw, super::super::path::Path::Root) {
        Ok(tool) if is_function && tool.get("type").map(RawJson::get) == Some("\"function\"") => {
            completed(&tool, &[("description", "null"), ("parameters", "null"), ("strict", "null")])
        }
        _ => compact(raw.get()),
    }
}

fn completed(object: &Object<'_, '_>, absent: &[(&str, &str)]) -> String {
    let mut members = ObjectWriter::default();
    for (name, value) in object.members() {
        let absent = absent.iter().find(|(key, _)| key == name).map(|(_, absent)| *absent);
        let null = value.is_null();
        members.put_json(name, absent.filter(|_| null).unwrap_or(value.get()));
    }
    for (name, value) in absent {
        if !object.has(name) {
            members.put_json(name, value);
        }
    }
    members.into_object()
}
