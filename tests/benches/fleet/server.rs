//! A server of PostgreSQL that counts its statements, and the CPU time of processes.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;
use tests::{PostgresDatabase, PostgresPrograms, PostgresServer, free_ports};

/// The statements of all gateways. Those of the benchmark name the view.
const STATEMENTS: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements \
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND query NOT LIKE '%pg_stat_statements%'";
/// The number of records: cursors have no gaps.
const RECORDS: &str = "SELECT seq AS pg_stat_statements FROM log_end";

/// The server.
pub(crate) struct MeasuredServer {
    server: PostgresServer,
    _dir: TempDir,
}

/// What the server has done so far.
pub(crate) struct Counters {
    pub(crate) statements: i64,
    pub(crate) cpu: Duration,
}

impl MeasuredServer {
    /// Starts the server, unless PostgreSQL is not installed.
    pub(crate) async fn start() -> Option<Self> {
        let programs = PostgresPrograms::find(None)?;
        let dir = tempfile::tempdir().expect("a directory can be made");
        let [port, _] = free_ports().await;
        let server = PostgresServer::create(programs, dir.path().join("server"), port).await;
        Some(Self { server, _dir: dir })
    }

    /// Creates a database, and restarts the server so that it counts statements.
    pub(crate) async fn database(&mut self, name: &str) -> PostgresDatabase {
        let mut database = PostgresDatabase::create_on(&self.server.url(), name).await;
        let load = "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'";
        database.client.batch_execute(load).await.expect("the setting is accepted");
        self.server.crash().await;
        self.server.start().await;
        database.follow_to(&self.server.url()).await;
        let create = "CREATE EXTENSION pg_stat_statements";
        database.client.batch_execute(create).await.expect("the extension is installed");
        database
    }

    /// Returns the counters, once the database has this many records, if any number is given.
    pub(crate) async fn counters(
        &self,
        database: &PostgresDatabase,
        records: Option<i64>,
    ) -> Counters {
        if let Some(records) = records {
            while database.number(RECORDS).await < records {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        let statements = database.number(STATEMENTS).await;
        Counters { statements, cpu: self.cpu_time() }
    }

    /// Returns the number of records.
    pub(crate) async fn records(&self, database: &PostgresDatabase) -> i64 {
        database.number(RECORDS).await
    }

    /// Returns the CPU time of the server and its live processes.
    fn cpu_time(&self) -> Duration {
        let server = self.server.process_id();
        let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let children = children.expect("the server runs");
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        children.chain([server]).map(cpu_time).sum()
    }
}

/// Returns the CPU time of all live threads of a process, from Linux's `schedstat`; zero if it has ended.
pub(crate) fn cpu_time(process: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return Duration::ZERO };
    let nanos = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
