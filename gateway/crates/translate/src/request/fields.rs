//! The top-level fields other than `model` and `input`: types and ranges (§1).

use std::borrow::Cow;

use super::super::path::Path;
use super::super::raw::{Object, string};
use domain::refusal::Refusal;
use domain::wire::json::RawJson;

/// Fields with an effect, and fields known not to affect the answer (`Q-33`). Others are reported.
pub(super) const KNOWN: &[&str] = &[
    "additional_tools",
    "background",
    "client_metadata",
    "frequency_penalty",
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Valid values of `include`. Those of hosted tools have no effect, since such items cannot occur
/// (`Q-11`).
const INCLUDABLE: &[&str] = &[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    SEALED_REASONING,
    LOGPROBS,
];
const SEALED_REASONING: &str = "reasoning.encrypted_content";
const LOGPROBS: &str = "message.output_text.logprobs";

/// Numbers that are forwarded unchanged (`Q-9`).
pub(super) const SAMPLING: [&str; 4] =
    ["temperature", "top_p", "presence_penalty", "frequency_penalty"];

/// The validated fields.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// All members, for those that are echoed or forwarded unchanged.
    pub(super) body: Object<'a, 'static>,
    /// `Q-5`.
    pub(super) instructions: Option<Cow<'a, str>>,
    /// `Q-8`.
    pub(super) max_output_tokens: Option<u64>,
    /// `Q-10`.
    pub(super) top_logprobs: Option<u64>,
    /// Whether log probabilities are requested (`Q-10`, `Q-11`).
    pub(super) logprobs: bool,
    /// Whether encrypted reasoning is requested (`Q-11`).
    pub(super) seals_reasoning: bool,
    /// `Q-12`.
    pub(super) tools: Vec<RawJson<'a>>,
    /// The tools of a top-level `additional_tools`, which some clients send (`T-2`).
    pub(super) additional_tools: Vec<RawJson<'a>>,
    /// `Q-14`.
    pub(super) parallel_tool_calls: Option<bool>,
    /// `Q-16`.
    pub(super) effort: Option<Cow<'a, str>>,
    /// `Q-19` to `Q-21`.
    pub(super) format: Format<'a>,
    /// `Q-22`.
    pub(super) verbosity: Option<Cow<'a, str>>,
    /// `Q-23`.
    pub(super) service_tier: Option<Cow<'a, str>>,
}

/// The requested format of the answer's text.
#[derive(Debug)]
pub(super) enum Format<'a> {
    /// Free text.
    Text,
    /// A JSON object.
    JsonObject,
    /// JSON that conforms to a schema.
    JsonSchema {
        name: Cow<'a, str>,
        /// The schema, a JSON object.
        schema: RawJson<'a>,
        strict: Option<bool>,
        description: Option<Cow<'a, str>>,
    },
}

impl<'a> Fields<'a> {
    /// Validates the fields of a request.
    pub(super) fn read(body: Object<'a, 'static>) -> Result<Self, Refusal> {
        for name in ["user", "safety_identifier", "prompt_cache_retention"] {
            body.string(name)?;
        }
        for name in SAMPLING {
            body.number(name)?;
        }
        body.object("stream_options")?;
        body.integer("max_tool_calls", 1)?;
        metadata(&body)?;
        if !matches!(body.string("truncation")?.as_deref(), None | Some("auto" | "disabled")) {
            return Err(body.path("truncation").invalid("must be `auto` or `disabled`"));
        }
        let top_logprobs = body.integer("top_logprobs", 0)?;
        if top_logprobs.is_some_and(|count| count > 20) {
            return Err(body.path("top_logprobs").invalid("must be at most 20"));
        }
        let (seals_reasoning, logprobs) = include(&body)?;
        let text = body.object("text")?;
        let (format, verbosity) = match &text {
            Some(text) => (format(text)?, text.string("verbosity")?),
            None => (Format::Text, None),
        };
        Ok(Self {
            instructions: body.string("instructions")?,
            max_output_tokens: body.integer("max_output_tokens", 1)?,
            top_logprobs,
            logprobs: logprobs || top_logprobs.is_some_and(|count| count > 0),
            seals_reasoning,
            tools: body.array("tools")?,
            additional_tools: body.array("additional_tools")?,
            parallel_tool_calls: body.boolean("parallel_tool_calls")?,
            effort: effort(&body)?,
            format,
            verbosity,
            service_tier: body.string("service_tier")?,
            body,
        })
    }

    /// Returns the names of unknown fields (`Q-35`).
    pub(super) fn unknown(&self) -> impl Iterator<Item = &str> {
        let members = self.body.members().iter();
        members
            .filter(|(_, value)| value.get() != "null")
            .map(|(name, _)| name.as_ref())
            .filter(|name| !KNOWN.contains(name))
    }
}

fn effort<'a>(body: &Object<'a, '_>) -> Result<Option<Cow<'a, str>>, Refusal> {
    let Some(reasoning) = body.object("reasoning")? else { return Ok(None) };
    reasoning.string("summary")?;
    reasoning.string("generate_summary")?;
    reasoning.string("effort")
}

/// Returns whether encrypted reasoning and whether log probabilities are requested.
fn include(body: &Object<'_, '_>) -> Result<(bool, bool), Refusal> {
    let at = body.path("include");
    let (mut sealed, mut logprobs) = (false, false);
    for (index, raw) in body.array("include")?.into_iter().enumerate() {
        let at = at.at(index);
        let name = string(raw, &at)?;
        if !INCLUDABLE.contains(&name.as_ref()) {
            return Err(at.invalid(format_args!("must be one of `{}`", INCLUDABLE.join("`, `"))));
        }
        sealed |= name == SEALED_REASONING;
        logprobs |= name == LOGPROBS;
    }
    Ok((sealed, logprobs))
}

/// Checks that there are at most 16 pairs of short strings (`Q-24`).
fn metadata(body: &Object<'_, '_>) -> Result<(), Refusal> {
    let Some(metadata) = body.object("metadata")? else { return Ok(()) };
    let at = metadata.at();
    if metadata.members().len() > 16 {
        return Err(at.invalid("must have at most 16 members"));
    }
    for (key, value) in metadata.members() {
        if key.chars().count() > 64 {
            return Err(at.invalid("must have keys of at most 64 characters"));
        }
        if value.first_byte() != b'"' {
            return Err(at.mistyped("an object of strings"));
        }
        if string(*value, at)?.chars().count() > 512 {
            return Err(at.invalid("must have values of at most 512 characters"));
        }
    }
    Ok(())
}

fn format<'a>(text: &Object<'a, '_>) -> Result<Format<'a>, Refusal> {
    let Some(format) = text.object("format")? else { return Ok(Format::Text) };
    match format.required_string("type")?.as_ref() {
        "text" => Ok(Format::Text),
        "json_object" => Ok(Format::JsonObject),
        "json_schema" => Ok(Format::JsonSchema {
            name: format.non_empty_string("name")?,
            schema: schema(format.require("schema")?, &format.path("schema"))?,
            strict: format.boolean("strict")?,
            description: format.string("description")?,
        }),
        _ => {
            let allowed = "must be one of `text`, `json_object`, `json_schema`";
            Err(format.path("type").invalid(allowed))
        }
    }
}

fn schema<'a>(raw: RawJson<'a>, at: &Path<'_>) -> Result<RawJson<'a>, Refusal> {
    if raw.first_byte() == b'{' { Ok(raw) } else { Err(at.mistyped("an object")) }
}
