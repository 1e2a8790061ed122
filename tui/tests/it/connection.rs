//! The connection against a gateway that comes and goes.

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tui::connection::{self, Connection};
use tui::message::Message;
use tui::model::Link;
use tui::model::record::{Limits, Snapshot, Tailed};

use std::sync::Arc;
use std::time::Duration;

use crate::fake::{Disk, Gateway, PASSWORD, TOKEN};

/// A dashboard without a screen.
struct Client {
    runtime: Runtime,
    messages: mpsc::Receiver<Message>,
    refresh: Arc<Notify>,
    _tasks: JoinSet<()>,
}

impl Client {
    fn connect(server: String, token: &str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (sender, messages) = mpsc::channel(64);
        let refresh = Arc::new(Notify::new());
        let mut tasks = JoinSet::new();
        let connection = Connection::new(server, token.into(), sender, Arc::clone(&refresh));
        tasks.spawn_on(connection.run(), runtime.handle());
        Self { runtime, messages, refresh, _tasks: tasks }
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

    fn tailed(&mut self) -> Tailed {
        self.wait("a piece of the log", |message| match message {
            Message::Tailed(tailed) => Some(tailed),
            _ => None,
        })
    }

    fn loaded(&mut self) -> Snapshot {
        self.wait("account and sums", |message| match message {
            Message::Loaded(snapshot) => Some(*snapshot),
            _ => None,
        })
    }

    fn lost(&mut self) -> String {
        self.wait("a lost link", |message| match message {
            Message::LinkChanged(Link::Reconnecting { problem }) => Some(problem),
            _ => None,
        })
    }
}

fn models(tailed: &Tailed) -> Vec<&str> {
    tailed.records.iter().map(|record| record.model.as_deref().unwrap()).collect()
}

#[test]
fn sends_account_history_and_news() {
    let disk = Disk::new();
    let names: Vec<_> = (0..60).map(|number| format!("old-{number}")).collect();
    for name in &names {
        disk.record(name);
    }
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN);

    let snapshot = client.loaded();
    assert_eq!(snapshot.account.balance_usd.as_deref(), Some("4.999900"));
    let limits = Limits { rpm: Some(60), tpm: None, concurrency: Some(4) };
    assert_eq!(snapshot.limits, Some(limits));
    assert_eq!(snapshot.usage.totals.requests, 60);
    assert_eq!(snapshot.usage.totals.tokens.reasoning, None);

    let history = client.tailed();
    assert!(history.restarted && history.live);
    assert_eq!(models(&history), names[10..].iter().map(String::as_str).collect::<Vec<_>>());

    disk.record("new");
    let news = client.tailed();
    assert!(!news.restarted);
    assert_eq!(models(&news), ["new"]);
    assert_eq!(client.loaded().usage.totals.requests, 61, "the sums follow the log");
}

#[test]
fn goes_on_after_a_restart_without_losing_or_repeating() {
    let disk = Disk::new();
    disk.record("a");
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN);
    assert_eq!(models(&client.tailed()), ["a"]);
    disk.record("b");
    assert_eq!(models(&client.tailed()), ["b"]);

    let address = gateway.stop();
    client.lost();
    disk.record("c");
    disk.record("d");
    let problem = client.lost();
    assert!(problem.contains("start it"), "{problem}");
    let _gateway = Gateway::start_at(&disk, address);
    let resumed = client.tailed();
    assert!(!resumed.restarted);
    assert_eq!(models(&resumed), ["c", "d"]);
    disk.record("e");
    assert_eq!(models(&client.tailed()), ["e"]);
}

#[test]
fn starts_the_log_anew_when_the_gateway_does_not_know_the_cursor() {
    let disk = Disk::new();
    disk.record("a");
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN);
    client.tailed();
    let address = gateway.stop();
    client.lost();
    disk.wipe();
    let _gateway = Gateway::start_at(&disk, address);
    let anew = client.tailed();
    assert!(anew.restarted);
    assert!(anew.records.is_empty());
}

#[test]
fn fetches_again_when_asked() {
    let disk = Disk::new();
    let gateway = Gateway::start(&disk);
    let mut client = Client::connect(gateway.url(), TOKEN);
    client.tailed();
    client.refresh.notify_one();
    client.loaded();
}

#[test]
fn a_refused_token_ends_it() {
    let gateway = Gateway::start(&Disk::new());
    let mut client = Client::connect(gateway.url(), "wrong");
    let reason = client.wait("the refusal", |message| match message {
        Message::SignedOut(reason) => Some(reason),
        _ => None,
    });
    assert!(reason.contains("sign in"), "{reason}");
    assert!(client.runtime.block_on(client.messages.recv()).is_none(), "it went on");
}

#[test]
fn an_address_that_is_none_is_named() {
    let mut client = Client::connect("gopher:70".to_owned(), TOKEN);
    assert!(client.lost().starts_with("`gopher:70` is not http://HOST:PORT"));
}

#[test]
fn a_password_gives_a_token_or_a_line_that_says_what_to_do() {
    let gateway = Gateway::start(&Disk::new());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let sign_in = |password: &str| {
        let password = password.into();
        let url = gateway.url();
        runtime.block_on(async { connection::sign_in(&url, "ada".to_owned(), &password).await })
    };
    assert!(sign_in(PASSWORD).is_ok());
    let problem = sign_in("wrong").unwrap_err();
    assert_eq!(problem, "wrong name or password: type the password again");
}
