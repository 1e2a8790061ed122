//! What changes one catalogue into another, entry by entry and field by field.
//!
//! Fields are compared as they are written down, so that a new field needs nothing here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::file::Catalogue;
use crate::error::{Exit, Failure};
use crate::output::{Hue, Output, Record};

/// What is done to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Add,
    Change,
    Remove,
}

/// What sort of entry it is. The order is that in which they can refer to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Upstream,
    Model,
    Plan,
}

/// What is done to one entry, as it is printed.
#[derive(Serialize)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) action: Action,
    /// The fields that differ; of an entry that goes, none.
    fields: Vec<FieldChange>,
}

/// What is done to one field.
#[derive(Serialize)]
struct FieldChange {
    /// Inside of a table with a dot: `limits.rpm`.
    field: String,
    before: Value,
    after: Value,
}

/// Lists what makes `there` be as `wished`, in an order in which references hold. What only `there` has
/// goes with `prune`, else it stays.
pub(super) fn differences(
    there: &Catalogue,
    wished: &Catalogue,
    prune: bool,
) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    compare(Kind::Upstream, &there.upstreams, &wished.upstreams, prune, &mut changes)?;
    compare(Kind::Model, &there.models, &wished.models, prune, &mut changes)?;
    // The gateway removes no plan: accounts are on it.
    compare(Kind::Plan, &there.plans, &wished.plans, false, &mut changes)?;
    let (mut removed, mut kept): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.action == Action::Remove);
    removed.reverse();
    kept.append(&mut removed);
    Ok(kept)
}

fn compare<T: Serialize>(
    kind: Kind,
    there: &BTreeMap<String, T>,
    wished: &BTreeMap<String, T>,
    prune: bool,
    changes: &mut Vec<Change>,
) -> Result<(), Failure> {
    let names: BTreeSet<_> = there.keys().chain(wished.keys()).collect();
    for name in names {
        let (action, fields) = match (there.get(name), wished.get(name)) {
            (Some(before), Some(after)) => (Action::Change, between(&flat(before)?, &flat(after)?)),
            (None, Some(after)) => (Action::Add, between(&Map::new(), &flat(after)?)),
            (Some(_), None) if prune => (Action::Remove, Vec::new()),
            _ => continue,
        };
        if action != Action::Change || !fields.is_empty() {
            changes.push(Change { kind, name: name.clone(), action, fields });
        }
    }
    Ok(())
}

/// The fields of an entry by name, those of inner tables with a dot; what is absent is left out.
fn flat<T: Serialize>(entry: &T) -> Result<Map<String, Value>, Failure> {
    let value = serde_json::to_value(entry)
        .map_err(|error| Failure::new(Exit::Failed, format!("comparing: {error}")))?;
    let mut fields = Map::new();
    if let Value::Object(table) = value {
        for (name, value) in table {
            match value {
                Value::Null => {}
                Value::Object(inner) => fields.extend(
                    inner
                        .into_iter()
                        .filter(|(_, value)| !value.is_null())
                        .map(|(inner, value)| (format!("{name}.{inner}"), value)),
                ),
                value => _ = fields.insert(name, value),
            }
        }
    }
    Ok(fields)
}

fn between(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<FieldChange> {
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let value = |fields: &Map<String, Value>, name| fields.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .map(|name| FieldChange {
            field: name.clone(),
            before: value(before, name),
            after: value(after, name),
        })
        .filter(|change| change.before != change.after)
        .collect()
}

// === impl Change ===

impl Change {
    /// The change as a person reads it: `+`, `~` or `-` before the entry, a line for each field.
    pub(super) fn draw(&self, output: &Output<'_>) -> String {
        let (mark, hue) = match self.action {
            Action::Add => ('+', Hue::Good),
            Action::Change => ('~', Hue::Doubtful),
            Action::Remove => ('-', Hue::Bad),
        };
        let mut text = format!("{mark} {}\n", self.title());
        for FieldChange { field, before, after } in &self.fields {
            let line = match (before, after) {
                (Value::Null, after) => format!("{mark}     {field} = {after}\n"),
                (before, Value::Null) => format!("{mark}     {field}: {before} -> default\n"),
                (before, after) => format!("{mark}     {field}: {before} -> {after}\n"),
            };
            text.push_str(&line);
        }
        let lines = text.lines().map(|line| output.hued(&crate::error::one_line(line), hue) + "\n");
        lines.collect()
    }

    /// Names the entry: `model gpt-5`.
    pub(super) fn title(&self) -> String {
        let kind = match self.kind {
            Kind::Upstream => "upstream",
            Kind::Model => "model",
            Kind::Plan => "plan",
        };
        format!("{kind} {}", self.name)
    }
}

impl Record for Change {
    const FIELDS: &'static [&'static str] = &["name", "kind", "action", "fields"];
    const COLUMNS: &'static [&'static str] = &["action", "kind", "name"];
}
