//! Migrations that wait for locks of other transactions.

use std::time::Duration;

use super::Database;
use crate::postgres::migrations::{self, LockPatience};
use crate::postgres::transaction::Connection;
use crate::postgres::{PostgresAddress, create_pool};

/// Regression test: a migration waited without a bound, and all statements of other gateways behind it.
#[tokio::test]
async fn a_migration_does_not_wait_for_a_lock_without_a_bound() {
    let Some(database) = Database::create("schema_locks").await else { return };
    let client = database.connect().await;
    let lock = "CREATE TABLE schema_version (version bigint NOT NULL); \
        BEGIN; LOCK TABLE schema_version";
    client.batch_execute(lock).await.unwrap();
    let pool = create_pool(&PostgresAddress::parse(&database.url).unwrap(), 1).unwrap();
    let mut connection = Connection::of(&pool).await.unwrap();
    let short = Duration::from_millis(10);
    let patience = LockPatience { timeout: short, pause: short, attempts: 3 };
    let refused = migrations::run(&mut connection, patience).await.unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("(3 attempts were made); end them"), "{source}");
    client.batch_execute("ROLLBACK").await.unwrap();
    migrations::run(&mut connection, LockPatience::DEFAULT).await.unwrap();
    drop(connection);
    database.remove(database.open(1).await.unwrap()).await;
}
