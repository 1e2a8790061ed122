//! Tables: their columns and values, the order of the rows, the marked rows, and rows as text.

use ctl::spreadsheet;
use jiff::Timestamp;
use serde_json::{Map, Number, Value as Json};

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::money::parse_nanos;

/// A row of a table.
pub trait Tabular {
    /// The titles of all columns, in order.
    const COLUMNS: &'static [&'static str];
    /// The titles of the columns that the screen can show, in order.
    const SHOWN: &'static [&'static str] = Self::COLUMNS;

    /// Returns the value in the column with this title.
    fn value(&self, column: &str) -> Value;
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, or none.
    Unknown,
    /// A text.
    Text(String),
    /// A count.
    Count(u64),
    /// An exact decimal in US dollars.
    Amount(String),
    /// A point in time.
    Time(Timestamp),
    /// A duration in milliseconds.
    Milliseconds(f64),
}

/// How the user wants a table to be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableState {
    /// The order of the rows; `None` for that of the gateway.
    pub sort: Option<Sort>,
    /// The number of columns scrolled out at the left, after the first one, which always stays.
    pub skipped_columns: usize,
    /// The titles of the columns that the user hid.
    pub hidden: BTreeSet<&'static str>,
    /// The titles of the columns after the first one, in the order that the user chose; empty for
    /// the usual one.
    pub order: Vec<&'static str>,
    /// The ids of the marked rows.
    pub marked: BTreeSet<String>,
}

/// The order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The title of the column.
    pub column: &'static str,
    /// Whether the greatest value is first.
    pub is_descending: bool,
}

// === impl Value ===

impl Value {
    /// Returns the text, or unknown if it is empty.
    pub fn text(text: &str) -> Self {
        if text.is_empty() { Self::Unknown } else { Self::Text(text.to_owned()) }
    }

    /// Returns the text, if there is one.
    pub fn optional_text(text: Option<&str>) -> Self {
        text.map_or(Self::Unknown, Self::text)
    }

    /// Returns the count, if there is one.
    pub fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Unknown, Self::Count)
    }

    /// Returns the amount, if there is one.
    pub fn amount(amount: Option<&str>) -> Self {
        amount.map_or(Self::Unknown, |amount| Self::Amount(amount.to_owned()))
    }

    /// Returns the time, if there is one.
    pub fn time(time: Option<Timestamp>) -> Self {
        time.map_or(Self::Unknown, Self::Time)
    }

    /// Returns the duration, if there is one.
    pub fn milliseconds(time: Option<f64>) -> Self {
        time.map_or(Self::Unknown, Self::Milliseconds)
    }

    /// Compares two values of a column.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.to_lowercase().cmp(&b.to_lowercase()),
            (Self::Count(a), Self::Count(b)) => a.cmp(b),
            (Self::Amount(a), Self::Amount(b)) => parse_nanos(a).cmp(&parse_nanos(b)),
            (Self::Time(a), Self::Time(b)) => a.cmp(b),
            (Self::Milliseconds(a), Self::Milliseconds(b)) => a.total_cmp(b),
            _ => Ordering::Equal,
        }
    }

    /// Returns the value as text.
    pub fn plain(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(text) | Self::Amount(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Time(time) => time.to_string(),
            Self::Milliseconds(time) => time.to_string(),
        }
    }

    /// Returns the value as the text of a CSV field, without quotes. It is never read as a formula.
    fn csv(&self) -> String {
        match self {
            Self::Amount(text) if spreadsheet::is_amount(text) => text.clone(),
            Self::Text(text) | Self::Amount(text) => spreadsheet::cell(text),
            other => other.plain(),
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::Unknown => Json::Null,
            Self::Count(count) => Json::from(*count),
            Self::Milliseconds(time) => Number::from_f64(*time).map_or(Json::Null, Json::Number),
            Self::Text(_) | Self::Amount(_) | Self::Time(_) => Json::String(self.plain()),
        }
    }
}

// === impl Sort ===

impl Sort {
    /// Compares two rows. Unknown values are last in either direction.
    pub fn compare<T: Tabular>(self, a: &T, b: &T) -> Ordering {
        let (a, b) = (a.value(self.column), b.value(self.column));
        match (&a, &b) {
            (Value::Unknown, Value::Unknown) => Ordering::Equal,
            (Value::Unknown, _) => Ordering::Greater,
            (_, Value::Unknown) => Ordering::Less,
            _ if self.is_descending => b.compare(&a),
            _ => a.compare(&b),
        }
    }
}

// === impl TableState ===

impl TableState {
    /// Sorts by the column `steps` after the current one; before the first and after the last one,
    /// the rows have the order of the gateway. Texts begin with the smallest, others with the
    /// greatest value, by the first known value of `rows`.
    pub fn sort_by_next<'a, T: Tabular + 'a>(
        &mut self,
        steps: isize,
        rows: &mut dyn Iterator<Item = &'a T>,
    ) {
        let current =
            self.sort.and_then(|sort| T::COLUMNS.iter().position(|it| *it == sort.column));
        // Place 0 stands for the order of the gateway.
        let places = T::COLUMNS.len() + 1;
        let place = (current.map_or(0, |it| it + 1) + places).saturating_add_signed(steps) % places;
        self.sort = place.checked_sub(1).map(|index| {
            let column = T::COLUMNS[index];
            let known = rows.map(|it| it.value(column)).find(|it| *it != Value::Unknown);
            let is_text = matches!(known, Some(Value::Text(_)));
            Sort { column, is_descending: !is_text }
        });
    }

    /// Reverses the order of the rows, if they are sorted.
    pub fn reverse(&mut self) {
        if let Some(sort) = &mut self.sort {
            sort.is_descending = !sort.is_descending;
        }
    }

    /// Scrolls `steps` columns to the right; negative is left.
    pub fn scroll_sideways<T: Tabular>(&mut self, steps: isize) {
        let last = T::COLUMNS.len().saturating_sub(2);
        self.skipped_columns = self.skipped_columns.saturating_add_signed(steps).min(last);
    }

    /// Marks the row with this id, or takes its mark away.
    pub fn toggle_mark(&mut self, id: &str) {
        if !self.marked.remove(id) {
            self.marked.insert(id.to_owned());
        }
    }
}

/// Returns the rows as CSV with a header.
pub fn to_csv<'a, T: Tabular + 'a>(rows: impl Iterator<Item = &'a T>) -> String {
    let quote = |text: &str| {
        if text.contains([',', '"']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let header = line(T::COLUMNS.iter().map(|it| quote(it)).collect());
    let rows =
        rows.map(|row| line(T::COLUMNS.iter().map(|it| quote(&row.value(it).csv())).collect()));
    std::iter::once(header).chain(rows).collect()
}

/// Returns the rows as a JSON array of objects.
pub fn to_json<'a, T: Tabular + 'a>(rows: impl Iterator<Item = &'a T>) -> String {
    let object = |row: &T| {
        let fields = T::COLUMNS.iter().map(|it| ((*it).to_owned(), row.value(it).json()));
        Json::Object(fields.collect::<Map<_, _>>())
    };
    let rows: Vec<_> = rows.map(object).collect();
    format!("{:#}", Json::Array(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(&'static str, Option<u64>);

    impl Tabular for Row {
        const COLUMNS: &'static [&'static str] = &["name", "count"];

        fn value(&self, column: &str) -> Value {
            match column {
                "name" => Value::text(self.0),
                _ => Value::count(self.1),
            }
        }
    }

    const ROWS: [Row; 3] = [Row("b", Some(9)), Row("A, \"x\"", None), Row("c", Some(10))];

    fn order(sort: Sort) -> Vec<&'static str> {
        let mut rows: Vec<_> = ROWS.iter().collect();
        rows.sort_by(|a, b| sort.compare(*a, *b));
        rows.into_iter().map(|row| &row.0[..1]).collect()
    }

    #[test]
    fn unknown_values_are_last_in_either_direction() {
        let sort = |column, is_descending| Sort { column, is_descending };
        assert_eq!(order(sort("name", false)), ["A", "b", "c"]);
        assert_eq!(order(sort("count", false)), ["b", "c", "A"]);
        assert_eq!(order(sort("count", true)), ["c", "b", "A"]);
    }

    #[test]
    fn the_columns_are_sorted_by_in_turn() {
        let mut table = TableState::default();
        let mut next = |steps| {
            table.sort_by_next(steps, &mut ROWS.iter());
            table.sort.map(|sort| (sort.column, sort.is_descending))
        };
        let (name, count) = (Some(("name", false)), Some(("count", true)));
        assert_eq!(
            [next(1), next(1), next(1), next(-1), next(-1)],
            [name, count, None, count, name]
        );
    }

    #[test]
    fn the_first_known_value_determines_the_direction() {
        let mut table = TableState::default();
        table.sort_by_next(1, &mut [Row("", None), Row("a", None)].iter());
        assert_eq!(table.sort, Some(Sort { column: "name", is_descending: false }));
        table.sort_by_next(1, &mut [Row("", None), Row("a", Some(1))].iter());
        assert_eq!(table.sort, Some(Sort { column: "count", is_descending: true }));
    }

    #[test]
    fn rows_are_quoted() {
        let csv = "name,count\nb,9\n\"A, \"\"x\"\"\",\nc,10\n";
        assert_eq!(to_csv(ROWS.iter()), csv);
        let json: Json = serde_json::from_str(&to_json(ROWS[..2].iter())).unwrap();
        assert_eq!(json[1], serde_json::json!({"name": "A, \"x\"", "count": null}));
    }

    #[test]
    fn copied_cells_are_no_formulas() {
        struct Cells;
        impl Tabular for Cells {
            const COLUMNS: &'static [&'static str] = &["text", "amount", "forged"];

            fn value(&self, column: &str) -> Value {
                match column {
                    "text" => Value::text("=1+1\n@x;-y"),
                    "amount" => Value::amount(Some("-1.5")),
                    _ => Value::amount(Some("-1+cmd")),
                }
            }
        }
        let csv = to_csv([Cells].iter());
        assert_eq!(csv, "text,amount,forged\n'=1+1 @x;'-y,-1.5,'-1+cmd\n");
    }
}
