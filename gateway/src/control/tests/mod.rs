//! The test bench: a [`Control`] over a store in a temporary directory, with a manual clock and
//! deterministic entropy.

mod access;
mod account_lifecycle;
mod account_status;
mod accounts;
mod audit;
mod catalogue;
mod follow;
mod key_update;
mod keys;
mod ledger;
mod operator_token;
mod password_reset;
mod rotation;
mod sessions;
mod tail;
mod upstreams;
mod usage;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use tempfile::TempDir;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::models::{ModelChange, NewDeployment};
use super::upstreams::UpstreamChange;
use super::*;
use crate::cancellation::Cancellations;
use crate::clock::testing::CountingEntropy;
use crate::journal_barrier::JournalBarrier;
use crate::ledger::journal::Journal;
use crate::upstream::{SimulatorDialer, StatsTable, UpstreamClients};
use domain::endpoint::Endpoint;
use domain::id::{AccountId, KeyId, ModelId, RequestId, UpstreamName};
use domain::record::{RequestRecord, RequestStatus};
use domain::usage::{Tokens, Usage, UsageBasis};
use store::sqlite::SqliteStore;

/// The initial time of the clock, in seconds since 1970.
const START_SECONDS: i64 = 1_800_000_000;

/// A clock that changes only by [`ManualClock::advance`].
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs().cast_signed(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        let elapsed = self.0.load(Ordering::Relaxed) - START_SECONDS;
        Duration::from_secs(elapsed.cast_unsigned())
    }
}

/// A control with its dependencies.
pub(crate) struct Bench {
    pub(crate) control: Arc<Control>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) operator: Caller,
    pub(crate) operator_token: SecretString,
    pub(crate) dir: Arc<TempDir>,
    _recorder: DropGuard,
    _journal_dir: TempDir,
}

pub(crate) const PASSWORD: &str = "correct horse";

impl Bench {
    pub(crate) async fn new(registration: Registration) -> Self {
        Self::over(Arc::new(tempfile::tempdir().unwrap()), registration).await
    }

    /// Starts with the data of an earlier bench in `dir`.
    pub(crate) async fn over(dir: Arc<TempDir>, registration: Registration) -> Self {
        let store: Arc<dyn Store> =
            Arc::new(SqliteStore::open(&dir.path().join("gateway.db")).unwrap());
        let clock = Arc::new(ManualClock(AtomicI64::new(START_SECONDS)));
        let entropy: Arc<dyn Entropy> = Arc::new(CountingEntropy::default());
        let seed = bootstrap::Seed::default();
        let prepared = bootstrap::prepare(
            dir.path(),
            &SealKeySource::DataDir,
            &*store,
            &*clock,
            &entropy,
            &seed,
        )
        .await
        .unwrap();
        let journal_dir = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(journal_dir.path()).unwrap();
        let (ledger, recorder) =
            Ledger::new(store.clone(), journal, &prepared.snapshot.balances, prepared.newest);
        let stop = CancellationToken::new();
        TaskTracker::new().spawn(recorder.run(stop.clone()));
        let credentials = Arc::new(Credentials::new(Arc::new(prepared.sealer)));
        let directory = Arc::new(Directory::new(prepared.snapshot));
        credentials.refresh(directory.catalogue().upstreams.values().cloned()).await;
        let control = Arc::new(Control::new(Parts {
            schema: store::sqlite::SCHEMA,
            backups: None,
            scrapes: None,
            telemetry: None,
            webhooks: None,
            captures: Arc::default(),
            allocations: None,
            store,
            directory,
            ledger: Arc::new(ledger),
            cancellations: Arc::new(Cancellations::new(Arc::default())),
            credentials,
            clock: clock.clone(),
            entropy,
            registration,
            registrations_per_hour: 10,
            trial_daily: Nanos(12_000_000_000),
            operator_token: prepared.operator_token,
            tasks: TaskTracker::new(),
            data_dir: dir.path().to_path_buf(),
            seal_key: SealKeySource::DataDir,
            tls: None,
            read_settings: None,
            api: ApiAddress { public_url: None, listen: ([127, 0, 0, 1], 8080).into() },
            upstream_clients: Arc::new(UpstreamClients::new(
                SimulatorDialer::new(|| Err(std::io::ErrorKind::NotConnected.into())),
                None,
                JournalBarrier::new(Arc::new(|| Ok(())), TaskTracker::new()),
                Arc::new(StatsTable::new().0),
                Arc::default(),
            )),
            limiter: Arc::default(),
            traffic: Arc::default(),
            traffic_reports: None,
        }));
        let text = std::fs::read_to_string(dir.path().join(bootstrap::TOKEN_FILE)).unwrap();
        let operator_token = SecretString::from(text.trim());
        let operator = control.authenticate(&operator_token, None).await.unwrap();
        Self {
            control,
            clock,
            operator,
            operator_token,
            dir,
            _recorder: stop.drop_guard(),
            _journal_dir: journal_dir,
        }
    }

    /// Registers a member as the operator, independent of the registration mode, and signs it in.
    pub(crate) async fn member(&self, name: &str) -> Caller {
        let (operator, password) = (Some(&self.operator), PASSWORD.into());
        self.control.register(operator, None, name, password, &"".into()).await.unwrap();
        let signed_in = self.control.sign_in(None, name, PASSWORD.into()).await.unwrap();
        self.control.authenticate(&signed_in.token, None).await.unwrap()
    }

    /// Adds an upstream `sim` and a model `id` on it.
    pub(crate) async fn model(&self, id: &str) {
        let sim = UpstreamName::new("sim");
        if !self.control.directory.catalogue().upstreams.contains_key(&sim) {
            let change = UpstreamChange { url: Some("sim:".into()), ..UpstreamChange::default() };
            self.control.add_upstream(&self.operator, sim, change).await.unwrap();
        }
        let change = ModelChange { deployments: Some(on_sim()), ..ModelChange::default() };
        self.control.add_model(&self.operator, ModelId::new(id), change).await.unwrap();
    }

    /// Settles `count` completed requests and waits until they are committed.
    pub(crate) async fn record(&self, account: AccountId, count: usize) {
        let mut committed = self.control.ledger.committed();
        let target = committed.borrow().0 + i64::try_from(count).unwrap();
        for _ in 0..count {
            self.control.ledger.settle(self.request(account).into(), None);
        }
        committed.wait_for(|cursor| cursor.0 >= target).await.unwrap();
    }

    fn request(&self, account: AccountId) -> RequestRecord {
        let now = self.control.clock.now();
        RequestRecord {
            id: RequestId(self.control.entropy.uuid(now)),
            account,
            key: KeyId::new("k"),
            endpoint: Endpoint::ChatCompletions,
            model: Some(ModelId::new("m")),
            deployment: None,
            stream: false,
            status: RequestStatus::Completed,
            http_status: Some(200),
            error_code: None,
            usage: Some(Usage { input: Tokens(3), output: Tokens(4), ..Usage::default() }),
            basis: UsageBasis::Upstream,
            cost: Some(Nanos(7)),
            overrun: Nanos::ZERO,
            price_version: Some(1),
            started_at: now,
            duration: Duration::from_millis(5),
            ttft: None,
            notes: Vec::new(),
            idempotency: None,
            count: NonZeroU32::MIN,
            trace: None,
        }
    }
}

/// Returns one deployment on `sim`.
fn on_sim() -> Vec<NewDeployment> {
    vec![NewDeployment {
        upstream: UpstreamName::new("sim"),
        upstream_model: String::new(),
        weight: 0,
        priority: 0,
    }]
}

/// Returns the field of a [`ControlError::Invalid`].
fn field<T: std::fmt::Debug>(result: Result<T, ControlError>) -> &'static str {
    match result {
        Err(ControlError::Invalid(invalid)) => invalid.field,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn state_survives_a_restart() {
    let bench = Bench::new(Registration::Open).await;
    let ann = bench.member("ann").await;
    bench.model("m").await;
    bench.record(ann.account.id, 1).await;
    let (token, operator) = (bench.operator_token.clone(), bench.operator.account.id);
    let dir = bench.dir.clone();
    let weak: Weak<Control> = Arc::downgrade(&bench.control);
    drop(bench);
    assert!(weak.upgrade().is_none());

    let bench = Bench::over(dir, Registration::Open).await;
    assert_eq!(bench.control.authenticate(&token, None).await.unwrap().account.id, operator);
    let account = bench.control.get_account(&bench.operator, "ann").await.unwrap();
    assert_eq!(account.balance, Nanos(5_000_000_000 - 7));
    assert_eq!(bench.control.list_models(&bench.operator).unwrap().len(), 1);
    assert_eq!(bench.control.list_accounts(&bench.operator, 10, "").await.unwrap().items.len(), 2);
}
