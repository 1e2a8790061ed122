//! A data directory that the first released version of the gateway made, and a later one upgraded.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use tests::{Home, ManualClock, NewKey, Setup, Transport};

use crate::ledger::send_requests;
use crate::upgrade::migrations;

/// The account in it.
pub(super) const FOUNDER: &str = "founder";
/// The number of its requests.
pub(super) const REQUESTS: u64 = 3;

/// Returns a data directory with the data of the first schema, upgraded in part, with the accounts, the money and the records that a present gateway
/// has made, and a key of the founder.
pub(super) async fn home(
    clock: &ManualClock,
    configure: impl FnOnce(&mut Setup),
) -> (Home, NewKey) {
    let present = Home::new(|setup| {
        setup.clock = Arc::new(clock.clone());
        setup.transport = Transport::Http1;
    });
    let product = present.start().await;
    let founder = product.member(FOUNDER).await;
    send_requests(&product, &founder, usize::try_from(REQUESTS).unwrap()).await;
    let key = founder.key().await;
    let present = product.stop().await;

    let home = Home::new(configure);
    std::fs::create_dir(home.data_dir()).unwrap();
    for name in ["operator.token", "seal.key"] {
        std::fs::copy(present.data_dir().join(name), home.data_dir().join(name)).unwrap();
    }
    let database = home.data_dir().join("tollgate.db");
    copy_rows(&present.data_dir().join("tollgate.db"), &database);
    upgrade_in_part(&database);
    (home, key)
}

/// Upgrades the database as an earlier version would have, to a schema between the first and the present one.
fn upgrade_in_part(path: &Path) {
    let database = Connection::open(path).unwrap();
    let migrations = migrations();
    let part = migrations.len() / 2;
    for (_, sql) in &migrations[1..part] {
        database.execute_batch(&format!("BEGIN; {sql}; COMMIT;")).unwrap();
    }
    database.pragma_update(None, "user_version", i64::try_from(part).unwrap()).unwrap();
}

/// Creates a database with the first schema, and copies the columns that it has.
fn copy_rows(present: &Path, first: &Path) {
    let database = Connection::open(first).unwrap();
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch(&migrations()[0].1).unwrap();
    database.pragma_update(None, "user_version", 1).unwrap();
    database.execute("ATTACH ? AS present", [present.to_str().unwrap()]).unwrap();
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = database.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    for table in texts("SELECT name FROM main.sqlite_schema WHERE type = 'table'") {
        let columns = texts(&format!("SELECT name FROM pragma_table_info('{table}', 'main')"));
        let columns = columns.join(", ");
        let copy =
            format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM present.{table}");
        database.execute(&copy, []).unwrap();
    }
    // the greatest role of that version
    database.execute("UPDATE accounts SET role = 'operator' WHERE role = 'owner'", []).unwrap();
}
