//! Filters as people type them: terms such as `model:sim`, and plain words that match anything
//! shown. Also what completes a filter, and the filters typed before.
//!
//! The gateway evaluates the terms of the request log by exact ids. [`translate`] resolves labels,
//! names and parts of them, and keeps the plain words, which are searched in the fetched records.

use tui_input::Input;

use super::keys::public_id;
use super::record::{Record, RequestStatus};
use super::{Data, Screen};

use std::collections::BTreeSet;

/// The fields of the request log's filter, with the sign after them.
pub const LOG_FIELDS: [&str; 13] = [
    "model:",
    "status:",
    "key:",
    "account:",
    "error:",
    "endpoint:",
    "stream:",
    "since:",
    "until:",
    "cost>",
    "tokens>",
    "duration>",
    "ttft>",
];
/// The maximum number of ids that a part of a name stands for.
const MAX_RESOLVED: usize = 50;
/// The maximum number of recent filters per screen.
const MAX_RECENT: usize = 30;
/// The maximum number of words offered.
const MAX_OFFERED: usize = 200;

/// The filter input above a list.
#[derive(Debug)]
pub struct FilterInput {
    /// The current input.
    pub input: Input,
    /// The filter to restore on cancel.
    pub before: String,
    /// The completion in progress: the text that is completed, and the index of the chosen word.
    pub completion: Option<(String, usize)>,
    /// The index of the shown filter among those typed before.
    pub recalled: Option<usize>,
}

/// The filters typed before on one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterMemory {
    /// The saved filters, in the order in which they were saved.
    pub saved: Vec<String>,
    /// The recent filters, the newest first.
    pub recent: Vec<String>,
}

/// A filter of the request log as the gateway understands it, and the words that it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// The filter expression of the gateway.
    pub expression: String,
    /// The words to search, in lower case.
    pub words: Vec<String>,
    /// The number of names that match a part of a name, but are not in the expression, because it
    /// would be too long.
    pub omitted_names: usize,
}

// === impl FilterInput ===

impl FilterInput {
    /// Returns an input with the filter so far.
    pub fn new(filter: &str) -> Self {
        let input = Input::new(filter.to_owned());
        Self { input, before: filter.to_owned(), completion: None, recalled: None }
    }

    /// Returns the text that is completed.
    pub fn completed_text(&self) -> &str {
        self.completion.as_ref().map_or(self.input.value(), |(text, _)| text)
    }
}

// === impl FilterMemory ===

impl FilterMemory {
    /// Returns the saved filters, then the recent ones that are not saved.
    pub fn all(&self) -> impl Iterator<Item = &String> {
        self.saved.iter().chain(self.recent.iter().filter(|it| !self.saved.contains(it)))
    }

    /// Adds a filter to the recent ones.
    pub fn remember(&mut self, filter: &str) {
        if !filter.is_empty() {
            self.recent.retain(|it| it != filter);
            self.recent.insert(0, filter.to_owned());
            self.recent.truncate(MAX_RECENT);
        }
    }

    /// Saves a filter, or forgets that it was saved. Returns whether it is saved now.
    pub fn toggle_saved(&mut self, filter: &str) -> bool {
        if let Some(place) = self.saved.iter().position(|it| it == filter) {
            self.saved.remove(place);
            return false;
        }
        self.saved.push(filter.to_owned());
        true
    }
}

// === impl LogFilter ===

impl LogFilter {
    /// Returns whether each word is part of something shown of the record.
    pub fn matches(&self, record: &Record) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let http = record.http_status.map(|it| it.to_string());
        let optional = [
            record.model.as_deref(),
            record.deployment.as_deref(),
            record.error_code.as_deref(),
            record.status.map(RequestStatus::name),
            record.cost_usd.as_deref(),
            http.as_deref(),
        ];
        let texts = [&*record.id, &record.account, &record.key, &record.endpoint].into_iter();
        let texts = texts.chain(optional.into_iter().flatten());
        let texts = texts.chain(record.notes.iter().map(String::as_str));
        let texts: Vec<_> = texts.map(str::to_lowercase).collect();
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

/// Translates the typed filter of the request log.
pub fn translate(typed: &str, data: &Data) -> LogFilter {
    let mut filter = LogFilter::default();
    let mut terms = Vec::new();
    for word in typed.split_whitespace() {
        let key = public_id(word).map(|_| format!("key:{word}"));
        let word = key.as_deref().unwrap_or(word);
        match word.find([':', '<', '>']) {
            Some(end) if end > 0 => {
                let (field, value) = word.split_at(end);
                let names = match (field.trim_start_matches('-'), value.strip_prefix(':')) {
                    ("model", Some(value)) => Some((models(data), value)),
                    ("key", Some(value)) => Some((keys(data), value)),
                    ("account", Some(value)) => Some((accounts(data), value)),
                    _ => None,
                };
                terms.push(match names {
                    Some((names, value)) => {
                        let (ids, omitted) = resolve(&names, value);
                        filter.omitted_names += omitted;
                        format!("{field}:{ids}")
                    }
                    None => word.to_owned(),
                });
            }
            _ => filter.words.push(word.to_lowercase()),
        }
    }
    filter.expression = terms.join(" ");
    filter
}

/// Ids with the names that stand for them.
type Names<'a> = Vec<(&'a str, Vec<&'a str>)>;

fn models(data: &Data) -> Names<'_> {
    let entries = data.models.entries.iter();
    entries.map(|it| (it.id.as_str(), it.aliases.iter().map(String::as_str).collect())).collect()
}

fn keys(data: &Data) -> Names<'_> {
    data.keys.entries.iter().map(|it| (it.id.as_str(), vec![it.label.as_str()])).collect()
}

fn accounts(data: &Data) -> Names<'_> {
    data.accounts.entries.iter().map(|it| (it.name.as_str(), vec![it.id.as_str()])).collect()
}

/// Replaces names and parts of them by ids. A value that is an id or a name in whole stands for
/// that alone; one that is part of nothing stays. The second value is the number of names beyond
/// [`MAX_RESOLVED`].
fn resolve(names: &Names<'_>, values: &str) -> (String, usize) {
    let mut omitted = 0;
    let resolved = values.split(',').flat_map(|value| {
        let value = public_id(value).unwrap_or(value);
        if names.iter().any(|(id, _)| *id == value) {
            return vec![value.to_owned()];
        }
        let part = value.to_lowercase();
        let ids = |matches: &dyn Fn(&str) -> bool| {
            let found = names
                .iter()
                .filter(|(id, others)| std::iter::once(id).chain(others).any(|name| matches(name)));
            found.map(|(id, _)| (*id).to_owned()).collect::<Vec<_>>()
        };
        let same = ids(&|name| name == value);
        let mut found = if same.is_empty() && !part.is_empty() {
            ids(&|name| name.to_lowercase().contains(&part))
        } else {
            same
        };
        omitted += found.len().saturating_sub(MAX_RESOLVED);
        found.truncate(MAX_RESOLVED);
        if found.is_empty() { vec![value.to_owned()] } else { found }
    });
    let ids = resolved.collect::<Vec<_>>().join(",");
    (ids, omitted)
}

/// Returns the words that can follow instead of the last one of `text`.
pub fn completions(data: &Data, screen: Screen, text: &str) -> Vec<String> {
    let last = text.rsplit(' ').next().unwrap_or_default();
    let (negation, last) = match last.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", last),
    };
    let mut words = match screen {
        Screen::Usage => log_words(data, last),
        Screen::Keys => data.keys.filter_words(last),
        Screen::Models => data.models.filter_words(last),
        Screen::Accounts => data.accounts.filter_words(last),
        Screen::Upstreams => data.upstreams.filter_words(last),
        Screen::Plans => data.plans.filter_words(last),
        Screen::Audit => data.audit.filter_words(last),
        Screen::Nodes => data.nodes.filter_words(last),
        Screen::Ledger => data.ledger.filter_words(last),
        Screen::Invites => data.invites.filter_words(last),
        Screen::People => data.people.filter_words(last),
        Screen::Sessions => data.sessions.filter_words(last),
        Screen::InFlight => data.in_flight.filter_words(last),
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => Vec::new(),
    };
    words.retain(|word| word != last);
    words.truncate(MAX_OFFERED);
    words.into_iter().map(|word| format!("{negation}{word}")).collect()
}

/// Returns `text` with its last word replaced.
pub fn with_last_word(text: &str, word: &str) -> String {
    let start = text.rfind(' ').map_or(0, |space| space + 1);
    format!("{}{word}", &text[..start])
}

/// Returns fields and values of the request log that begin like `word`.
fn log_words(data: &Data, word: &str) -> Vec<String> {
    let Some((field, values)) = word.split_once(':') else {
        let fields = LOG_FIELDS.iter().filter(|field| field.starts_with(word));
        return fields.map(|field| (*field).to_owned()).collect();
    };
    let (before, value) = match values.rfind(',') {
        Some(comma) => values.split_at(comma + 1),
        None => ("", values),
    };
    let recent = data.log.records.iter();
    let options: BTreeSet<&str> = match field {
        "status" => RequestStatus::ALL.into_iter().map(RequestStatus::name).collect(),
        "stream" => ["yes", "no"].into(),
        "since" | "until" => {
            return ["5m", "1h", "24h", "7d", "30d"]
                .into_iter()
                .filter(|it| it.starts_with(value))
                .map(|it| format!("{field}:{it}"))
                .collect();
        }
        "model" => {
            let known = data.models.entries.iter().map(|it| it.id.as_str());
            known.chain(recent.filter_map(|it| it.model.as_deref())).collect()
        }
        "key" => data.keys.entries.iter().map(|it| it.label.as_str()).collect(),
        "account" => {
            let known = data.accounts.entries.iter().map(|it| it.name.as_str());
            known.chain(recent.map(|it| it.account.as_str())).collect()
        }
        "endpoint" => recent.map(|it| it.endpoint.as_str()).collect(),
        "error" => {
            let known = data.overview.errors.iter().map(|it| it.code.as_str());
            known.chain(recent.filter_map(|it| it.error_code.as_deref())).collect()
        }
        _ => BTreeSet::new(),
    };
    let value = value.to_lowercase();
    let is_word = |it: &&str| !it.is_empty() && !it.contains([' ', ',']);
    let found = options.into_iter().filter(is_word);
    let found = found.filter(|it| it.to_lowercase().contains(&value));
    found.map(|it| format!("{field}:{before}{it}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::catalogue::CatalogueModel;
    use crate::model::keys::Key;

    fn data() -> Data {
        let mut data = Data::default();
        let model = |id: &str, alias: &str| CatalogueModel {
            id: id.to_owned(),
            aliases: vec![alias.to_owned()],
            ..CatalogueModel::default()
        };
        data.models.set(vec![model("sim-chat", "fast"), model("sim", "tiny"), model("b", "c")]);
        let key = |id: &str, label: &str| Key {
            id: id.to_owned(),
            label: label.to_owned(),
            ..Key::default()
        };
        data.keys.set(vec![key("k1", "laptop"), key("k2", "lapdog")]);
        data
    }

    #[test]
    fn names_and_parts_become_ids_and_other_words_are_searched() {
        let data = data();
        for (typed, expression, words) in [
            ("model:sim", "model:sim", &[][..]),
            ("model:si", "model:sim-chat,sim", &[]),
            ("model:FAST,b", "model:sim-chat,b", &[]),
            ("-key:lap cost>1", "-key:k1,k2 cost>1", &[]),
            ("key:laptop", "key:k1", &[]),
            ("key:none model:", "key:none model:", &[]),
            ("sk-tg-k1- cost>1", "key:k1 cost>1", &[]),
            ("-key:sk-tg-k2-,k9", "-key:k2,k9", &[]),
            ("Timeout status:failed 502", "status:failed", &["timeout", "502"]),
            (":x >", "", &[":x", ">"]),
        ] {
            let filter = translate(typed, &data);
            assert_eq!(filter.expression, expression, "{typed}");
            assert_eq!(filter.words, words, "{typed}");
        }
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let mut data = data();
        let keys = (0..MAX_RESOLVED + 30).map(|index| Key {
            id: format!("k{index}"),
            label: format!("robot {index}"),
            ..Key::default()
        });
        data.keys.set(keys.collect());
        let filter = translate("key:robot", &data);
        assert_eq!(filter.expression.split(',').count(), MAX_RESOLVED);
        assert_eq!(filter.omitted_names, 30);
        assert_eq!(translate("key:k7", &data).omitted_names, 0);
    }

    #[test]
    fn words_match_anything_shown() {
        let record = Record {
            account: "Ada".to_owned(),
            error_code: Some("upstream_timeout".to_owned()),
            http_status: Some(504),
            ..Record::default()
        };
        for (words, matches) in [("ada 504", true), ("timeout", true), ("ada bob", false)] {
            assert_eq!(translate(words, &data()).matches(&record), matches, "{words}");
        }
    }

    #[test]
    fn the_last_word_is_completed() {
        let data = data();
        let words = |text| completions(&data, Screen::Usage, text);
        assert_eq!(words("status:failed mo"), ["model:"]);
        assert_eq!(
            words("-status:failed,in"),
            ["-status:failed,incomplete", "-status:failed,interrupted"]
        );
        assert_eq!(words("key:dog"), ["key:lapdog"]);
        assert_eq!(words("stream:yes"), [] as [&str; 0]);
        assert_eq!(completions(&data, Screen::Keys, "la"), ["label:"]);
        assert_eq!(completions(&data, Screen::Keys, "x label:t"), ["label:laptop"]);
        assert_eq!(with_last_word("a b:c", "b:cd"), "a b:cd");
    }

    #[test]
    fn saved_filters_come_first_and_recent_ones_once() {
        let mut memory = FilterMemory::default();
        for filter in ["a", "b", "", "a"] {
            memory.remember(filter);
        }
        assert!(memory.toggle_saved("b"));
        assert_eq!(memory.all().collect::<Vec<_>>(), ["b", "a"]);
        assert!(!memory.toggle_saved("b"));
    }
}
