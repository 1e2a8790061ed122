//! The schema, as an append-only list of migrations.

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use super::codec::ReadColumn;
use super::error::NewerSchemaError;

/// The migrations and their names, from the names of their files.
macro_rules! steps {
    ($($name:literal),* $(,)?) => {
        const STEPS: &[M<'_>] =
            &[$(M::up(include_str!(concat!("migrations/", $name, ".sql")))),*];
        /// The names of the migrations, in their order.
        pub(super) const NAMES: &[&str] = &[$($name),*];
    };
}

steps![
    "0001_init",
    "0002_responses",
    "0003_overruns",
    "0004_accounts",
    "0005_records",
    "0006_limits",
    "0007_retries",
    "0008_key_days",
    "0009_runs",
    "0010_key_days_by_model",
    "0011_record_counts",
    "0012_upstream_ca",
    "0013_inputs",
    "0014_routing",
    "0015_connection_bound",
    "0016_total_deadline",
    "0017_client_certificate",
    "0018_proxy",
    "0019_credentials",
    "0020_health_check",
    "0021_proxy_login",
    "0022_key_use",
    "0023_hedging",
    "0024_account_lifecycle",
    "0025_operators",
    "0026_password_resets",
    "0027_people",
    "0028_alerts",
    "0029_trace_content",
];

/// The newest schema version.
#[expect(clippy::cast_possible_truncation, reason = "there are few migrations")]
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// Migrates a database, in one transaction for all missing migrations. Refuses one with a newer
/// schema. Records the version of this program, which such a refusal by an older one names.
pub(super) fn run(
    connection: &mut Connection,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let found = found_version(connection)?;
    if found > 0 {
        // Before the migrations: after a crash in between, no schema is newer than its writer.
        record_writer(connection)?;
    }
    Migrations::from_slice(STEPS).to_latest(connection)?;
    Ok(record_writer(connection)?)
}

/// Returns the schema version of a database; zero if it has none.
///
/// # Errors
/// [`NewerSchemaError`] if it is newer than this program.
pub(super) fn found_version(
    connection: &Connection,
) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.column::<i64>(0))?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found <= VERSION {
        return Ok(found);
    }
    // Its tables may be others than ours.
    let sql = "SELECT value FROM meta WHERE name = 'written_by'";
    let writer = connection.query_row(sql, [], |row| row.column::<String>(0)).ok();
    Err(NewerSchemaError { found, known: VERSION, writer }.into())
}

/// Records that this program has opened the database.
fn record_writer(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES ('written_by', ?) \
        ON CONFLICT DO UPDATE SET value = excluded.value WHERE value <> excluded.value";
    connection.execute(sql, [version::LONG])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;

    #[test]
    fn all_migrations_apply() {
        Migrations::from_slice(STEPS).validate().unwrap();
    }

    #[test]
    fn migration_sets_the_origin_of_rotated_keys() {
        let mut connection = Connection::open_in_memory().unwrap();
        Migrations::from_slice(&STEPS[..5]).to_latest(&mut connection).unwrap();
        let keys = "PRAGMA foreign_keys = OFF;
            INSERT INTO keys (id, digest, account, label, models, created_at, successor) VALUES
                ('c', x'01', x'', '', '[]', 0, NULL),
                ('a', x'02', x'', '', '[]', 0, 'b'),
                ('b', x'03', x'', '', '[]', 0, 'c'),
                ('d', x'04', x'', '', '[]', 0, NULL);";
        connection.execute_batch(keys).unwrap();
        run(&mut connection).unwrap();
        let mut select = connection.prepare("SELECT id, origin FROM keys ORDER BY id").unwrap();
        let origins = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let origins: Vec<(String, String)> = origins.map(Result::unwrap).collect();
        let expected = [("a", "a"), ("b", "a"), ("c", "a"), ("d", "d")];
        assert_eq!(origins, expected.map(|(id, origin)| (id.to_owned(), origin.to_owned())));
    }

    #[test]
    fn migration_sums_existing_hours_by_day() {
        let mut connection = Connection::open_in_memory().unwrap();
        Migrations::from_slice(&STEPS[..7]).to_latest(&mut connection).unwrap();
        let sums = "INSERT INTO request_sums VALUES
            (x'01', 23, 'k', 'm', 1, 1, 10, 0, 0, 0, 100),
            (x'01', 24, 'k', 'm', 1, 2, 20, 0, 0, 0, 200),
            (x'01', 47, 'k', 'm', 1, 4, 40, 0, 0, 0, 400),
            (x'01', 47, 'k', 'n', 1, 8, 80, 0, 0, 0, 800),
            (x'01', 47, 'k', 'n', 3, 16, 160, 0, 0, 0, 1600),
            (x'01', 47, 'k', 0, 6, 32, 0, 0, 0, 0, 0),
            (x'02', 46, 'l', 'm', 1, 1, 9223372036854775807, 0, 0, 0, 1),
            (x'02', 47, 'l', 'm', 1, 1, 9223372036854775807, 0, 0, 0, 1),
            (x'', 47, '', 'n', 3, 16, 160, 0, 0, 0, 1600);";
        connection.execute_batch(sums).unwrap();
        run(&mut connection).unwrap();
        let sql = "SELECT model, day, status, requests, input, cost FROM key_days";
        let mut select = connection.prepare(sql).unwrap();
        let days = select.query_map([], |row| {
            let numbers = [1, 2, 3, 4, 5].map(|column| row.get::<_, i64>(column).unwrap());
            Ok((row.get::<_, Value>(0)?, numbers))
        });
        let days: Vec<_> = days.unwrap().map(Result::unwrap).collect();
        let model = |name: &str| Value::Text(name.to_owned());
        let expected = [
            (model("m"), [0, 1, 1, 10, 100]),
            (Value::Integer(0), [1, 6, 32, 0, 0]),
            (model("m"), [1, 1, 6, 60, 600]),
            (model("n"), [1, 1, 8, 80, 800]),
            (model("n"), [1, 3, 16, 160, 1600]),
            (model("m"), [1, 1, 2, i64::MAX, 2]),
        ];
        assert_eq!(days, expected);
    }

    #[test]
    fn migration_sums_what_keys_have_used() {
        let mut connection = Connection::open_in_memory().unwrap();
        Migrations::from_slice(&STEPS[..21]).to_latest(&mut connection).unwrap();
        // 2026-10-31 is day 20757.
        let rows = "INSERT INTO accounts VALUES (x'01', 'a', 'a', '', '', '', 'free', 0);
            INSERT INTO keys (id, digest, account, label, models, created_at)
                VALUES ('k', x'01', x'01', '', '', 0), ('l', x'02', x'01', '', '', 0),
                ('unused', x'03', x'01', '', '', 0);
            INSERT INTO key_days VALUES
                (20757, x'01', 'k', 'm', 1, 1, 10, 0, 1, 0, 100),
                (20758, x'01', 'k', 'm', 1, 1, 20, 0, 2, 0, 200),
                (20787, x'01', 'k', 'm', 1, 1, 40, 0, 4, 0, 9007199254740993),
                (20787, x'01', 'k', 0, 6, 1, 0, 0, 0, 0, 0),
                (20757, x'01', 'l', 'm', 1, 1, 9223372036854775807, 0, 9223372036854775807, 0, 1),
                (20757, x'01', 'l', 'n', 1, 1, 1, 0, 1, 0, 9223372036854775807);";
        connection.execute_batch(rows).unwrap();
        run(&mut connection).unwrap();
        let sql = "SELECT id, used_month, used_tokens, spent FROM keys";
        let mut select = connection.prepare(sql).unwrap();
        let used = select.query_map([], |row| {
            Ok((row.get(0)?, [1, 2, 3].map(|column| row.get::<_, i64>(column).unwrap())))
        });
        let used: Vec<(String, [i64; 3])> = used.unwrap().map(Result::unwrap).collect();
        let expected = [
            ("k", [20758, 66, 9_007_199_254_741_293]),
            ("l", [20727, i64::MAX, i64::MAX]),
            ("unused", [0, 0, 0]),
        ];
        assert_eq!(used, expected.map(|(key, numbers)| (key.to_owned(), numbers)));
    }

    #[test]
    fn migration_records_the_runs_of_existing_rows() {
        let mut connection = Connection::open_in_memory().unwrap();
        Migrations::from_slice(&STEPS[..8]).to_latest(&mut connection).unwrap();
        // The first records were deleted, and one is missing in the middle.
        for (seq, account) in [(4, 1), (5, 1), (6, 2), (7, 1), (9, 1), (10, 2), (11, 2)] {
            let sql = "INSERT INTO requests (seq, id, account, key, started_at, duration, endpoint, \
                stream, status, basis) VALUES (?1, CAST(?1 AS BLOB), ?2, '', 0, 0, 1, 0, 1, 4)";
            connection.execute(sql, (seq, [account])).unwrap();
            let sql = "INSERT INTO ledger_entries (seq, account, amount, kind, at) VALUES (?, ?, 1, 1, 0)";
            connection.execute(sql, (seq, [account])).unwrap();
        }
        run(&mut connection).unwrap();
        for table in ["request_runs", "entry_runs"] {
            let sql = format!("SELECT owner, first, last FROM {table}");
            let mut select = connection.prepare(&sql).unwrap();
            let runs = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
            let runs: Vec<([u8; 1], i64, i64)> = runs.unwrap().map(Result::unwrap).collect();
            assert_eq!(runs, [([1], 4, 5), ([1], 7, 7), ([1], 9, 9), ([2], 6, 6), ([2], 10, 11)]);
        }
    }
}
