//! The operations screen and the explanation of a route, against a real gateway.

use ctl::profile::{Environment, TokenSource};
use tempfile::TempDir;
use tests::Product;
use tokio::sync::mpsc;
use tui::connection::Address;
use tui::effect::{Effect, Runner};
use tui::message::Message;
use tui::model::operations::{
    OperationEvent, OperationKind, OperationRequest, Severity, Verification,
};

/// A runner that is signed in as the operator.
struct Dashboard {
    runner: Runner,
    messages: mpsc::Receiver<Message>,
    /// The number of runs so far.
    runs: u64,
    disk: TempDir,
}

impl Dashboard {
    fn new(product: &Product) -> Self {
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (sender, messages) = mpsc::channel(64);
        let environment = Environment::for_home(disk.path());
        let address = Address::new(product.admin.clone());
        let mut runner = Runner::new(address, TokenSource::Missing, environment, sender);
        let token = product.home.operator_token().into();
        assert!(runner.run(Effect::Connect { token, is_kept: false }).is_none());
        Self { runner, messages, runs: 0, disk }
    }

    /// Runs an operation to its end. Returns its events before that, and its result.
    async fn operate(
        &mut self,
        kind: OperationKind,
        file: Option<String>,
    ) -> (Vec<OperationEvent>, Result<(), String>) {
        self.runs += 1;
        let run = self.runs;
        assert!(self.runner.run(Effect::Operate(OperationRequest { run, kind, file })).is_none());
        let mut events = Vec::new();
        loop {
            match self.messages.recv().await.unwrap() {
                Message::Operation(number, OperationEvent::Ended(_, result)) if number == run => {
                    return (events, result);
                }
                Message::Operation(number, event) if number == run => events.push(event),
                Message::SignedOut(reason) => panic!("{reason}"),
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn the_diagnosis_streams_its_findings() {
    let product = Product::start().await;
    let mut dashboard = Dashboard::new(&product);
    for kind in [OperationKind::Diagnosis, OperationKind::TestRequests] {
        let (events, result) = dashboard.operate(kind, None).await;
        assert_eq!(result, Ok(()));
        let findings: Vec<_> = events
            .into_iter()
            .filter_map(|event| match event {
                OperationEvent::Found(finding) => Some(finding),
                _ => None,
            })
            .collect();
        for area in ["disk", "database", "ledger", "upstream"] {
            assert!(findings.iter().any(|it| it.area == area), "{area}: {findings:?}");
        }
        let broken = findings.iter().filter(|it| it.severity == Severity::Problem).count();
        assert_eq!(broken, 0, "{findings:?}");
    }
}

#[tokio::test]
async fn the_ledger_is_verified() {
    let product = Product::start().await;
    product.member("ada").await;
    let mut dashboard = Dashboard::new(&product);
    let (events, result) = dashboard.operate(OperationKind::Verification, None).await;
    assert_eq!(result, Ok(()));
    let Some(OperationEvent::Verified(found)) = events.last() else { panic!("{events:?}") };
    assert!(found.is_ok && found.balances > 0, "{found:?}");
    assert_eq!(found.differences, Verification::default().differences);
}

#[tokio::test]
async fn a_backup_is_a_database_and_replaces_no_file() {
    let product = Product::start().await;
    let mut dashboard = Dashboard::new(&product);
    let path = dashboard.disk.path().join("copy.db");
    let file = Some(dashboard.disk.path().join("./copy.db").display().to_string());
    let (events, result) = dashboard.operate(OperationKind::Backup, file.clone()).await;
    assert_eq!(result, Ok(()));
    let copy = std::fs::read(&path).unwrap();
    assert!(copy.starts_with(b"SQLite format 3"));
    let shown = path.display().to_string();
    let is_named = |it: &OperationEvent| matches!(it, OperationEvent::Writing(it) if *it == shown);
    assert!(events.iter().any(is_named), "{events:?}");
    let length = copy.len() as u64;
    let last = events.last();
    assert!(
        matches!(last, Some(OperationEvent::Copied(done, of)) if *done == length && *of == length)
    );
    let (_, again) = dashboard.operate(OperationKind::Backup, file).await;
    assert!(again.unwrap_err().contains("exists already"));
    let nowhere = dashboard.disk.path().join("no/such/copy.db").display().to_string();
    let (_, refused) = dashboard.operate(OperationKind::Backup, Some(nowhere)).await;
    assert!(refused.unwrap_err().starts_with("writing `"));
    let left: Vec<_> = std::fs::read_dir(dashboard.disk.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test]
async fn a_route_is_explained() {
    let product = Product::start().await;
    let mut dashboard = Dashboard::new(&product);
    for (model, is_known) in [("sim-chat", true), ("nosuch", false)] {
        assert!(dashboard.runner.run(Effect::Explain(model.to_owned())).is_none());
        let route = loop {
            match dashboard.messages.recv().await.unwrap() {
                Message::RouteExplained(id, route) if id == model => break route,
                _ => {}
            }
        };
        match route {
            Ok(route) => assert!(is_known && route.steps.len() == 1, "{route:?}"),
            Err(problem) => assert!(!is_known && problem.contains("`nosuch`"), "{problem}"),
        }
    }
}
