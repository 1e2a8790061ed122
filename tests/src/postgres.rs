//! Databases of tests on a PostgreSQL server.

use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

/// A new database on the server that `TOLLGATE_TEST_POSTGRES` names by the URL of one of its
/// databases.
pub struct PostgresDatabase {
    /// The URL for a gateway.
    pub url: String,
    /// A connection that bypasses the gateway.
    pub client: Client,
    name: String,
    server: Client,
    connections: JoinSet<()>,
}

impl PostgresDatabase {
    /// Creates a database, unless there is no server. Then says so, because the caller passes
    /// without a test.
    ///
    /// # Panics
    /// If the server does not create it.
    pub async fn create(test: &str) -> Option<Self> {
        let Some(server_url) = server_url() else {
            // A test runs on a thread of its name.
            let thread = std::thread::current();
            let test = thread.name().unwrap_or(test);
            eprintln!("skipped, because TOLLGATE_TEST_POSTGRES is not set: {test}");
            return None;
        };
        Some(Self::create_on(&server_url, test).await)
    }

    /// Creates a database on the server that `server_url` names by the URL of one of its databases.
    ///
    /// # Panics
    /// If the server does not create it.
    pub async fn create_on(server_url: &str, test: &str) -> Self {
        let mut connections = JoinSet::new();
        let server = connect(server_url, &mut connections).await;
        let name = format!("tollgate_{test}_{}", std::process::id());
        server.batch_execute(&format!("DROP DATABASE IF EXISTS {name}")).await.unwrap();
        server.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, _) = server_url.rsplit_once('/').unwrap();
        let url = format!("{base}/{name}");
        let client = connect(&url, &mut connections).await;
        Self { url, client, name, server, connections }
    }

    /// Returns the integer that a query returns.
    ///
    /// # Panics
    /// If the query does not return one `bigint`.
    pub async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Connects to the copy of the database on another server, after a failover to it.
    ///
    /// # Panics
    /// If the server cannot be reached.
    pub async fn follow_to(&mut self, server_url: &str) {
        let (base, _) = server_url.rsplit_once('/').unwrap();
        self.client = connect(&format!("{base}/{}", self.name), &mut self.connections).await;
        self.server = connect(server_url, &mut self.connections).await;
    }

    /// Deletes the database.
    ///
    /// # Panics
    /// If the server does not delete it.
    pub async fn remove(mut self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.server.batch_execute(&sql).await.unwrap();
        self.connections.shutdown().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "the server is a setting of the tests only")]
fn server_url() -> Option<String> {
    std::env::var("TOLLGATE_TEST_POSTGRES").ok()
}

async fn connect(url: &str, connections: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    connections.spawn(async move {
        // Fails once the database is deleted.
        _ = connection.await;
    });
    client
}
