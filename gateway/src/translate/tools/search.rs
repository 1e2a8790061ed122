//! Web search by the upstream itself (§9.7).

use serde::Serialize;
use serde_json::value::RawValue;

use super::super::notes::Notes;
use super::super::raw::{Members, Object, boxed};
use super::super::report::Loss;
use crate::domain::refusal::Refusal;

/// Chat's `web_search_options`.
#[derive(Debug, Serialize)]
pub(super) struct WebSearch<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    search_context_size: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_location: Option<Box<RawValue>>,
}

/// The options that a `web_search` tool asks for.
pub(super) fn options<'a>(
    tool: &Object<'a, '_>,
    notes: &mut Notes,
) -> Result<WebSearch<'a>, Refusal> {
    for name in ["filters", "search_content_types"] {
        if tool.get(name).is_some() {
            notes.add(Loss::FieldIgnored, &tool.path(name).to_string(), &tool.path(name))?;
        }
    }
    if tool.flag("external_web_access")? == Some(false) {
        let at = tool.path("external_web_access");
        notes.add(Loss::FieldIgnored, &at.to_string(), &at)?;
    }
    tool.string("search_context_size")?;
    let user_location = tool.object("user_location")?.map(|location| {
        let mut approximate = Members::default();
        for (name, value) in location.members() {
            if name != "type" && value.get() != "null" {
                approximate.put_json(name, value.get());
            }
        }
        let mut whole = Members::default();
        whole.put("type", "approximate");
        whole.put_json("approximate", &approximate.into_object());
        boxed(whole.into_object())
    });
    Ok(WebSearch { search_context_size: tool.get("search_context_size"), user_location })
}
