//! Computes the changes between two catalogues, by entry and by field.
//!
//! Fields are compared in their serialized form, so that a new field needs no code here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};

use super::file::Catalogue;
use crate::error::{Exit, Failure};
use crate::output::{Output, Record, Style};

/// The operation on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Add,
    Change,
    Remove,
}

/// The kind of an entry. The order follows references: models refer to upstreams, plans to models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Upstream,
    Model,
    Plan,
}

/// The change of one entry, as printed.
#[derive(Serialize)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) action: Action,
    /// The fields that differ; empty for a removal.
    fields: Vec<FieldChange>,
}

/// The change of one field.
#[derive(Serialize)]
struct FieldChange {
    /// The path of the field, such as `limits.rpm`.
    field: String,
    before: Value,
    after: Value,
}

/// Returns the changes from `current` to `desired`, in an order that keeps references valid.
/// Entries that are only in `current` are removed with `prune`, else kept.
pub(super) fn differences(
    current: &Catalogue,
    desired: &Catalogue,
    prune: bool,
) -> Result<Vec<Change>, Failure> {
    let mut changes = Vec::new();
    compare(Kind::Upstream, &current.upstreams, &desired.upstreams, prune, &mut changes)?;
    compare(Kind::Model, &current.models, &desired.models, prune, &mut changes)?;
    // The admin API has no removal of plans, because accounts refer to them.
    compare(Kind::Plan, &current.plans, &desired.plans, false, &mut changes)?;
    let (mut removed, mut kept): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change| change.action == Action::Remove);
    removed.reverse();
    kept.append(&mut removed);
    Ok(kept)
}

fn compare<T: Serialize>(
    kind: Kind,
    current: &BTreeMap<String, T>,
    desired: &BTreeMap<String, T>,
    prune: bool,
    changes: &mut Vec<Change>,
) -> Result<(), Failure> {
    let names: BTreeSet<_> = current.keys().chain(desired.keys()).collect();
    for name in names {
        let (action, fields) = match (current.get(name), desired.get(name)) {
            (Some(before), Some(after)) => {
                (Action::Change, field_changes(&flatten(before)?, &flatten(after)?))
            }
            (None, Some(after)) => (Action::Add, field_changes(&Map::new(), &flatten(after)?)),
            (Some(_), None) if prune => (Action::Remove, Vec::new()),
            _ => continue,
        };
        if action != Action::Change || !fields.is_empty() {
            changes.push(Change { kind, name: name.clone(), action, fields });
        }
    }
    Ok(())
}

/// Returns the present fields of an entry by path, with inner tables flattened.
fn flatten<T: Serialize>(entry: &T) -> Result<Map<String, Value>, Failure> {
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

fn field_changes(before: &Map<String, Value>, after: &Map<String, Value>) -> Vec<FieldChange> {
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
    /// Renders the change as text: the entry marked with `+`, `~` or `-`, then one line per field.
    pub(super) fn render(&self, output: &Output<'_>) -> String {
        let (mark, style) = match self.action {
            Action::Add => ('+', Style::Success),
            Action::Change => ('~', Style::Warning),
            Action::Remove => ('-', Style::Error),
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
        let lines =
            text.lines().map(|line| output.styled(&crate::error::one_line(line), style) + "\n");
        lines.collect()
    }

    /// Returns kind and name of the entry, such as `model gpt-5`.
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
