//! Known values that a form offers for a field, such as the names of the plans.
//!
//! They are suggestions: a field accepts any text, because the gateway decides what is valid.

use std::collections::BTreeSet;

use super::Data;
use super::fetched::FetchState;
use super::form::Form;
use super::subscription::Topic;

/// The kind of values that a field accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The name of a plan.
    Plan,
    /// Ids of models in the catalogue.
    Models,
    /// Upstreams, each alone or as `UPSTREAM:MODEL`.
    Deployments,
}

/// The choice among the values that the focused field offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Picker {
    /// The index of the chosen value. While there is none, Enter sends the form.
    pub selected: Option<usize>,
    /// Whether the text was changed since the field got the focus or took a value: then only values
    /// that contain the typed word are offered.
    pub is_filtering: bool,
    /// Whether the field has just taken its only value, so that no other is offered.
    pub is_taken: bool,
    /// Whether the values are hidden until one is asked for, because they would cover the problem
    /// of the form.
    pub is_hidden: bool,
}

/// A value that a field offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The value.
    pub value: String,
    /// What it is.
    pub note: String,
}

/// The values that the focused field offers.
#[derive(Debug)]
pub struct Offers<'a> {
    /// The kind of the values.
    pub known: Known,
    /// The values that contain the typed word.
    pub rows: Vec<Offer>,
    /// The load state of the values.
    pub fetch: &'a FetchState,
    /// The text of the field before the typed word.
    prefix: String,
    /// The typed word, which a taken value replaces.
    word: String,
}

/// Returns what the focused field of the form offers; `None` if it offers nothing. A list that has
/// values offers others once a separator or a part of a value is typed, so that the arrow keys do
/// not take one by accident.
pub fn offers<'a>(form: &Form, data: &'a Data) -> Option<Offers<'a>> {
    let field = form.fields.get(form.current)?;
    let known = field.known?;
    let text = field.input.value();
    let has_values = known.is_list() && !form.picker.is_filtering && !text.trim().is_empty();
    if has_values || form.picker.is_taken {
        return None;
    }
    let (prefix, word) = match (known.is_list(), form.picker.is_filtering) {
        (_, false) => (String::new(), ""),
        (false, true) => (String::new(), text.trim()),
        (true, true) => {
            let start = text.rfind([',', ' ']).map_or(0, |separator| separator + 1);
            (text[..start].to_owned(), &text[start..])
        }
    };
    let taken: Vec<_> = if known.is_list() {
        prefix.split([',', ' ']).map(str::to_owned).collect()
    } else {
        Vec::new()
    };
    let (values, fetch) = known.values(data);
    let lower = word.to_lowercase();
    let mut seen = BTreeSet::new();
    let rows = values
        .into_iter()
        .filter(|offer| offer.value.to_lowercase().contains(&lower))
        .filter(|offer| !taken.contains(&offer.value) && seen.insert(offer.value.clone()))
        .collect();
    Some(Offers { known, rows, fetch, prefix, word: word.to_owned() })
}

// === impl Known ===

impl Known {
    /// Returns whether a field accepts several values, with commas or spaces between them.
    pub fn is_list(self) -> bool {
        self != Self::Plan
    }

    /// Returns the plural of what the values are.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plans",
            Self::Models => "models",
            Self::Deployments => "upstreams",
        }
    }

    /// Returns the data that the values come from.
    pub fn topics(self) -> &'static [Topic] {
        match self {
            Self::Plan => &[Topic::Plans],
            Self::Models => &[Topic::Models],
            Self::Deployments => &[Topic::Upstreams, Topic::Models],
        }
    }

    /// Returns all known values, and their load state.
    fn values(self, data: &Data) -> (Vec<Offer>, &FetchState) {
        match self {
            Self::Plan => {
                let plans = data.plans.entries.iter().map(|plan| {
                    let credit = plan.trial_credit_usd.as_deref();
                    let note = credit.map(|it| format!("${it} trial credit")).unwrap_or_default();
                    Offer { value: plan.name.clone(), note }
                });
                (plans.collect(), &data.plans.fetch)
            }
            Self::Models => {
                let models = data.models.entries.iter();
                let offer =
                    models.map(|it| Offer { value: it.id.clone(), note: it.display_name.clone() });
                (offer.collect(), &data.models.fetch)
            }
            Self::Deployments => {
                let upstreams = data.upstreams.entries.iter();
                let upstreams =
                    upstreams.map(|it| Offer { value: it.name.clone(), note: it.url.clone() });
                let served = data.models.entries.iter().flat_map(|entry| {
                    let named = entry.deployments.iter().filter(|it| !it.model.is_empty());
                    named.map(|it| Offer {
                        value: format!("{}:{}", it.upstream, it.model),
                        note: format!("serves {}", entry.id),
                    })
                });
                (upstreams.chain(served).collect(), &data.upstreams.fetch)
            }
        }
    }
}

// === impl Offers ===

impl Offers<'_> {
    /// Returns the text of the field once it has taken this value.
    pub fn taken(&self, value: &str) -> String {
        format!("{}{value}", self.prefix)
    }

    /// Returns the only value that begins with the typed word, if the word is not a value itself.
    pub fn completion(&self) -> Option<&str> {
        let values = || self.rows.iter().map(|offer| offer.value.as_str());
        if self.word.is_empty() || values().any(|value| value == self.word) {
            return None;
        }
        let mut found = values().filter(|value| value.starts_with(&self.word));
        found.next().filter(|_| found.next().is_none())
    }
}
