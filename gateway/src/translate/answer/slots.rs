//! Which call a piece of one belongs to (`S-6`), and what is known of each (`S-7`).

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::Trouble;
use super::text::{Text, decode, encode};
use crate::translate::plan::ToolNames;
use crate::wire::text::inner;
use crate::wire::{first_byte, flaw};

/// More calls than any model makes at once, so that a broken upstream does not fill memory.
const MOST_CALLS: usize = 1_024;

/// A call as the upstream tells of it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    key: Option<u64>,
    /// The first that was not empty.
    pub(super) id: String,
    /// The wire name as far as it came.
    pub(super) name: String,
    pub(super) arguments: Text,
    pub(super) phase: Phase,
    /// How long the arguments were when they were last found not to be whole.
    partial: usize,
}

/// How far a call is on its way to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is not in the line of items yet.
    #[default]
    New,
    Waiting,
    Open,
    Done,
}

/// A call, or a piece of one.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    /// JSON text without its quotes.
    pub(super) arguments: Cow<'a, str>,
}

/// All calls of an answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Slot>);

#[derive(Deserialize)]
struct CallView<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<FunctionView<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionView<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

// === impl Entry ===

impl<'a> Entry<'a> {
    /// Reads `tool_calls`.
    pub(super) fn read_all(raw: &'a RawValue) -> Result<Vec<Self>, Trouble> {
        let views: Vec<CallView<'a>> = serde_json::from_str(raw.get()).map_err(|error| {
            Trouble::Invalid(format!("`tool_calls` is not readable: {}", flaw(&error)))
        })?;
        Ok(views
            .into_iter()
            .map(|view| Self {
                index: view.index.and_then(|raw| raw.get().parse().ok()),
                id: word(view.id),
                ..Self::of(&view.function.unwrap_or_default())
            })
            .collect())
    }

    /// Reads the `function_call` of old servers: the one call that there is (`R-13`).
    pub(super) fn read_legacy(raw: &'a RawValue) -> Result<Self, Trouble> {
        let view: FunctionView<'a> = serde_json::from_str(raw.get()).map_err(|error| {
            Trouble::Invalid(format!("`function_call` is not readable: {}", flaw(&error)))
        })?;
        Ok(Self { index: Some(0), ..Self::of(&view) })
    }

    fn of(function: &FunctionView<'a>) -> Self {
        // some servers give arguments as the value that the text should stand for (`S-8c`)
        let arguments = match function.arguments {
            Some(raw) if first_byte(raw) == b'"' => Cow::Borrowed(inner(raw)),
            Some(raw) => Cow::Owned(encode(raw.get())),
            None => Cow::Borrowed(""),
        };
        Self { index: None, id: Cow::Borrowed(""), name: word(function.name), arguments }
    }

    fn is_empty(&self) -> bool {
        self.id.is_empty() && self.name.is_empty() && self.arguments.is_empty()
    }
}

/// An id or a name: a string, or a number of servers that count.
fn word(raw: Option<&RawValue>) -> Cow<'_, str> {
    match raw {
        Some(raw) if first_byte(raw) == b'"' => decode(inner(raw)),
        Some(raw) if first_byte(raw).is_ascii_digit() => Cow::Borrowed(raw.get()),
        _ => Cow::Borrowed(""),
    }
}

// === impl Slots ===

impl Slots {
    pub(super) fn get(&self, slot: usize) -> &Slot {
        &self.0[slot]
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> &mut Slot {
        &mut self.0[slot]
    }

    /// The slot of an entry, a new one if need be; `None` if the entry says nothing and has none. A
    /// whole answer's entries have one each.
    pub(super) fn place(
        &mut self,
        entry: &Entry<'_>,
        is_whole: bool,
    ) -> Result<Option<usize>, Trouble> {
        let found = match entry.index {
            _ if is_whole => None,
            Some(index) => self.of_index(index, entry),
            None => self.of_no_index(entry),
        };
        if found.is_some() || entry.is_empty() {
            return Ok(found);
        }
        if self.0.len() == MOST_CALLS {
            return Err(Trouble::Invalid(format!("more than {MOST_CALLS} calls in one answer")));
        }
        self.0.push(Slot { key: entry.index, ..Slot::default() });
        Ok(Some(self.0.len() - 1))
    }

    fn of_index(&mut self, index: u64, entry: &Entry<'_>) -> Option<usize> {
        let last = self.0.iter().rposition(|slot| slot.key == Some(index))?;
        let slot = &mut self.0[last];
        if !entry.id.is_empty() && !slot.id.is_empty() {
            // some servers count every call as the first
            return self.0.iter().rposition(|it| it.key == Some(index) && it.id == entry.id);
        }
        let is_repeat = entry.name == slot.name && entry.arguments.is_empty();
        let begins = !entry.name.is_empty() && !slot.name.is_empty() && !is_repeat;
        (!(begins && slot.is_complete())).then_some(last)
    }

    fn of_no_index(&self, entry: &Entry<'_>) -> Option<usize> {
        if !entry.id.is_empty() {
            return self.0.iter().rposition(|slot| slot.id == entry.id);
        }
        if entry.name.is_empty() { self.0.len().checked_sub(1) } else { None }
    }
}

// === impl Slot ===

impl Slot {
    /// Takes the id and the name of an entry, whose arguments are left.
    pub(super) fn learn(&mut self, entry: &Entry<'_>, tools: &ToolNames) {
        if matches!(self.phase, Phase::Open | Phase::Done) {
            return;
        }
        if self.id.is_empty() {
            self.id.push_str(&entry.id);
        }
        let fragment = &*entry.name;
        if self.name.is_empty() {
            self.name.push_str(fragment);
        } else if fragment != self.name && !fragment.is_empty() {
            let begins = |name: &str| tools.wire_names().any(|tool| tool.starts_with(name));
            let longer = [&self.name, fragment].concat();
            if begins(&longer) || !begins(&self.name) {
                self.name = longer;
            }
        }
    }

    /// Whether its name is whole and its id known, so that it can be announced before its arguments
    /// come (`S-8`).
    pub(super) fn is_known(&self, tools: &ToolNames) -> bool {
        let goes_on = |tool: &str| tool.len() > self.name.len() && tool.starts_with(&self.name);
        !self.id.is_empty() && tools.find(&self.name).is_some() && !tools.wire_names().any(goes_on)
    }

    /// Whether its arguments are a whole JSON object.
    pub(super) fn is_complete(&mut self) -> bool {
        if self.phase == Phase::Done {
            return true;
        }
        let arguments = self.arguments.as_str();
        if arguments.is_empty() || arguments.len() == self.partial {
            return false;
        }
        // its ends tell most that are not, unless they are escaped
        let blank = [' ', '\\', 'n', 'r', 't'];
        let is_braced = arguments.trim_start_matches(blank).starts_with('{')
            && arguments.trim_end_matches(blank).ends_with('}');
        let is_complete =
            (is_braced || arguments.contains("\\u00")) && is_object(&decode(arguments));
        if !is_complete {
            self.partial = arguments.len();
        }
        is_complete
    }
}

fn is_object(json: &str) -> bool {
    json.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(json).is_ok()
}
