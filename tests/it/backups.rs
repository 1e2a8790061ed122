//! Scheduled backups of the SQLite database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gateway::backups::BackupSettings;
use proto::v1::{self, DiagnosticArea, Severity};
use rusqlite::Connection;
use tests::{Home, ManualClock, Product, with_timeout};

fn backups(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "db")).collect();
    found.sort();
    found
}

/// Returns the finding about backups.
async fn finding(product: &Product) -> (Severity, String) {
    let operator = product.operator().await;
    let request = v1::DiagnoseRequest { send_requests: false };
    let mut found = operator.diagnostics().diagnose(request).await.unwrap().into_inner();
    while let Some(finding) = found.message().await.unwrap() {
        if finding.area() == DiagnosticArea::Backups {
            return (finding.severity(), finding.finding);
        }
    }
    panic!("no finding about backups");
}

async fn finding_of(product: &Product, severity: Severity) -> String {
    let waiting = async {
        loop {
            let (found, text) = finding(product).await;
            if found == severity {
                return text;
            }
        }
    };
    with_timeout("the finding", waiting).await
}

fn home(clock: &ManualClock, dir: Option<&Path>) -> Home {
    let mut home = Home::new(|setup| setup.clock = Arc::new(clock.clone()));
    let dir = dir.map_or_else(|| home.scratch().join("copies"), Path::to_owned);
    let (every, keep) = (Duration::from_hours(6), 2.try_into().unwrap());
    home.setup.config.backups = Some(BackupSettings { every, keep, dir });
    home
}

#[tokio::test]
async fn a_backup_is_made_at_each_interval_and_the_oldest_is_deleted() {
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let mut home = home(&clock, None);
    let dir = home.scratch().join("copies");
    let names = |dir: &Path| {
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        backups(dir).into_iter().map(name).collect::<Vec<_>>()
    };
    let (first, second, third) = (
        "tollgate-20261120T103000Z.db",
        "tollgate-20261120T223000Z.db",
        "tollgate-20261121T103000Z.db",
    );
    for expected in [&[first][..], &[first, second], &[second, third]] {
        // A start looks at once whether a backup is due.
        let product = home.start().await;
        let made = async {
            while names(&dir) != expected {
                finding(&product).await;
            }
        };
        with_timeout("the backup", made).await;
        home = product.stop().await;
        clock.advance(Duration::from_hours(12));
    }
    for path in backups(&dir) {
        let copy = Connection::open(path).unwrap();
        let check: String = copy.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

#[tokio::test]
async fn a_failed_backup_is_reported_and_requests_are_served() {
    let clock = ManualClock::at("2026-11-20T10:30:00Z");
    let scratch = tempfile::tempdir().unwrap();
    let blocked = scratch.path().join("a file");
    std::fs::write(&blocked, "").unwrap();
    let product = home(&clock, Some(&blocked.join("copies"))).start().await;
    let text = finding_of(&product, Severity::Problem).await;
    assert!(
        text.contains("the last backup failed") && text.contains("there is no backup"),
        "{text}"
    );
    let key = product.member("alice").await.key().await.secret;
    let answer = product.chat(&key, &tests::question("sim-chat", "hi")).answer().await;
    assert_eq!(answer.status, 200);
}
