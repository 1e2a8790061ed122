//! Actions common to all lists: cursor, filter and detail pane.

use secrecy::SecretString;

use crate::effect::Effect;
use crate::model::choices::ordered;
use crate::model::fetched::{FetchState, List, ListEntry};
use crate::model::filter::FilterInput;
use crate::model::keys::without_secrets;
use crate::model::log::RequestLog;
use crate::model::overlay::Overlay;
use crate::model::record::Record;
use crate::model::table::{TableState, Tabular, to_csv, to_json};
use crate::model::{Action, Data, Model, RowFormat, Screen};

use super::trail;

/// The maximum number of lines that the detail pane scrolls down.
const MAX_DETAIL_SCROLL: usize = 500;

/// A list with a row cursor.
pub(super) trait Selectable {
    /// Returns the number of rows.
    fn count(&self) -> usize;
    /// Returns the index of the selected row.
    fn selected(&self) -> usize;
    /// Moves the cursor to `row`, or to the last row.
    fn select(&mut self, row: usize);
    /// Returns the load state.
    fn fetch(&self) -> &FetchState;
    /// Returns the id of the selected row.
    fn id(&self) -> Option<&str>;
    /// Returns the ids of the marked rows, or of the selected one.
    fn chosen_ids(&self) -> Vec<String>;
    /// Returns the marked rows, or the selected one, as text.
    fn chosen_rows(&self, format: RowFormat) -> String;
    /// Changes the order of the rows, the visible columns or the marks.
    fn arrange(&mut self, action: Action);
    /// Returns the titles of the columns in their order.
    fn columns(&self) -> Vec<&'static str>;
    /// Returns the known values of the selected row with the titles of their columns.
    fn values(&self) -> Vec<(&'static str, String)>;
    /// Returns how the table is shown.
    fn table(&mut self) -> &mut TableState;
    /// Moves the cursor to the row with this id as soon as there is one.
    fn await_row(&mut self, id: String);
}

/// Returns the rows as text.
fn rows_text<'a, T: Tabular + 'a>(rows: impl Iterator<Item = &'a T>, format: RowFormat) -> String {
    match format {
        RowFormat::Csv => to_csv(rows),
        RowFormat::Json => to_json(rows),
    }
}

/// Returns the known values of a row, and its id.
fn row_values<T: Tabular>(row: &T, id: &str) -> Vec<(&'static str, String)> {
    let values = T::COLUMNS.iter().map(|column| (*column, row.value(column).plain()));
    let has_id = T::COLUMNS.contains(&"id");
    let id = (!has_id).then(|| ("id", id.to_owned()));
    values.filter(|(_, text)| !text.is_empty()).chain(id).collect()
}

/// Changes the order of the rows or the visible columns.
fn arrange<'a, T: Tabular + 'a>(
    table: &mut TableState,
    action: Action,
    rows: &mut dyn Iterator<Item = &'a T>,
) {
    match action {
        Action::Sort(steps) => table.sort_by_next(steps, rows),
        Action::Reverse => table.reverse(),
        Action::Sideways(steps) => table.scroll_sideways::<T>(steps),
        _ => {}
    }
}

impl<T: ListEntry> Selectable for List<T> {
    fn count(&self) -> usize {
        self.visible().count()
    }

    fn selected(&self) -> usize {
        self.selected
    }

    fn select(&mut self, row: usize) {
        List::select(self, row);
    }

    fn fetch(&self) -> &FetchState {
        &self.fetch
    }

    fn id(&self) -> Option<&str> {
        self.current().map(ListEntry::id)
    }

    fn chosen_ids(&self) -> Vec<String> {
        self.chosen().into_iter().map(|entry| entry.id().to_owned()).collect()
    }

    fn chosen_rows(&self, format: RowFormat) -> String {
        rows_text(self.chosen().into_iter(), format)
    }

    fn arrange(&mut self, action: Action) {
        match (action, self.id().map(str::to_owned)) {
            (Action::Mark, Some(id)) => {
                self.table.toggle_mark(&id);
                List::select(self, self.selected + 1);
            }
            (action, _) => self.rearrange(|table, rows| arrange(table, action, rows)),
        }
    }

    fn columns(&self) -> Vec<&'static str> {
        ordered::<T>(&self.table)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        self.current().map_or_else(Vec::new, |entry| row_values(entry, entry.id()))
    }

    fn table(&mut self) -> &mut TableState {
        &mut self.table
    }

    fn await_row(&mut self, id: String) {
        self.awaited = Some(id);
    }
}

impl Selectable for RequestLog {
    fn count(&self) -> usize {
        self.records.len()
    }

    fn selected(&self) -> usize {
        self.selected
    }

    fn select(&mut self, row: usize) {
        RequestLog::select(self, row);
    }

    fn fetch(&self) -> &FetchState {
        &self.fetch
    }

    fn id(&self) -> Option<&str> {
        self.current().map(|record| record.id.as_str())
    }

    fn chosen_ids(&self) -> Vec<String> {
        self.id().map(str::to_owned).into_iter().collect()
    }

    fn chosen_rows(&self, format: RowFormat) -> String {
        rows_text(self.current().into_iter(), format)
    }

    fn arrange(&mut self, action: Action) {
        self.rearrange(|table, rows| arrange(table, action, rows));
    }

    fn columns(&self) -> Vec<&'static str> {
        ordered::<Record>(&self.table)
    }

    fn values(&self) -> Vec<(&'static str, String)> {
        self.current().map_or_else(Vec::new, |record| row_values(record, &record.id))
    }

    fn table(&mut self) -> &mut TableState {
        &mut self.table
    }

    // No change adds a request.
    fn await_row(&mut self, _id: String) {}
}

/// Handles actions common to all lists. Returns whether `action` was one of them.
pub(super) fn act(model: &mut Model, action: Action) -> bool {
    let page = model.page();
    if let Action::Enter = action {
        trail::enter(model);
        return true;
    }
    if let Action::Filter = action {
        if rows(model).is_some() {
            model.overlay = Some(Overlay::Filter(FilterInput::new(filter(model))));
        }
        return true;
    }
    if let Action::Scroll(lines) = action {
        let scroll = model.detail_scroll.saturating_add_signed(lines);
        model.detail_scroll = scroll.min(MAX_DETAIL_SCROLL);
        return true;
    }
    model.detail_scroll = 0;
    if let Action::Detail = action {
        model.is_detail_open = !model.is_detail_open;
        if model.is_detail_open && model.screen == Screen::Usage {
            model.data.log.pin_selection();
        }
        return true;
    }
    if let Action::Back = action {
        if model.is_detail_open {
            model.is_detail_open = false;
        } else if !clear_marks(model) && !trail::back(model) && !filter(model).is_empty() {
            set_filter(model, "");
        }
        return true;
    }
    let Some(rows) = rows(model) else { return false };
    let row = match action {
        Action::Sort(_) | Action::Reverse | Action::Sideways(_) | Action::Mark => {
            rows.arrange(action);
            return true;
        }
        Action::Move(steps) => rows.selected().saturating_add_signed(steps),
        Action::Page(pages) => rows.selected().saturating_add_signed(pages.saturating_mul(page)),
        Action::First => 0,
        Action::Last => rows.count(),
        Action::Select(row) => row,
        _ => return false,
    };
    rows.select(row);
    true
}

/// Returns why there is no row for `action`, if it needs one and none is selected.
pub(super) fn missing_row(model: &mut Model, action: Action) -> Option<String> {
    let closes_detail = action == Action::Detail && model.is_detail_open;
    if !action.needs_row() || closes_detail || !model.allows(action) {
        return None;
    }
    let (name, is_filtered) = (model.screen.name(), !filter(model).is_empty());
    let rows = rows(model)?;
    if rows.count() > 0 {
        return None;
    }
    Some(match rows.fetch() {
        FetchState::Loading => "the rows are being fetched: try again in a moment".to_owned(),
        FetchState::Failed(_) => "the rows could not be fetched: r tries again".to_owned(),
        FetchState::Unsupported => format!("`{name}` is not available on this gateway"),
        FetchState::Ready if is_filtered => "no row passes the filter: Esc clears it".to_owned(),
        FetchState::Ready => format!("there is no row in `{name}` yet"),
    })
}

/// Takes all marks away. Returns whether any were visible.
fn clear_marks(model: &mut Model) -> bool {
    fn clear<T: ListEntry>(list: &mut List<T>) -> bool {
        let is_any_visible = !list.marked().is_empty();
        list.table.marked.clear();
        is_any_visible
    }
    match model.screen {
        Screen::Keys => clear(&mut model.data.keys),
        Screen::Accounts => clear(&mut model.data.accounts),
        _ => false,
    }
}

/// Handles [`Action::Copy`], which copies the ids of the marked rows or that of the selected one.
/// Ignores other actions.
pub(super) fn copy_id(model: &mut Model, action: Action) -> Vec<Effect> {
    if action != Action::Copy {
        return Vec::new();
    }
    let ids = rows(model).map(|rows| rows.chosen_ids()).unwrap_or_default();
    match ids.as_slice() {
        [] => return Vec::new(),
        [id] => model.set_success(format!("`{id}` was sent to the terminal's clipboard")),
        several => {
            let count = several.len();
            model.set_success(format!("{count} ids were sent to the terminal's clipboard"));
        }
    }
    vec![Effect::Copy(SecretString::from(ids.join("\n")))]
}

/// Copies the marked rows, or the selected one. Returns `None` without a row.
pub(super) fn copy_rows(model: &mut Model, format: RowFormat) -> Option<Vec<Effect>> {
    let rows = rows(model)?;
    let count = rows.chosen_ids().len();
    let text = rows.chosen_rows(format);
    let name = match format {
        RowFormat::Csv => "CSV",
        RowFormat::Json => "JSON",
    };
    let rows = if count == 1 { "1 row was" } else { &format!("{count} rows were") };
    model.set_success(format!("{rows} sent to the terminal's clipboard as {name}"));
    (count > 0).then(|| vec![Effect::Copy(SecretString::from(text))])
}

/// Returns the id of the selected row.
pub(super) fn selected_id(model: &Model) -> Option<&str> {
    let data = &model.data;
    match model.screen {
        Screen::Keys => Selectable::id(&data.keys),
        Screen::Models => Selectable::id(&data.models),
        Screen::Usage => Selectable::id(&data.log),
        Screen::Accounts => Selectable::id(&data.accounts),
        Screen::Upstreams => Selectable::id(&data.upstreams),
        Screen::Plans => Selectable::id(&data.plans),
        Screen::Audit => Selectable::id(&data.audit),
        Screen::Nodes => Selectable::id(&data.nodes),
        Screen::Ledger => Selectable::id(&data.ledger),
        Screen::Invites => Selectable::id(&data.invites),
        Screen::People => Selectable::id(&data.people),
        Screen::Sessions => Selectable::id(&data.sessions),
        Screen::InFlight => Selectable::id(&data.in_flight),
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => None,
    }
}

/// Returns the filter of the open list.
pub(super) fn filter(model: &Model) -> &str {
    let data = &model.data;
    match model.screen {
        Screen::Keys => &data.keys.filter,
        Screen::Models => &data.models.filter,
        Screen::Usage => &data.usage.filter,
        Screen::Accounts => &data.accounts.filter,
        Screen::Upstreams => &data.upstreams.filter,
        Screen::Plans => &data.plans.filter,
        Screen::Audit => &data.audit.filter,
        Screen::Nodes => &data.nodes.filter,
        Screen::Ledger => &data.ledger.filter,
        Screen::Invites => &data.invites.filter,
        Screen::People => &data.people.filter,
        Screen::Sessions => &data.sessions.filter,
        Screen::InFlight => &data.in_flight.filter,
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => "",
    }
}

/// Sets the filter of the open list. The gateway filters the request log, so that log starts over.
pub(super) fn set_filter(model: &mut Model, filter: &str) {
    let filter = &without_secrets(filter);
    let data = &mut model.data;
    match model.screen {
        Screen::Keys => data.keys.set_filter(filter),
        Screen::Models => data.models.set_filter(filter),
        Screen::Usage => filter.clone_into(&mut data.usage.filter),
        Screen::Accounts => data.accounts.set_filter(filter),
        Screen::Upstreams => data.upstreams.set_filter(filter),
        Screen::Plans => data.plans.set_filter(filter),
        Screen::Audit => data.audit.set_filter(filter),
        Screen::Nodes => data.nodes.set_filter(filter),
        Screen::Ledger => data.ledger.set_filter(filter),
        Screen::Invites => data.invites.set_filter(filter),
        Screen::People => data.people.set_filter(filter),
        Screen::Sessions => data.sessions.set_filter(filter),
        Screen::InFlight => data.in_flight.set_filter(filter),
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => {}
    }
}

/// Returns how the table of the open screen is shown.
pub(super) fn table(model: &mut Model) -> Option<&mut TableState> {
    rows(model).map(Selectable::table)
}

/// Returns the list of the open screen.
pub(super) fn rows(model: &mut Model) -> Option<&mut dyn Selectable> {
    rows_of(&mut model.data, model.screen)
}

/// Returns the list of a screen.
pub(super) fn rows_of(data: &mut Data, screen: Screen) -> Option<&mut dyn Selectable> {
    match screen {
        Screen::Keys => Some(&mut data.keys),
        Screen::Models => Some(&mut data.models),
        Screen::Usage => Some(&mut data.log),
        Screen::Accounts => Some(&mut data.accounts),
        Screen::Upstreams => Some(&mut data.upstreams),
        Screen::Plans => Some(&mut data.plans),
        Screen::Audit => Some(&mut data.audit),
        Screen::Nodes => Some(&mut data.nodes),
        Screen::Ledger => Some(&mut data.ledger),
        Screen::Invites => Some(&mut data.invites),
        Screen::People => Some(&mut data.people),
        Screen::Sessions => Some(&mut data.sessions),
        Screen::InFlight => Some(&mut data.in_flight),
        Screen::SignIn | Screen::Overview | Screen::Live | Screen::Operations => None,
    }
}
