//! Links outputs to their calls, and makes call ids unique (`I-22`, `I-24`).

use std::collections::{HashMap, HashSet, VecDeque};

use super::super::loss_recorder::LossRecorder;
use super::super::path::excerpt;
use super::super::report::Loss;
use super::item::{Item, ItemLocation};
use domain::refusal::Refusal;

/// An item of the conversation.
#[derive(Debug)]
pub(super) struct Entry<'s> {
    /// The position, for refusals.
    pub(super) location: ItemLocation,
    /// The item; never a reference.
    pub(super) item: &'s Item<'s>,
}

/// The relation of an entry to other entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// None.
    None,
    /// A call.
    Call {
        /// The upstream call id if it differs from the client's.
        renamed: Option<String>,
        /// The index of the entry with the output.
        answered_at: Option<usize>,
    },
    /// An output; the index of the entry with the call.
    Output(usize),
}

/// Links calls and outputs. Those with the same id are matched in order.
pub(super) fn link(entries: &[Entry<'_>], losses: &mut LossRecorder) -> Result<Vec<Link>, Refusal> {
    let mut links = vec![Link::None; entries.len()];
    let mut open: HashMap<&str, VecDeque<usize>> = HashMap::new();
    let mut ids = UniqueIds { entries, taken: None, counts: HashMap::new() };
    for (index, entry) in entries.iter().enumerate() {
        match entry.item {
            Item::Call(call) => {
                let id = call.id.as_ref();
                let renamed = open.contains_key(id).then(|| ids.next_unique(id));
                if renamed.is_some() {
                    let at = entry.location.path();
                    losses.record(Loss::CallIdChanged, id, &at.field("call_id"))?;
                }
                open.entry(id).or_default().push_back(index);
                links[index] = Link::Call { renamed, answered_at: None };
            }
            Item::Output(output) => {
                let calls = open.get_mut(output.call_id.as_ref());
                let Some(call) = calls.and_then(VecDeque::pop_front) else {
                    return Err(orphan(entry.location, &output.call_id));
                };
                if let Link::Call { answered_at, .. } = &mut links[call] {
                    *answered_at = Some(index);
                }
                links[index] = Link::Output(call);
            }
            _ => {}
        }
    }
    Ok(links)
}

fn orphan(location: ItemLocation, call_id: &str) -> Refusal {
    let at = location.path();
    let message =
        format!("No tool call found for function call output with call_id `{}`.", excerpt(call_id));
    let code = domain::refusal::RequestFault::InvalidValue;
    at.field("call_id").refuse(code, message)
}

/// Generates call ids that are unique in the conversation.
struct UniqueIds<'e, 's> {
    entries: &'e [Entry<'s>],
    taken: Option<HashSet<String>>,
    counts: HashMap<String, usize>,
}

impl UniqueIds<'_, '_> {
    fn next_unique(&mut self, id: &str) -> String {
        let entries = self.entries;
        let taken = self.taken.get_or_insert_with(|| {
            let calls = entries.iter().filter_map(|entry| match entry.item {
                Item::Call(call) => Some(call.id.clone().into_owned()),
                _ => None,
            });
            calls.collect()
        });
        let count = self.counts.entry(id.to_owned()).or_insert(1);
        loop {
            *count += 1;
            let candidate = format!("{id}_{count}");
            if taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}
