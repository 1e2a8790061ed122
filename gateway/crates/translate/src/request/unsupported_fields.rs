//! Refuses fields that are unsupported if present (`Q-28` to `Q-34`).

use super::super::raw::Object;
use super::fields::KNOWN;
use domain::refusal::{Refusal, RequestFault};
use domain::wire::names::{Folded, ambiguous};

/// Fields that request unsupported server work, and the reason in the message.
const UNSUPPORTED: &[(&str, &str)] = &[
    (
        "conversation",
        "conversations are not stored; use `previous_response_id` or send all of `input`",
    ),
    ("prompt", "there are no stored prompts; send `instructions` and `input`"),
    ("context_management", "the gateway does not compact a context; do so in the client"),
    ("moderation", "the gateway does not moderate"),
    ("access_programs", "the gateway has no access programs"),
    ("image", "the gateway does not generate images"),
];

/// Fields of the chat API without effect here, and their Responses equivalents.
const CHAT_ONLY: &[(&str, Option<&str>)] = &[
    ("messages", Some("input")),
    ("max_tokens", Some("max_output_tokens")),
    ("max_completion_tokens", Some("max_output_tokens")),
    ("response_format", Some("text.format")),
    ("functions", Some("tools")),
    ("function_call", Some("tool_choice")),
    ("n", None),
    ("stop", None),
    ("seed", None),
    ("logit_bias", None),
];

/// Refuses a request with an unsupported field.
pub(super) fn check(body: &Object<'_, '_>) -> Result<(), Refusal> {
    for (name, why) in UNSUPPORTED {
        if body.get(name).is_some() {
            return Err(refuse(body, name, &format!("`{name}` is not supported: {why}")));
        }
    }
    for (name, instead) in CHAT_ONLY {
        if body.get(name).is_some() {
            let message = match instead {
                Some(instead) => {
                    format!("`{name}` is a field of /v1/chat/completions; use `{instead}`")
                }
                None => format!(
                    "`{name}` is a field of /v1/chat/completions without a Responses equivalent"
                ),
            };
            return Err(refuse(body, name, &message));
        }
    }
    if body.boolean("background")? == Some(true) {
        let message = "`background` is not supported: requests are answered synchronously";
        return Err(refuse(body, "background", message));
    }
    Ok(())
}

/// Refuses a field that differs from a known one in letter case only: a log or a proxy that ignores
/// case would take it for the known field.
pub(super) fn check_case(body: &Object<'_, '_>) -> Result<(), Refusal> {
    let known = || KNOWN.iter().copied().chain(CHAT_ONLY.iter().map(|(name, _)| *name));
    for (key, _) in body.members() {
        if known().any(|name| name == key) {
            continue;
        }
        let Some(folded) = Folded::new(key) else { continue };
        if let Some(name) = known().find(|name| folded.is(name)) {
            return Err(ambiguous("", key, name));
        }
    }
    Ok(())
}

fn refuse(body: &Object<'_, '_>, name: &'static str, message: &str) -> Refusal {
    body.path(name).refuse(RequestFault::UnsupportedParameter, message)
}
