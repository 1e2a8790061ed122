//! Choices from a list above a screen: columns and their order, values to copy, and themes.

use super::table::{TableState, Tabular};

/// The columns of the table below, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnChoice {
    /// The titles, in the order of the table.
    pub titles: Vec<&'static str>,
    /// The index of the selected one.
    pub selected: usize,
}

/// The values of the selected row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueChoice {
    /// The titles of the columns with their values.
    pub values: Vec<(&'static str, String)>,
    /// The index of the selected one.
    pub selected: usize,
}

/// The themes, of which the selected one is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThemeChoice {
    /// The index of the selected one.
    pub selected: usize,
    /// The index of the one to restore on cancel, if it has a name.
    pub before: Option<usize>,
}

/// Returns the titles of the columns in the order that the user chose. The first one stays where it
/// is.
pub fn ordered<T: Tabular>(table: &TableState) -> Vec<&'static str> {
    let Some((first, others)) = T::SHOWN.split_first() else { return Vec::new() };
    let mut titles = vec![*first];
    titles.extend(table.order.iter().filter(|title| others.contains(title)));
    titles.extend(others.iter().filter(|title| !table.order.contains(title)));
    titles
}

/// Returns the index `steps` further within `count` entries, without wrapping around.
pub fn moved(selected: usize, steps: isize, count: usize) -> usize {
    selected.saturating_add_signed(steps).min(count.saturating_sub(1))
}

// === impl ColumnChoice ===

impl ColumnChoice {
    /// Moves the selected column `steps` places, but never to the first place.
    pub fn shift(&mut self, steps: isize) {
        let to = moved(self.selected, steps, self.titles.len()).max(1);
        if self.selected > 0 && to < self.titles.len() {
            let title = self.titles.remove(self.selected);
            self.titles.insert(to, title);
            self.selected = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::keys::Key;

    #[test]
    fn the_chosen_order_comes_before_the_other_columns() {
        let table = TableState { order: vec!["state", "label", "id"], ..TableState::default() };
        let titles = ordered::<Key>(&table);
        assert_eq!(titles[..4], ["label", "state", "id", "account"]);
        assert_eq!(titles.len(), Key::SHOWN.len());
    }

    #[test]
    fn columns_move_but_not_to_the_first_place() {
        let mut choice = ColumnChoice { titles: vec!["a", "b", "c"], selected: 2 };
        choice.shift(-1);
        assert_eq!((choice.titles.as_slice(), choice.selected), (&["a", "c", "b"][..], 1));
        choice.shift(-1);
        assert_eq!(choice.selected, 1);
        choice.selected = 0;
        choice.shift(1);
        assert_eq!(choice.titles, ["a", "c", "b"]);
    }
}
