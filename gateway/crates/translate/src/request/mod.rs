//! Parses a Responses request and translates it into a chat request.
//!
//! [`Request::parse`] makes all checks that are independent of the upstream; [`Request::translate`]
//! translates for one upstream and may be called once per upstream. In reading order: `fields` and
//! `unsupported_fields` (§1), `item` and `part` (§2.1, §2.2), `call_links`, `turns` and `turn`
//! (§2.4), `translate` (the chat request), `echo` (§4.1), `stored_items` (the input for the
//! response store).

mod call_links;
mod chat;
mod content;
mod echo;
mod fields;
mod item;
mod options;
mod part;
mod stored_items;
#[cfg(test)]
pub(super) mod tests;
mod translate;
mod turn;
mod turns;
mod unsupported_fields;

use std::borrow::Cow;

use self::fields::Fields;
use self::item::Item;
pub use self::options::{HostedTools, InputModalities, StoredHistory, TranslateOptions};
pub use self::stored_items::InputItem;
pub use self::translate::TranslatedRequest;
use super::path::{INPUT, Path};
use super::raw::{Object, elements, string};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::json::{RawJson, as_utf8};

/// A parsed request that is valid for some upstream.
#[derive(Debug)]
pub struct Request<'a> {
    /// The model name that the client sent (`Q-1`).
    pub model: Cow<'a, str>,
    /// Whether the client requests a stream (`Q-6`).
    pub stream: bool,
    /// The client's `store` (`Q-26`).
    pub store: Option<bool>,
    /// The response that this request continues (`Q-27`).
    pub previous_response_id: Option<Cow<'a, str>>,
    /// The client's name of the conversation.
    pub prompt_cache_key: Option<Cow<'a, str>>,
    /// The client's cap on output tokens (`Q-8`).
    pub max_output_tokens: Option<u64>,
    fields: Fields<'a>,
    input: Input<'a>,
}

/// The `input`.
#[derive(Debug)]
enum Input<'a> {
    /// A single user message (`Q-2`).
    Text(Cow<'a, str>),
    /// The items, each with its source text (`Q-3`).
    Items(Vec<(Item<'a>, RawJson<'a>)>),
}

impl<'a> Request<'a> {
    /// Parses a body, in time and memory linear in its length.
    ///
    /// # Errors
    /// The body is not a JSON object in UTF-8, a field has the wrong type or an invalid value, or
    /// the request needs something that no upstream supports.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let broken = |message| Err(Refusal::invalid(RequestFault::InvalidJson, None, message));
        let Some(text) = as_utf8(body) else {
            return broken("the request body is not valid UTF-8");
        };
        if !text.trim_start().starts_with('{') {
            return broken("the request body must be a JSON object");
        }
        let body = Object::parse(text, Path::Root)?;
        unsupported_fields::check_case(&body)?;
        unsupported_fields::check(&body)?;
        let model = body.required_string("model")?;
        if model.is_empty() {
            return Err(body.path("model").missing());
        }
        let stream = body.boolean("stream")?.unwrap_or_default();
        let store = body.boolean("store")?;
        let previous_response_id = body.string("previous_response_id")?;
        let prompt_cache_key = body.string("prompt_cache_key")?;
        let fields = Fields::read(body)?;
        let input = input(&fields)?;
        let max_output_tokens = fields.max_output_tokens;
        Ok(Self {
            model,
            stream,
            store,
            previous_response_id,
            prompt_cache_key,
            max_output_tokens,
            fields,
            input,
        })
    }

    /// Returns the ids of the stored items that the input references (`I-13`), in order.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        let items = match &self.input {
            Input::Text(_) => &[],
            Input::Items(items) => items.as_slice(),
        };
        items.iter().filter_map(|(item, _)| match item {
            Item::Reference(id) => Some(id.as_ref()),
            _ => None,
        })
    }
}

fn input<'a>(fields: &Fields<'a>) -> Result<Input<'a>, Refusal> {
    let raw = fields.body.require("input")?;
    match raw.first_byte() {
        b'"' => match string(raw, &INPUT)? {
            text if text.is_empty() => Err(INPUT.invalid("must not be empty")),
            text => Ok(Input::Text(text)),
        },
        b'[' => {
            let read = |(index, raw)| Ok((Item::read(raw, INPUT.at(index))?, raw));
            let items = elements(raw, &INPUT)?.into_iter().enumerate().map(read);
            items.collect::<Result<_, _>>().map(Input::Items)
        }
        _ => Err(INPUT.mistyped("a string or an array of items")),
    }
}
