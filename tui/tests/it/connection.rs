//! Tests of the connection against a gateway that stops and restarts.

use ctl::profile::{Environment, TokenSource};
use proto::v1::Role;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tui::connection::{self, Address, Connection};
use tui::effect::{Effect, Runner};
use tui::message::{Loaded, Message};
use tui::model::ConnectionState;
use tui::model::change::{Change, ChangeOutcome};
use tui::model::fetched::FetchState;
use tui::model::log::HISTORY_RECORDS;
use tui::model::plans::Limits;
use tui::model::record::LogBatch;
use tui::model::subscription::{Scope, Subscription, Topic};
use tui::model::upstreams::BreakerState;

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{Backend, ContractVersion, Gateway, PASSWORD, SECRET, TOKEN};

/// A dashboard without a screen.
struct Client {
    runtime: Runtime,
    messages: mpsc::Receiver<Message>,
    subscription: watch::Sender<Subscription>,
    changes: mpsc::Sender<Change>,
    refresh: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Client {
    fn connect(server: String, token: &str, topics: &'static [Topic]) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, messages) = mpsc::channel(64);
        let (subscription, subscriptions) =
            watch::channel(Subscription { topics: topics.to_vec(), ..Subscription::default() });
        let (changes, requested) = mpsc::channel(8);
        let refresh = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let again = Arc::clone(&refresh);
        let connection = Connection::new(
            Address::new(server),
            token.into(),
            sender,
            subscriptions,
            requested,
            again,
        );
        tasks.spawn_on(connection.run(), runtime.handle());
        Self { runtime, messages, subscription, changes, refresh, _tasks: tasks }
    }

    /// Waits for the first message for which `pick` returns a value.
    fn wait<T>(&mut self, what: &str, mut pick: impl FnMut(Message) -> Option<T>) -> T {
        self.runtime.block_on(async {
            timeout(Duration::from_secs(20), async {
                loop {
                    let message = self.messages.recv().await.expect("the connection ended");
                    if let Some(picked) = pick(message) {
                        return picked;
                    }
                }
            })
            .await
            .unwrap_or_else(|_| panic!("timed out waiting for {what}"))
        })
    }

    fn next_log_batch(&mut self) -> LogBatch {
        self.wait("a piece of the log", |message| match message {
            Message::LogReceived(batch) => Some(batch),
            _ => None,
        })
    }

    fn loaded<T>(&mut self, mut pick: impl FnMut(Loaded) -> Option<T>) -> T {
        self.wait("something fetched", |message| match message {
            Message::Loaded(loaded) => pick(*loaded),
            _ => None,
        })
    }

    /// Waits for usage totals and returns their number of requests.
    fn requests(&mut self) -> u64 {
        self.loaded(|loaded| match loaded {
            Loaded::Usage { usage, .. } => Some(usage.totals.requests),
            _ => None,
        })
    }

    fn not_loaded(&mut self) -> (Topic, FetchState) {
        self.wait("something that was not fetched", |message| match message {
            Message::NotLoaded(topic, fetch) => Some((topic, fetch)),
            _ => None,
        })
    }

    fn lost(&mut self) -> String {
        self.wait("a lost connection", |message| match message {
            Message::ConnectionChanged(ConnectionState::Reconnecting { problem, .. }) => {
                Some(problem)
            }
            _ => None,
        })
    }

    fn change(&mut self, change: Change) -> Result<ChangeOutcome, String> {
        self.changes.blocking_send(change).unwrap();
        self.wait("the result of a change", |message| match message {
            Message::Changed(outcome) => Some(outcome),
            _ => None,
        })
    }

    fn subscribe(&self, topics: &'static [Topic], traffic: Option<Scope>, filter: &str) {
        let filter = filter.to_owned();
        self.subscription.send_replace(Subscription {
            topics: topics.to_vec(),
            traffic,
            filter,
            ..Subscription::default()
        });
    }
}

fn models(batch: &LogBatch) -> Vec<&str> {
    batch.records.iter().map(|record| record.model.as_deref().unwrap()).collect()
}

#[test]
fn sends_the_account_the_history_and_new_records() {
    let backend = Backend::new();
    let names: Vec<_> = (0..HISTORY_RECORDS + 10).map(|number| format!("old-{number}")).collect();
    backend.record_all(names.clone());
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);

    let balance = client.loaded(|loaded| match loaded {
        Loaded::Account(account) => account.balance_usd,
        _ => None,
    });
    assert_eq!(balance, "4.999900");
    let mut history = client.next_log_batch();
    assert!(history.restarted);
    while !history.live {
        let more = client.next_log_batch();
        assert!(!more.restarted);
        history.records.extend(more.records);
        history.live = more.live;
    }
    assert_eq!(models(&history), names[10..].iter().map(String::as_str).collect::<Vec<_>>());

    backend.record("new");
    let batch = client.next_log_batch();
    assert!(!batch.restarted);
    assert_eq!(models(&batch), ["new"]);
}

#[test]
fn resumes_the_log_after_a_restart_without_loss_or_duplicates() {
    let backend = Backend::new();
    backend.record("a");
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    assert_eq!(models(&client.next_log_batch()), ["a"]);
    backend.record("b");
    assert_eq!(models(&client.next_log_batch()), ["b"]);

    let address = gateway.stop();
    client.lost();
    backend.record("c");
    backend.record("d");
    let problem = client.lost();
    assert!(problem.contains("start it"), "{problem}");
    let _gateway = Gateway::start_at(&backend, address, ContractVersion::Current);
    let resumed = client.next_log_batch();
    assert!(!resumed.restarted);
    assert_eq!(models(&resumed), ["c", "d"]);
    backend.record("e");
    assert_eq!(models(&client.next_log_batch()), ["e"]);
}

#[test]
fn restarts_the_log_when_the_gateway_rejects_the_cursor() {
    let backend = Backend::new();
    backend.record("a");
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    client.next_log_batch();
    let address = gateway.stop();
    client.lost();
    backend.wipe();
    let _gateway = Gateway::start_at(&backend, address, ContractVersion::Current);
    let batch = client.next_log_batch();
    assert!(batch.restarted);
    assert!(batch.records.is_empty());
}

#[test]
fn fetches_totals_after_new_records_and_on_refresh() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Usage]);
    assert_eq!(client.requests(), 0);
    backend.record("new");
    assert_eq!(client.requests(), 1);
    client.refresh.notify_one();
    client.requests();
}

#[test]
fn fetches_only_subscribed_topics() {
    let gateway = Gateway::start(&Backend::of(Role::Operator));
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Limits]);
    let limits = client.loaded(|loaded| match loaded {
        Loaded::Limits { limits, .. } => Some(limits),
        Loaded::Account(_) => None,
        other => panic!("unexpected {other:?}"),
    });
    assert_eq!((limits[0].used, limits[0].limit), (12, 60));
    client.subscribe(&[Topic::Upstreams, Topic::Health], Some(Scope::Gateway), "");
    let mut received = (None, None, None);
    while received.0.is_none() || received.1.is_none() || received.2.is_none() {
        client.loaded(|loaded| {
            match loaded {
                Loaded::Upstreams(upstreams) => received.0 = Some(upstreams),
                Loaded::Health(health) => received.1 = Some(health),
                Loaded::Traffic(traffic) => received.2 = Some(traffic),
                Loaded::Limits { .. } | Loaded::Account(_) => {}
                other => panic!("unexpected {other:?}"),
            }
            Some(())
        });
    }
    assert_eq!(received.0.unwrap()[0].name, "local");
    assert_eq!(received.1.unwrap()[0].breaker, Some(BreakerState::Open));
    let traffic = received.2.unwrap();
    assert_eq!((traffic.in_flight, traffic.minutes.len()), (7, 60));
}

#[test]
fn an_older_gateway_reports_unsupported_topics_and_serves_the_rest() {
    let backend = Backend::new();
    let gateway =
        Gateway::start_at(&backend, ([127, 0, 0, 1], 0).into(), ContractVersion::WithoutTraffic);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Limits]);
    assert_eq!(client.not_loaded(), (Topic::Limits, FetchState::Unsupported));
    client.subscribe(&[Topic::Usage], Some(Scope::Account), "");
    assert_eq!(client.not_loaded(), (Topic::Traffic, FetchState::Unsupported));
    backend.record("new");
    let batch = client.wait("a record", |message| match message {
        Message::LogReceived(batch) if !batch.records.is_empty() => Some(batch),
        _ => None,
    });
    assert_eq!(models(&batch), ["new"]);
    // The first totals may have been read before the record.
    while client.requests() != 1 {}
}

#[test]
fn a_new_filter_restarts_the_log_and_an_invalid_one_is_reported() {
    let backend = Backend::new();
    backend.record_all(["a", "b", "a"].map(str::to_owned));
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    assert_eq!(models(&client.next_log_batch()), ["a", "b", "a"]);
    client.subscribe(&[], None, "model:b");
    let filtered = client.next_log_batch();
    assert!(filtered.restarted);
    assert_eq!(models(&filtered), ["b"]);
    client.subscribe(&[], None, "nonsense");
    let problem = "`nonsense` is no condition".to_owned();
    assert_eq!(client.not_loaded(), (Topic::Log, FetchState::Failed(problem)));
    client.subscribe(&[], None, "");
    assert_eq!(models(&client.next_log_batch()), ["a", "b", "a"]);
}

#[test]
fn refetches_after_a_change() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Keys]);
    let labels = |client: &mut Client| {
        client.loaded(|loaded| match loaded {
            Loaded::Keys(keys) => Some(keys.into_iter().map(|key| key.label).collect::<Vec<_>>()),
            _ => None,
        })
    };
    assert!(labels(&mut client).is_empty());
    let create = |label: &str, models: &[&str]| Change::CreateKey {
        label: label.to_owned(),
        limits: Limits::default(),
        spend_cap_usd: None,
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        expires_in_seconds: Some(7 * 86_400),
    };
    let done = client.change(create("laptop", &[])).unwrap();
    let created = done.secret.unwrap();
    assert!(secrecy::ExposeSecret::expose_secret(&created.secret).starts_with(SECRET));
    assert_eq!(labels(&mut client), ["laptop"]);
    let problem = client.change(create("other", &["nope"])).unwrap_err();
    assert_eq!(problem, "there is no model `nope`");
    let revoke = Change::RevokeKey { id: "id0".to_owned(), label: "laptop".to_owned() };
    assert_eq!(client.change(revoke).unwrap().notice, "key `laptop` is revoked");
    assert!(backend.read(|state| state.keys[0].revoked_at.is_some()));
}

#[test]
fn refuses_changes_while_disconnected() {
    let gateway = Gateway::start(&Backend::new());
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    client.next_log_batch();
    gateway.stop();
    client.lost();
    let problem = client.change(Change::Resume { account: "bob".to_owned() }).unwrap_err();
    assert!(problem.starts_with("not connected"), "{problem}");
}

#[test]
fn ends_when_the_token_is_rejected() {
    let gateway = Gateway::start(&Backend::new());
    let mut client = Client::connect(gateway.url(), "wrong", &[]);
    let reason = client.wait("the refusal", |message| match message {
        Message::SignedOut(reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("sign in"), "{reason}");
    assert!(client.runtime.block_on(client.messages.recv()).is_none(), "the connection continued");
}

#[test]
fn the_reason_of_a_suspension_comes_from_the_audit_log() {
    let gateway = Gateway::start(&Backend::new());
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Suspension]);
    client.subscription.send_modify(|it| it.limits_of = Some("bob".to_owned()));
    let reason = client.wait("the reason", |message| match message {
        Message::Loaded(loaded) => match *loaded {
            Loaded::Suspension { account, reason } if account == "bob" => reason,
            _ => None,
        },
        _ => None,
    });
    assert_eq!(reason, "unpaid");
}

/// Regression test: the text was that of a token that was never valid.
#[test]
fn says_that_the_session_was_ended_elsewhere() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Account]);
    client.next_log_batch();
    backend.change(|state| state.signed_out += 1);
    client.refresh.notify_one();
    let reason = client.wait("the end of the session", |message| match message {
        Message::SignedOut(reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("was ended elsewhere: sign in again"), "{reason}");
}

#[test]
fn older_pages_follow_each_other_until_the_last_one() {
    let backend = Backend::new();
    backend.record_all((0..600).map(|row| format!("row-{row}")));
    let gateway = Gateway::start(&backend);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    let mut pages = Vec::new();
    for older_pages in 1..=3 {
        client.subscription.send_modify(|subscription| subscription.older_pages = older_pages);
        pages.push(client.wait("older requests", |message| match message {
            Message::OlderReceived(page) => Some((page.records.len(), page.is_last)),
            _ => None,
        }));
    }
    assert_eq!(pages, [(250, false), (250, false), (100, true)]);
}

#[test]
fn reports_an_invalid_address() {
    let mut client = Client::connect("gopher:70".to_owned(), TOKEN, &[]);
    assert!(client.lost().starts_with("`gopher:70` is not http://HOST:PORT"));
}

#[test]
fn signs_in_or_reports_a_wrong_password() {
    let gateway = Gateway::start(&Backend::new());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let sign_in = |password: &str| {
        let password = password.into();
        let url = Address::new(gateway.url());
        runtime.block_on(async { connection::sign_in(&url, "ada".to_owned(), &password).await })
    };
    assert!(sign_in(PASSWORD).is_ok());
    let problem = sign_in("wrong").unwrap_err();
    assert_eq!(problem.text, "wrong name or password: type the password again");
    assert_eq!(problem.field, Some("password"));
}

#[test]
fn registers_and_signs_in_or_reports_a_taken_name() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let register = |name: &str| {
        let (url, name) = (Address::new(gateway.url()), name.to_owned());
        let password = PASSWORD.into();
        runtime.block_on(async { connection::register(&url, name, &password, String::new()).await })
    };
    let token = register("eve").unwrap().token;
    let problem = register("ada").unwrap_err();
    assert_eq!(problem.text, "that name is taken: choose another, or sign in");
    assert_eq!(problem.field, Some("name"));
    runtime.block_on(connection::sign_out(&Address::new(gateway.url()), &token));
    assert_eq!(backend.read(|state| state.signed_out), 1);
}

#[test]
fn leaving_waits_for_the_end_of_a_session_that_was_signed_out_of() {
    let backend = Backend::new();
    let gateway = Gateway::start(&backend);
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, _messages) = mpsc::channel(64);
        let environment = Environment::for_home(home.path());
        let address = Address::new(gateway.url());
        let mut runner = Runner::new(address, TokenSource::Missing, environment, sender);
        runner.run(Effect::Connect { token: TOKEN.into(), is_kept: false });
        runner.run(Effect::SignOut);
        runner.end().await;
    });
    assert_eq!(backend.read(|state| state.signed_out), 1);
}
