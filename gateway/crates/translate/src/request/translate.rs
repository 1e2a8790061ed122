//! Builds the chat request and the plan for its answer.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;

use super::super::loss_recorder::LossRecorder;
use super::super::path::{INPUT, Path, excerpt};
use super::super::plan::ResponsePlan;
use super::super::raw::ObjectWriter;
use super::super::report::Loss;
use super::super::tools::choice::{self, ToolChoice};
use super::super::tools::collect::Source;
use super::super::tools::{Collector, Tools};
use super::call_links::{Entry, link};
use super::chat::{ChatMessage, JsonSchema, ResponseFormat};
use super::fields::{Fields, Format, SAMPLING};
use super::item::{CallOutput, Item, ItemLocation, Role, ToolOutput};
use super::options::{HostedTools, StoredHistory, TranslateOptions};
use super::part::Part;
use super::turns::{Conversation, messages};
use super::{Input, Request, echo};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::RawJson;

/// A request translated for one upstream.
pub struct TranslatedRequest {
    /// The plan for the answer.
    pub plan: Arc<ResponsePlan>,
    /// Whether the response and its input must be stored (`Q-26`).
    pub store: bool,
    /// The client's cap on output tokens, and the name of its chat field.
    max_output: Option<u64>,
    output_cap_field: &'static str,
    /// The members of the chat request except `model` and the cap, without braces.
    members: String,
}

impl TranslatedRequest {
    /// Returns the chat request for `upstream_model`. The output is capped at the lower of `cap`,
    /// in tokens, and the client's cap.
    pub fn chat_body(&self, upstream_model: &str, cap: Option<u64>) -> Bytes {
        let mut model = ObjectWriter::default();
        model.put("model", upstream_model);
        if let Some(cap) = self.max_output.into_iter().chain(cap).min() {
            model.put(self.output_cap_field, &cap);
        }
        format!("{{{},{}}}", model.into_text(), self.members).into()
    }
}

impl fmt::Debug for TranslatedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TranslatedRequest")
            .field("plan", &self.plan)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Request<'_> {
    /// Translates the request for one upstream.
    ///
    /// # Errors
    /// The dialect or the model does not support the request, or the options are strict and
    /// something would be lost.
    pub fn translate(&self, options: &TranslateOptions<'_>) -> Result<TranslatedRequest, Refusal> {
        let mut losses = LossRecorder::new(options.strict);
        if self.previous_response_id.is_some() && !options.history.is_enabled() {
            return Err(history_disabled());
        }
        self.record_ignored_fields(options, &mut losses)?;
        let loaded = self.load_items(&options.history)?;
        let entries = self.entries(&loaded, options, &mut losses)?;

        let (mut tools, found) = tools(&self.fields, &entries, options, &mut losses)?;
        tools.names()?;
        let choice = choice::apply(self.fields.body.get("tool_choice"), &mut tools, options)?;

        let links = link(&entries, &mut losses)?;
        let conversation = Conversation {
            instructions: self.fields.instructions.as_deref().filter(|text| !text.is_empty()),
            entries: &entries,
            links: &links,
            found: &found,
        };
        let messages = messages(conversation, options, &mut losses)?;
        if messages.is_empty() {
            return Err(INPUT.invalid("contains no message"));
        }
        let store = options.history.is_enabled() && self.store != Some(false);
        let members = self.chat_members(&messages, &tools, &choice, options);
        let plan = ResponsePlan {
            model: self.model.clone().into_owned(),
            echo: echo::echo(&self.fields, store)?,
            tools: tools.names()?,
            allowed: choice.allowed,
            reasoning: options.reasoning,
            seals_reasoning: self.fields.seals_reasoning,
            logprobs: self.fields.logprobs,
            report: losses.into_report(),
        };
        Ok(TranslatedRequest {
            plan: Arc::new(plan),
            store,
            max_output: self.max_output_tokens,
            output_cap_field: options.dialect.output_cap_field(),
            members,
        })
    }

    /// Records the fields that have no effect on this upstream (`Q-22`, `Q-23`, `Q-35`).
    fn record_ignored_fields(
        &self,
        options: &TranslateOptions<'_>,
        losses: &mut LossRecorder,
    ) -> Result<(), Refusal> {
        for name in self.fields.unknown() {
            let name = excerpt(name);
            losses.record(Loss::FieldIgnored, &name, &Path::Root.field(&name))?;
        }
        let ignored = |name: &str, value: Option<&str>, usual: &[&str]| {
            value.is_some_and(|value| !usual.contains(&value))
                && !options.dialect.forwarded_fields.contains(&name)
        };
        if !options.verbosity && ignored("verbosity", self.fields.verbosity.as_deref(), &["medium"])
        {
            let text = Path::Root.field("text");
            losses.record(Loss::FieldIgnored, "text.verbosity", &text.field("verbosity"))?;
        }
        if ignored("service_tier", self.fields.service_tier.as_deref(), &["auto", "default"]) {
            let at = Path::Root.field("service_tier");
            losses.record(Loss::FieldIgnored, "service_tier", &at)?;
        }
        Ok(())
    }

    /// Parses the items that are not in the input: stored items, and the message of a string input.
    fn load_items<'s>(&'s self, history: &StoredHistory<'s>) -> Result<LoadedItems<'s>, Refusal> {
        let mut loaded = LoadedItems::default();
        if let StoredHistory::Loaded { items, .. } = history {
            loaded.previous = items
                .iter()
                .map(|raw| Item::read(RawJson::from(&**raw), Path::Previous))
                .collect::<Result<_, _>>()?;
        }
        let items = match &self.input {
            Input::Text(text) => {
                let content = vec![Part::Text(Cow::Borrowed(text))];
                loaded.text = Some(Item::Message { role: Role::User, content });
                return Ok(loaded);
            }
            Input::Items(items) => items,
        };
        for (index, (item, _)) in items.iter().enumerate() {
            let Item::Reference(id) = item else { continue };
            let at = INPUT.at(index);
            let StoredHistory::Loaded { references, .. } = history else {
                let message = "item references are not supported, because no responses are stored; \
                               send the items themselves (SDKs do with `store: false`)";
                let code = RequestFault::UnsupportedInputItem;
                return Err(at.field("type").refuse(code, message));
            };
            let Some(raw) = references.get(id.as_ref()) else {
                let message = "is not the id of a stored item; send the item itself \
                               (SDKs do with `store: false`)";
                return Err(at.field("id").invalid(message));
            };
            let item = Item::read(RawJson::from(&**raw), at)?;
            if matches!(item, Item::Reference(_)) {
                return Err(at.field("id").invalid("refers to another reference"));
            }
            loaded.references.insert(index, item);
        }
        Ok(loaded)
    }

    /// Returns the items of the conversation, except the records of hosted tools.
    fn entries<'s>(
        &'s self,
        loaded: &'s LoadedItems<'s>,
        options: &TranslateOptions<'_>,
        losses: &mut LossRecorder,
    ) -> Result<Vec<Entry<'s>>, Refusal> {
        let own = match &self.input {
            Input::Text(_) => &[],
            Input::Items(items) => items.as_slice(),
        };
        let mut entries = Vec::with_capacity(loaded.previous.len() + own.len());
        let previous = loaded.previous.iter().map(|item| (ItemLocation::Previous, item));
        let own = own.iter().enumerate().map(|(index, (item, _))| {
            (ItemLocation::Input(index), loaded.references.get(&index).unwrap_or(item))
        });
        let text = loaded.text.iter().map(|item| (ItemLocation::Input(0), item));
        for (location, item) in previous.chain(text).chain(own) {
            if let Item::HostedRecord(kind) = item {
                let at = location.path();
                if options.strict || options.hosted_tools == HostedTools::Refuse {
                    let message = format!(
                        "an input item of type `{kind}` is not supported: it belongs to a hosted tool"
                    );
                    let code = RequestFault::UnsupportedInputItem;
                    return Err(at.field("type").refuse(code, message));
                }
                losses.record(Loss::HostedToolOmitted, kind, &at)?;
            } else {
                entries.push(Entry { location, item });
            }
        }
        Ok(entries)
    }

    fn chat_members(
        &self,
        messages: &[ChatMessage<'_>],
        tools: &Tools<'_>,
        choice: &ToolChoice,
        options: &TranslateOptions<'_>,
    ) -> String {
        let fields = &self.fields;
        let dialect = options.dialect;
        let mut chat = ObjectWriter::default();
        chat.put("messages", messages);
        if !tools.is_empty() {
            chat.put("tools", &tools.chat());
            if let Some(choice) = &choice.chat {
                chat.put("tool_choice", choice);
            }
            if let Some(parallel) = fields.parallel_tool_calls {
                chat.put("parallel_tool_calls", &parallel);
            }
        }
        for name in SAMPLING {
            if let Some(number) = fields.body.get(name) {
                chat.put_json(name, number.get());
            }
        }
        if fields.logprobs {
            chat.put("logprobs", &true);
        }
        if let Some(count) = fields.top_logprobs.filter(|count| *count > 0) {
            chat.put("top_logprobs", &count);
        }
        if let Some(format) = response_format(&fields.format) {
            chat.put("response_format", &format);
        }
        if let Some(effort) = &fields.effort {
            chat.put("reasoning_effort", effort);
        }
        if let Some(verbosity) = &fields.verbosity
            && (options.verbosity || dialect.forwarded_fields.contains(&"verbosity"))
        {
            chat.put("verbosity", verbosity);
        }
        for &name in dialect.forwarded_fields {
            if name == "verbosity" {
                // Comes from `text.verbosity`.
            } else if let Some(raw) = fields.body.get(name) {
                chat.put_json(name, raw.get());
            }
        }
        chat.put("stream", &self.stream);
        if self.stream {
            chat.put("stream_options", &json!({"include_usage": true}));
        }
        chat.into_text()
    }
}

/// Items that are not in the input array.
#[derive(Default)]
struct LoadedItems<'s> {
    /// The items of previous responses.
    previous: Vec<Item<'s>>,
    /// The message of a string input.
    text: Option<Item<'s>>,
    /// The referenced items, by index in the input.
    references: HashMap<usize, Item<'s>>,
}

fn history_disabled() -> Refusal {
    let message = "`previous_response_id` is not supported, because no responses are stored; \
                   send the whole conversation as `input`";
    let at = Path::Root.field("previous_response_id");
    at.refuse(RequestFault::UnsupportedParameter, message)
}

/// Collects the tools. Also returns the wire names of the tools found by searches, by entry (`T-2`,
/// `T-10`).
fn tools<'s>(
    fields: &'s Fields<'_>,
    entries: &'s [Entry<'s>],
    options: &'s TranslateOptions<'s>,
    losses: &mut LossRecorder,
) -> Result<(Tools<'s>, HashMap<usize, Vec<String>>), Refusal> {
    let mut collector = Collector::new(options);
    let mut found = HashMap::new();
    for (name, list) in [("tools", &fields.tools), ("additional_tools", &fields.additional_tools)] {
        collector.add(list, &Path::Root.field(name), Source::Declared, losses)?;
    }
    for (index, entry) in entries.iter().enumerate() {
        let at = entry.location.path();
        match entry.item {
            Item::Tools(list) => {
                collector.add(list, &at.field("tools"), Source::Declared, losses)?;
            }
            Item::Output(CallOutput { result: ToolOutput::Tools(list), .. }) => {
                let names = collector.add(list, &at.field("tools"), Source::Found, losses)?;
                found.insert(index, names);
            }
            _ => {}
        }
    }
    Ok((collector.finish()?, found))
}

fn response_format<'s>(format: &'s Format<'_>) -> Option<ResponseFormat<'s>> {
    match format {
        Format::Text => None,
        Format::JsonObject => Some(ResponseFormat::JsonObject),
        Format::JsonSchema { name, schema, strict, description } => {
            let description = description.as_deref();
            let json_schema =
                JsonSchema { name, schema: schema.to_raw_value(), strict: *strict, description };
            Some(ResponseFormat::JsonSchema { json_schema })
        }
    }
}
