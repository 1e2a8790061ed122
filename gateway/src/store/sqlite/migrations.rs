//! The schema, as a list of steps that only ever grows.

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use super::error::Newer;

const STEPS: &[M<'_>] = &[
    M::up(include_str!("migrations/0001_init.sql")),
    M::up(include_str!("migrations/0002_responses.sql")),
    M::up(include_str!("migrations/0003_overruns.sql")),
    M::up(include_str!("migrations/0004_accounts.sql")),
    M::up(include_str!("migrations/0005_records.sql")),
    M::up(include_str!("migrations/0007_retries.sql")),
];

/// Brings a database up to date, or refuses one that is ahead of us.
pub(super) fn run(
    connection: &mut Connection,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    let found = usize::try_from(found).unwrap_or(usize::MAX);
    if found > STEPS.len() {
        return Err(Newer { found, known: STEPS.len() }.into());
    }
    Ok(Migrations::from_slice(STEPS).to_latest(connection)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_applies() {
        Migrations::from_slice(STEPS).validate().unwrap();
    }
}
