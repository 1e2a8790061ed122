//! A Responses request, and the chat request that it becomes.
//!
//! [`Request::parse`] checks all that depends on nothing else; [`Request::translate`] does the rest
//! for one upstream, as often as there are upstreams to try. In reading order: `fields` and `refused`
//! (§1), `item` and `part` (§2.1, §2.2), `history`, `turns` and `turn` (§2.4), `translated` (the outcome),
//! `echo` (§4.1), `kept` (what the store gets).

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

use serde_json::value::RawValue;

use self::fields::Fields;
use self::item::Item;
pub use self::options::{HostedTools, InputModalities, StoredHistory, TranslateOptions};
pub use self::stored_items::InputItem;
pub use self::translate::TranslatedRequest;
use super::path::{INPUT, Path};
use super::raw::{Object, elements, string};
use domain::refusal::{Refusal, RequestFault};
use domain::wire::first_byte;

/// A request that breaks no rule which holds for every upstream.
#[derive(Debug)]
pub struct Request<'a> {
    /// The model as the client names it (`Q-1`).
    pub model: Cow<'a, str>,
    /// Whether the client wants a stream (`Q-6`).
    pub stream: bool,
    /// What the client said about keeping the response (`Q-26`).
    pub store: Option<bool>,
    /// The response that this one goes on from (`Q-27`).
    pub previous_response_id: Option<Cow<'a, str>>,
    /// The client's cap on the output (`Q-8`).
    pub max_output_tokens: Option<u64>,
    fields: Fields<'a>,
    input: Input<'a>,
}

/// What the model is asked.
#[derive(Debug)]
enum Input<'a> {
    /// One message of the user (`Q-2`).
    Text(Cow<'a, str>),
    /// Items, each with the text that it was read from (`Q-3`).
    Items(Vec<(Item<'a>, &'a RawValue)>),
}

impl<'a> Request<'a> {
    /// Reads a body, in time and memory linear in its length.
    ///
    /// # Errors
    /// The body is not a JSON object in UTF-8, a field has a wrong type or a value out of its range,
    /// or it asks for something that no upstream would give.
    pub fn parse(body: &'a [u8]) -> Result<Self, Refusal> {
        let broken = |message| Err(Refusal::invalid(RequestFault::InvalidJson, None, message));
        let Ok(text) = std::str::from_utf8(body) else {
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
        let fields = Fields::read(body)?;
        let input = input(&fields)?;
        let max_output_tokens = fields.max_output_tokens;
        Ok(Self { model, stream, store, previous_response_id, max_output_tokens, fields, input })
    }

    /// The ids of the kept items that the input refers to (`I-13`), in order.
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
    match first_byte(raw) {
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
