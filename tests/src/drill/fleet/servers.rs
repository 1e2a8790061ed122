//! The PostgreSQL servers of the drill: the primary, which crashes, and the standby that takes its
//! place.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::{PostgresPrograms, PostgresServer, free_ports};

/// A primary on one of two ports. The other one is free, or that of a standby.
pub(super) struct DatabaseServers {
    primary: PostgresServer,
    standby: Option<PostgresServer>,
    ports: [u16; 2],
    /// The index of the primary's port.
    current: usize,
    /// The number of data directories so far.
    created: usize,
    // After the servers, which are stopped before their data is deleted.
    dir: TempDir,
}

impl DatabaseServers {
    /// Starts the primary.
    pub(super) async fn start(programs: PostgresPrograms) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = free_ports().await;
        let data = dir.path().join("server-0");
        let primary = PostgresServer::create(programs, data, ports[0]).await;
        Self { primary, standby: None, ports, current: 0, created: 1, dir }
    }

    /// Returns the primary.
    pub(super) fn primary(&self) -> &PostgresServer {
        &self.primary
    }

    /// Returns a URL of the database `name` that names both ports.
    pub(super) fn url(&self, name: &str) -> String {
        let [one, two] = self.ports;
        format!("postgres://tollgate@127.0.0.1:{one},127.0.0.1:{two}/{name}")
    }

    /// Crashes the primary, and starts it again.
    pub(super) async fn crash_primary(&self) {
        self.primary.crash().await;
        self.primary.start().await;
    }

    /// Starts a standby that has all that the primary has committed.
    pub(super) async fn add_standby(&mut self) {
        let data = self.next_data();
        let port = self.ports[1 - self.current];
        self.standby = Some(self.primary.create_synchronous_standby(data, port).await);
    }

    /// Crashes the primary for good, and promotes the standby.
    ///
    /// # Panics
    /// If there is no standby.
    pub(super) async fn fail_over(&mut self) {
        let standby = self.standby.take().expect("a standby was added");
        self.primary.crash().await;
        standby.promote().await;
        self.primary = standby;
        self.current = 1 - self.current;
    }

    fn next_data(&mut self) -> PathBuf {
        self.created += 1;
        self.dir.path().join(format!("server-{}", self.created))
    }
}
