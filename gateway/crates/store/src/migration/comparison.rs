//! The figures of both databases side by side.

use std::fmt;

use super::figures::Figures;
use super::{FIGURES, TABLES};
use domain::id::AccountId;
use domain::verification::VerificationReport;

/// The comparison of a copy with its source. `Display` is a table for operators.
#[derive(Debug)]
pub struct Comparison {
    /// The number of rows of each table, and sums.
    pub figures: Vec<ComparedFigure>,
    /// The accounts whose entries or whose balance differ.
    pub accounts: Vec<AccountId>,
}

/// A figure of both databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedFigure {
    /// What it is.
    pub name: String,
    /// That of the source.
    pub sqlite: i128,
    /// That of the copy.
    pub postgres: i128,
}

impl Comparison {
    pub(super) fn new(
        sqlite: &(Figures, VerificationReport),
        postgres: &(Figures, VerificationReport),
    ) -> Self {
        let rows = TABLES.iter().map(|table| format!("{}, rows", table.name));
        let names = rows.chain(FIGURES.iter().map(|figure| figure.name.to_owned()));
        let numbers = sqlite.0.numbers.iter().zip(&postgres.0.numbers);
        let figure = |(name, (&sqlite, &postgres))| ComparedFigure { name, sqlite, postgres };
        let mut figures: Vec<_> = names.zip(numbers).map(figure).collect();
        figures.push(ComparedFigure {
            name: "differences found by the verification of the ledger".to_owned(),
            sqlite: sqlite.1.found.into(),
            postgres: postgres.1.found.into(),
        });
        Self { figures, accounts: differing_accounts(sqlite, postgres) }
    }

    /// Returns whether there is no difference.
    pub fn is_equal(&self) -> bool {
        self.accounts.is_empty() && self.figures.iter().all(ComparedFigure::is_equal)
    }
}

impl ComparedFigure {
    /// Returns whether both are the same.
    pub fn is_equal(&self) -> bool {
        self.sqlite == self.postgres
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.figures.iter().map(|it| it.name.len()).max().unwrap_or_default();
        writeln!(f, "{:width$}  {:>20}  {:>20}", "", "SQLite", "PostgreSQL")?;
        for figure in &self.figures {
            let ComparedFigure { name, sqlite, postgres } = figure;
            let mark = if figure.is_equal() { "" } else { "  differs" };
            writeln!(f, "{name:width$}  {sqlite:>20}  {postgres:>20}{mark}")?;
        }
        for account in &self.accounts {
            writeln!(f, "the ledger entries or the balance of account {} differ", account.0)?;
        }
        Ok(())
    }
}

fn differing_accounts(
    (sqlite, sqlite_report): &(Figures, VerificationReport),
    (postgres, postgres_report): &(Figures, VerificationReport),
) -> Vec<AccountId> {
    let entries = |account: &AccountId, figures: &Figures| figures.entries.get(account).copied();
    let balance = |account: &AccountId, report: &VerificationReport| {
        let found = report.balances.binary_search_by_key(account, |(account, _)| *account);
        found.ok().map(|index| report.balances[index].1)
    };
    let of_entries = sqlite.entries.keys().chain(postgres.entries.keys());
    let of_balances = sqlite_report.balances.iter().chain(&postgres_report.balances);
    let mut accounts: Vec<_> = of_entries.chain(of_balances.map(|(account, _)| account)).collect();
    accounts.sort_unstable();
    accounts.dedup();
    let differs = |account: &&AccountId| {
        entries(account, sqlite) != entries(account, postgres)
            || balance(account, sqlite_report) != balance(account, postgres_report)
    };
    accounts.into_iter().filter(differs).copied().collect()
}

#[cfg(test)]
mod tests {
    use domain::money::Nanos;
    use uuid::Uuid;

    use super::*;

    fn database(cost: i128, sum: i128, balance: i64) -> (Figures, VerificationReport) {
        let account = AccountId(Uuid::from_u128(7));
        let numbers = vec![cost; TABLES.len() + FIGURES.len()];
        let figures = Figures { numbers, entries: [(account, (2, sum))].into() };
        let balances = vec![(account, Nanos(balance))];
        (figures, VerificationReport { balances, ..VerificationReport::default() })
    }

    #[test]
    fn each_kind_of_difference_is_found() {
        let compare = |postgres| Comparison::new(&database(1, 2, 3), &postgres);
        let equal = compare(database(1, 2, 3));
        assert!(equal.is_equal() && !equal.to_string().contains("differ "), "{equal}");
        assert_eq!(equal.figures.len(), TABLES.len() + FIGURES.len() + 1);
        let cost = compare(database(9, 2, 3));
        assert!(!cost.is_equal() && cost.accounts.is_empty());
        assert!(cost.to_string().contains("1                     9  differs"), "{cost}");
        for different in [compare(database(1, 9, 3)), compare(database(1, 2, 9))] {
            assert!(!different.is_equal());
            assert_eq!(different.accounts, [AccountId(Uuid::from_u128(7))]);
        }
        let mut inconsistent = database(1, 2, 3);
        inconsistent.1.found = 1;
        assert!(!compare(inconsistent).is_equal());
    }
}
