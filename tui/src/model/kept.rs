//! What is kept for the next start: theme, mouse, time zone, range, columns, filters, the screen,
//! and the gateways at which the hint for a new user is done.
//!
//! It is a JSON object. Parts of it that are missing or not understood keep their defaults.

use serde_json::{Map, Value, json};

use super::filter::FilterMemory;
use super::first_steps::FirstSteps;
use super::table::{TableState, Tabular};
use super::usage::Range;
use super::{Data, Model, Screen, Start};

/// The maximum number of gateways for which it is kept that the hint for a new user is done.
const MAX_INTRODUCED: usize = 50;

/// Returns what to keep of `model`.
pub fn of(model: &Model) -> Value {
    let filters: Map<_, _> = model
        .filters
        .iter()
        .map(|(screen, it)| ((*screen).to_owned(), json!({"saved": it.saved, "recent": it.recent})))
        .collect();
    let tables: Map<_, _> = tables(&model.data)
        .into_iter()
        .filter(|(_, table)| !table.hidden.is_empty() || !table.order.is_empty())
        .map(|(screen, table)| {
            let hidden: Vec<_> = table.hidden.iter().collect();
            (screen.name().to_owned(), json!({"hidden": hidden, "order": table.order}))
        })
        .collect();
    let screen = match model.screen {
        Screen::SignIn => model.start.as_ref().map(|start| start.screen.name()),
        screen => Some(screen.name()),
    };
    json!({
        "theme": model.chosen_theme,
        "mouse": model.is_mouse_enabled,
        "utc": model.is_utc,
        "introduced": introduced(model),
        "range": model.data.usage.range.name(),
        "screen": screen,
        "filters": filters,
        "columns": tables,
    })
}

/// Returns the gateways whose first steps are done, the current one last.
fn introduced(model: &Model) -> Vec<&str> {
    let mut servers: Vec<_> = model.introduced_servers.iter().map(String::as_str).collect();
    servers.retain(|server| *server != model.server);
    if model.first_steps == FirstSteps::Done {
        servers.push(&model.server);
    }
    let over = servers.len().saturating_sub(MAX_INTRODUCED);
    servers.split_off(over)
}

/// Applies what was kept. A theme that does not exist any more is ignored.
pub fn apply(model: &mut Model, kept: &Value) {
    if let Some(name) = kept["theme"].as_str() {
        model.choose_theme(name);
    }
    if kept["utc"] == true {
        model.toggle_utc();
    }
    model.introduced_servers = texts(&kept["introduced"]);
    if let Some(screen) = kept["screen"].as_str().and_then(Screen::find) {
        model.start = Some(Start { screen, filter: String::new(), is_asked: false });
    }
    for screen in Screen::openable() {
        let filters = &kept["filters"][screen.name()];
        let memory =
            FilterMemory { saved: texts(&filters["saved"]), recent: texts(&filters["recent"]) };
        if memory != FilterMemory::default() {
            model.filters.insert(screen.name(), memory);
        }
    }
    apply_to_data(&mut model.data, kept);
}

/// Applies the range and the columns that were kept.
pub fn apply_to_data(data: &mut Data, kept: &Value) {
    let range = Range::ALL.into_iter().find(|range| kept["range"] == range.name());
    data.usage.range = range.unwrap_or_default();
    apply_columns(data, &kept["columns"]);
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn tables(data: &Data) -> [(Screen, &TableState); 13] {
    [
        (Screen::Keys, &data.keys.table),
        (Screen::Models, &data.models.table),
        (Screen::Usage, &data.log.table),
        (Screen::Accounts, &data.accounts.table),
        (Screen::Upstreams, &data.upstreams.table),
        (Screen::Plans, &data.plans.table),
        (Screen::Audit, &data.audit.table),
        (Screen::Nodes, &data.nodes.table),
        (Screen::Ledger, &data.ledger.table),
        (Screen::Invites, &data.invites.table),
        (Screen::People, &data.people.table),
        (Screen::Sessions, &data.sessions.table),
        (Screen::InFlight, &data.in_flight.table),
    ]
}

fn apply_columns(data: &mut Data, kept: &Value) {
    fn set<T: Tabular>(table: &mut TableState, kept: &Value) {
        let titles = |list: &Value| {
            let known = |text: String| T::SHOWN.iter().find(|title| **title == text).copied();
            let mut titles = Vec::new();
            for title in texts(list).into_iter().filter_map(known) {
                if !titles.contains(&title) {
                    titles.push(title);
                }
            }
            titles
        };
        table.hidden = titles(&kept["hidden"]).into_iter().collect();
        table.order = titles(&kept["order"]);
    }
    use super::accounts::Account;
    use super::audit::AuditEntry;
    use super::catalogue::CatalogueModel;
    use super::in_flight::InFlight;
    use super::invites::Invite;
    use super::keys::Key;
    use super::ledger::LedgerEntry;
    use super::nodes::Node;
    use super::people::Person;
    use super::plans::Plan;
    use super::record::Record;
    use super::sessions::Session;
    use super::upstreams::Upstream;
    let of = |screen: Screen| &kept[screen.name()];
    set::<Key>(&mut data.keys.table, of(Screen::Keys));
    set::<CatalogueModel>(&mut data.models.table, of(Screen::Models));
    set::<Record>(&mut data.log.table, of(Screen::Usage));
    set::<Account>(&mut data.accounts.table, of(Screen::Accounts));
    set::<Upstream>(&mut data.upstreams.table, of(Screen::Upstreams));
    set::<Plan>(&mut data.plans.table, of(Screen::Plans));
    set::<AuditEntry>(&mut data.audit.table, of(Screen::Audit));
    set::<Node>(&mut data.nodes.table, of(Screen::Nodes));
    set::<LedgerEntry>(&mut data.ledger.table, of(Screen::Ledger));
    set::<Invite>(&mut data.invites.table, of(Screen::Invites));
    set::<Person>(&mut data.people.table, of(Screen::People));
    set::<Session>(&mut data.sessions.table, of(Screen::Sessions));
    set::<InFlight>(&mut data.in_flight.table, of(Screen::InFlight));
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::theme::catalogue::{NamedTheme, add};
    use crate::theme::{Palette, Theme};

    fn model() -> Model {
        let theme = Theme::new(Palette::Plain);
        Model::new("http://127.0.0.1:1".to_owned(), None, TimeZone::UTC, theme)
    }

    #[test]
    fn what_is_kept_comes_back() {
        let mut before = model();
        before.choose_theme("nord");
        before.toggle_utc();
        before.is_mouse_enabled = true;
        before.screen = Screen::Usage;
        before.data.usage.range = Range::Week;
        before.data.keys.table.hidden.insert("models");
        before.data.log.table.order = vec!["model", "cost"];
        before.filters.entry("usage").or_default().remember("status:failed");
        before.filters.entry("usage").or_default().toggle_saved("cost>1");
        before.introduced_servers = vec!["http://127.0.0.1:2".to_owned()];
        let kept = of(&before);
        let mut after = model();
        apply(&mut after, &kept);
        assert_eq!(after.start.as_ref().map(|it| it.screen), Some(Screen::Usage));
        assert_eq!(after.theme, before.theme);
        assert_eq!(after.filters, before.filters);
        after.screen = Screen::Usage;
        after.is_mouse_enabled = true;
        assert_eq!(of(&after), kept);
    }

    #[test]
    fn a_theme_of_the_user_replaces_the_bundled_one() {
        let mut model = model();
        let (count, own) = (model.themes.len(), Theme::new(Palette::Sixteen));
        add(&mut model.themes, vec![NamedTheme { name: "nord".to_owned(), theme: own }]);
        apply(&mut model, &json!({"theme": "nord"}));
        assert_eq!((model.theme, model.themes.len()), (own, count));
    }

    #[test]
    fn a_column_is_kept_once() {
        let mut model = model();
        let kept = json!({"columns": {"usage": {"order": ["model", "cost", "model"]}}});
        apply(&mut model, &kept);
        assert_eq!(model.data.log.table.order, ["model", "cost"]);
    }

    #[test]
    fn what_is_not_understood_is_ignored() {
        let untouched = of(&model());
        for text in [
            "null",
            "[]",
            r#"{"theme": 7, "range": "9y", "screen": "sign in", "utc": "yes"}"#,
            r#"{"theme": "gone", "columns": {"keys": {"hidden": ["nothing", 3]}}, "filters": 1}"#,
        ] {
            let mut model = model();
            apply(&mut model, &serde_json::from_str(text).unwrap());
            assert_eq!(of(&model), untouched, "{text}");
        }
    }
}
