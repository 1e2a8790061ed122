//! The connection against a gateway that comes and goes.

use proto::v1::Role;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tui::connection::{self, Address, Connection};
use tui::message::{Loaded, Message};
use tui::model::ConnectionState;
use tui::model::change::{Change, ChangeOutcome};
use tui::model::fetched::FetchState;
use tui::model::log::MAX_LOG_RECORDS;
use tui::model::plans::Limits;
use tui::model::record::LogBatch;
use tui::model::subscription::{Subscription, Topic, TrafficScope};
use tui::model::upstreams::BreakerState;

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{ContractVersion, Disk, Gateway, PASSWORD, SECRET, TOKEN};

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
        let (subscription, wanted) =
            watch::channel(Subscription { topics, ..Subscription::default() });
        let (changes, asked) = mpsc::channel(8);
        let refresh = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let again = Arc::clone(&refresh);
        let connection =
            Connection::new(Address::new(server), token.into(), sender, wanted, asked, again);
        tasks.spawn_on(connection.run(), runtime.handle());
        Self { runtime, messages, subscription, changes, refresh, _tasks: tasks }
    }

    /// Waits for the first message of which `pick` makes something.
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
            .unwrap_or_else(|_| panic!("waited in vain for {what}"))
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

    /// Waits for sums and returns how many requests they are of.
    fn requests(&mut self) -> u64 {
        self.loaded(|loaded| match loaded {
            Loaded::Usage(_, usage) => Some(usage.totals.requests),
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
            Message::ConnectionChanged(ConnectionState::Reconnecting { problem }) => Some(problem),
            _ => None,
        })
    }

    fn change(&mut self, change: Change) -> Result<ChangeOutcome, String> {
        self.changes.blocking_send(change).unwrap();
        self.wait("what came of a change", |message| match message {
            Message::Changed(outcome) => Some(outcome),
            _ => None,
        })
    }

    fn subscribe(&self, topics: &'static [Topic], traffic: Option<TrafficScope>, filter: &str) {
        let filter = filter.to_owned();
        self.subscription.send_replace(Subscription {
            topics,
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
fn sends_account_history_and_news() {
    let disk = Disk::new();
    let names: Vec<_> = (0..MAX_LOG_RECORDS + 10).map(|number| format!("old-{number}")).collect();
    disk.record_all(names.clone());
    let gateway = Gateway::start(&disk);
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

    disk.record("new");
    let news = client.next_log_batch();
    assert!(!news.restarted);
    assert_eq!(models(&news), ["new"]);
}

#[test]
fn goes_on_after_a_restart_without_losing_or_repeating() {
    let disk = Disk::new();
    disk.record("a");
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    assert_eq!(models(&client.next_log_batch()), ["a"]);
    disk.record("b");
    assert_eq!(models(&client.next_log_batch()), ["b"]);

    let address = gateway.stop();
    client.lost();
    disk.record("c");
    disk.record("d");
    let problem = client.lost();
    assert!(problem.contains("start it"), "{problem}");
    let _gateway = Gateway::start_at(&disk, address, ContractVersion::Current);
    let resumed = client.next_log_batch();
    assert!(!resumed.restarted);
    assert_eq!(models(&resumed), ["c", "d"]);
    disk.record("e");
    assert_eq!(models(&client.next_log_batch()), ["e"]);
}

#[test]
fn starts_the_log_anew_when_the_gateway_does_not_know_the_cursor() {
    let disk = Disk::new();
    disk.record("a");
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    client.next_log_batch();
    let address = gateway.stop();
    client.lost();
    disk.wipe();
    let _gateway = Gateway::start_at(&disk, address, ContractVersion::Current);
    let anew = client.next_log_batch();
    assert!(anew.restarted);
    assert!(anew.records.is_empty());
}

#[test]
fn sums_follow_the_log_and_are_fetched_when_asked() {
    let disk = Disk::new();
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Usage]);
    assert_eq!(client.requests(), 0);
    disk.record("new");
    assert_eq!(client.requests(), 1);
    client.refresh.notify_one();
    client.requests();
}

#[test]
fn what_is_of_interest_is_fetched_and_nothing_else() {
    let gateway = Gateway::start(&Disk::of(Role::Operator));
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Limits]);
    let limits = client.loaded(|loaded| match loaded {
        Loaded::Limits(limits) => Some(limits),
        Loaded::Account(_) => None,
        other => panic!("nobody asked for {other:?}"),
    });
    assert_eq!((limits[0].used, limits[0].limit), (12, 60));
    client.subscribe(&[Topic::Upstreams, Topic::Health], Some(TrafficScope::Gateway), "");
    let mut known = (None, None, None);
    while known.0.is_none() || known.1.is_none() || known.2.is_none() {
        client.loaded(|loaded| {
            match loaded {
                Loaded::Upstreams(upstreams) => known.0 = Some(upstreams),
                Loaded::Health(health) => known.1 = Some(health),
                Loaded::Traffic(traffic) => known.2 = Some(traffic),
                Loaded::Limits(_) | Loaded::Account(_) => {}
                other => panic!("nobody asked for {other:?}"),
            }
            Some(())
        });
    }
    assert_eq!(known.0.unwrap()[0].name, "local");
    assert_eq!(known.1.unwrap()[0].breaker, Some(BreakerState::Open));
    let traffic = known.2.unwrap();
    assert_eq!((traffic.in_flight, traffic.minutes.len()), (7, 60));
}

#[test]
fn an_older_gateway_says_what_it_does_not_have_and_the_rest_works() {
    let disk = Disk::new();
    let gateway =
        Gateway::start_at(&disk, ([127, 0, 0, 1], 0).into(), ContractVersion::WithoutTraffic);
    let mut client = Client::connect(gateway.url(), TOKEN, &[Topic::Limits]);
    assert_eq!(client.not_loaded(), (Topic::Limits, FetchState::Unsupported));
    client.subscribe(&[Topic::Usage], Some(TrafficScope::Account), "");
    assert_eq!(client.not_loaded(), (Topic::Traffic, FetchState::Unsupported));
    disk.record("new");
    let news = client.wait("a record", |message| match message {
        Message::LogReceived(batch) if !batch.records.is_empty() => Some(batch),
        _ => None,
    });
    assert_eq!(models(&news), ["new"]);
    assert_eq!(client.requests(), 1);
}

#[test]
fn a_filter_starts_the_log_anew_and_one_that_is_none_is_named() {
    let disk = Disk::new();
    disk.record_all(["a", "b", "a"].map(str::to_owned));
    let gateway = Gateway::start(&disk);
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
fn changes_are_made_and_what_they_change_is_fetched() {
    let disk = Disk::new();
    let gateway = Gateway::start(&disk);
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
        days: Some(7),
    };
    let done = client.change(create("laptop", &[])).unwrap();
    let made = done.key.unwrap();
    assert!(secrecy::ExposeSecret::expose_secret(&made.secret).starts_with(SECRET));
    assert_eq!(labels(&mut client), ["laptop"]);
    let problem = client.change(create("other", &["nope"])).unwrap_err();
    assert_eq!(problem, "there is no model `nope`");
    let revoke = Change::RevokeKey { id: "id0".to_owned(), label: "laptop".to_owned() };
    assert_eq!(client.change(revoke).unwrap().notice, "key `laptop` is revoked");
    assert!(disk.read(|state| state.keys[0].revoked_at.is_some()));
}

#[test]
fn while_nobody_answers_changes_are_refused() {
    let gateway = Gateway::start(&Disk::new());
    let mut client = Client::connect(gateway.url(), TOKEN, &[]);
    client.next_log_batch();
    gateway.stop();
    client.lost();
    let problem = client.change(Change::Resume { account: "bob".to_owned() }).unwrap_err();
    assert!(problem.starts_with("not connected"), "{problem}");
}

#[test]
fn a_refused_token_ends_it() {
    let gateway = Gateway::start(&Disk::new());
    let mut client = Client::connect(gateway.url(), "wrong", &[]);
    let reason = client.wait("the refusal", |message| match message {
        Message::SignedOut(reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("sign in"), "{reason}");
    assert!(client.runtime.block_on(client.messages.recv()).is_none(), "it went on");
}

#[test]
fn an_address_that_is_none_is_named() {
    let mut client = Client::connect("gopher:70".to_owned(), TOKEN, &[]);
    assert!(client.lost().starts_with("`gopher:70` is not http://HOST:PORT"));
}

#[test]
fn a_password_gives_a_token_or_a_line_that_says_what_to_do() {
    let gateway = Gateway::start(&Disk::new());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let sign_in = |password: &str| {
        let password = password.into();
        let url = Address::new(gateway.url());
        runtime.block_on(async { connection::sign_in(&url, "ada".to_owned(), &password).await })
    };
    assert!(sign_in(PASSWORD).is_ok());
    let problem = sign_in("wrong").unwrap_err();
    assert_eq!(problem, "wrong name or password: type the password again");
}

#[test]
fn who_registers_is_signed_in_and_whose_name_is_taken_is_told() {
    let disk = Disk::new();
    let gateway = Gateway::start(&disk);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let register = |name: &str| {
        let (url, name) = (Address::new(gateway.url()), name.to_owned());
        let password = PASSWORD.into();
        runtime.block_on(async { connection::register(&url, name, &password, String::new()).await })
    };
    let token = register("eve").unwrap();
    let problem = register("ada").unwrap_err();
    assert_eq!(problem, "that name is taken: choose another, or sign in");
    runtime.block_on(connection::sign_out(&Address::new(gateway.url()), &token));
    assert_eq!(disk.read(|state| state.signed_out), 1);
}
