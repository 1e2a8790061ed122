//! The whole product from an empty machine by keyboard: the real `tui` in a terminal, with the real
//! `gateway`.

use tempfile::TempDir;
use tests::http::Request;
use tests::process::Gateway;
use tests::{Session, Terminal, question};

/// The size at which everything must be usable.
const SMALL: (u16, u16) = (24, 80);
const LARGE: (u16, u16) = (50, 160);

/// The password of the account `alice`.
const PASSWORD: &str = "correct horse battery alice";

const ESCAPE: &str = "\u{1b}";
const CTRL_N: &str = "\u{e}";
const CTRL_U: &str = "\u{15}";

/// A gateway on an empty data directory, with empty home directories.
struct Machine {
    gateway: Gateway,
    disk: TempDir,
}

impl Machine {
    async fn new() -> Self {
        let disk = tempfile::tempdir().unwrap();
        let gateway = Gateway::start(&disk.path().join("data"), |_| {}).await;
        Self { gateway, disk }
    }

    /// Returns a terminal with an empty home directory.
    fn newcomer(&self, size: (u16, u16)) -> Terminal {
        let home = tempfile::tempdir_in(self.disk.path()).unwrap().keep();
        Terminal::start("tui", &home, size, |command| {
            command.args(["--server", &self.gateway.admin]);
        })
    }

    /// Returns a terminal that may read the gateway's data directory.
    fn operator(&self, size: (u16, u16)) -> Terminal {
        Terminal::start("tui", self.disk.path(), size, |command| {
            command.args(["--server", &self.gateway.admin]);
            command.env("TOLLGATE_DATA_DIR", self.disk.path().join("data"));
        })
    }

    /// Sends a request to the simulator's model. Returns the status and the request id.
    async fn send_request(&self, key: &str) -> (u16, String) {
        self.ask_model("sim-chat", key).await
    }

    /// Sends a request to a model. Returns the status and the request id.
    async fn ask_model(&self, model: &str, key: &str) -> (u16, String) {
        let request = Request::post(self.gateway.http, "/v1/chat/completions").bearer(key);
        let answer = request.json(&question(model, "hi")).answer().await;
        (answer.status, answer.header("x-request-id").to_owned())
    }
}

/// Reads the key on the screen, closes its dialog, and checks that it is no longer visible.
async fn take_key(terminal: &mut Terminal) -> String {
    terminal.shows("will not come back").await;
    let text = terminal.text();
    let start = text.find("sk-tg-").unwrap();
    let letters = text[start..].chars();
    let is_key = |it: &char| it.is_ascii_alphanumeric() || "-_".contains(*it);
    let key: String = letters.take_while(is_key).collect();
    terminal.press(ESCAPE);
    terminal.shows("is gone from here").await;
    assert!(!terminal.text().contains("sk-tg-"), "{}", terminal.text());
    key
}

/// Closes the detail pane, which fills the screen of a small terminal.
async fn close_detail(terminal: &mut Terminal) {
    terminal.shows("Esc goes back").await;
    terminal.press(ESCAPE);
    // input directly after an escape would be parsed as one key with it
    terminal.hides("Esc goes back").await;
}

/// Returns whether a line of the screen contains these words in this order, separated by spaces
/// only.
fn says(screen: &str, words: &str) -> bool {
    screen.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(words))
}

#[tokio::test]
async fn a_new_user_can_do_everything_that_an_account_can() {
    let machine = Machine::new().await;
    let mut screen = machine.newcomer(SMALL);
    screen.shows("Ctrl-N makes one").await;
    screen.press(&format!("{CTRL_N}alice\t{PASSWORD}\t{PASSWORD}\r"));

    // trial balance, plan and token summary
    screen.is("the overview", |text| says(text, "left $5")).await;
    screen.is("the plan", |text| says(text, "plan free")).await;
    screen.is("what is used", |text| says(text, "used in 30 days $0")).await;
    assert!(!screen.text().contains("accounts"), "that is for operators:\n{}", screen.text());

    screen.press("2");
    screen.shows("no keys yet").await;
    screen.press("nlaptop\r");
    let first = take_key(&mut screen).await;
    screen.is("the new key", |text| says(text, "laptop")).await;

    // the catalogue, with limits and prices
    screen.press("3");
    screen.shows("sim-chat").await;
    screen.press("/sim-chat\r");
    screen.shows("/sim-chat").await;
    screen.press("\r");
    screen.is("the limits", |text| says(text, "limits none")).await;
    screen.is("the prices", |text| says(text, "per million $0.5 input")).await;
    close_detail(&mut screen).await;

    // the live log
    screen.press("4");
    screen.shows("no requests yet").await;
    let (status, request) = machine.send_request(&first).await;
    assert_eq!(status, 200);
    screen.is("the request", |text| says(text, "sim-chat completed")).await;
    screen.press("r");
    screen.is("the statistics", |text| says(text, "requests 1")).await;
    screen.is("the model's share", |text| says(text, "sim-chat █")).await;
    screen.press("\r");
    screen.shows(&request).await;
    screen.is("what was counted", |text| says(text, "counted by the upstream")).await;
    close_detail(&mut screen).await;

    screen.press("2");
    screen.shows("Keys · 1").await;
    screen.press("R");
    screen.shows("Rotate key").await;
    screen.press(&format!("{CTRL_U}0\r"));
    let second = take_key(&mut screen).await;
    screen.shows("Keys · 2").await;
    assert_eq!(
        (machine.send_request(&first).await.0, machine.send_request(&second).await.0),
        (401, 200)
    );
    screen.press("g");
    screen.press("x");
    screen.shows("Revoke key `laptop`?").await;
    screen.press("y");
    screen.shows("is revoked").await;
    assert_eq!(machine.send_request(&second).await.0, 401);

    // sign out and in again
    screen.press(":sign-out\r");
    screen.shows("signed out").await;
    screen.press(&format!("alice\t{PASSWORD}\r"));
    screen.is("the balance", |text| says(text, "left $4.99")).await;
    screen.press("4");
    screen.is("all requests", |text| says(text, "requests 4")).await;
    screen.is("those with a key that was gone", |text| says(text, "errors 2")).await;
    screen.press("q");
    assert_eq!(screen.end().await, 0);
}

#[tokio::test]
async fn an_operator_manages_accounts_upstreams_and_models() {
    let machine = Machine::new().await;
    let alice = Session::register(&machine.gateway.admin, "alice", PASSWORD).await;
    let key = alice.key().await.secret;
    let mut hers = machine.newcomer(SMALL);
    hers.shows("Ctrl-N makes one").await;
    hers.press(&format!("alice\t{PASSWORD}\r"));
    hers.is("her overview", |text| says(text, "left $5")).await;

    // the token in the data directory is found automatically
    let mut screen = machine.operator(LARGE);
    screen.shows("6 accounts").await;
    screen.press("6");
    screen.shows("alice").await;
    screen.press("/alice\r");
    screen.shows("/alice").await;
    screen.press("c");
    screen.shows("kept with the ledger entry").await;
    screen.press("2.5\tgift\r");
    screen.shows("`alice` has $7.5 now").await;
    hers.press("r");
    hers.is("the credit", |text| says(text, "left $7.5")).await;

    screen.press("s");
    screen.shows("the account sees it").await;
    screen.press("overdue\r");
    screen.shows("`alice` is suspended").await;
    assert_eq!(machine.send_request(&key).await.0, 403);
    hers.press("r");
    hers.shows("this account is suspended").await;
    screen.is("that it is", |text| says(text, "member suspended")).await;
    screen.press("s");
    screen.shows("Let `alice` be used again?").await;
    screen.press("y");
    screen.shows("`alice` can be used again").await;
    assert_eq!(machine.send_request(&key).await.0, 200);

    screen.press("7");
    screen.shows("simulator").await;
    screen.press("n");
    screen.shows("New upstream").await;
    screen.press("local\thttp://127.0.0.1:9/v1\r");
    screen.shows("upstream `local` is added").await;
    screen.shows("http://127.0.0.1:9/v1").await;

    screen.press("3");
    screen.shows("sim-chat").await;
    screen.press("n");
    screen.shows("New model").await;
    screen.press("tiny\tsimulator:sim-chat\r");
    screen.shows("model `tiny` is in the catalogue").await;
    screen.is("how it does", |text| says(text, "tiny healthy")).await;
    assert_eq!(machine.ask_model("tiny", &key).await.0, 200);
    screen.press("G");
    screen.press("e");
    screen.shows("Edit model").await;
    screen.press("\t\t128k\r");
    screen.shows("model `tiny` is changed").await;
    screen.is("its context", |text| says(text, "tiny healthy 128k")).await;
    screen.press("x");
    screen.shows("Remove model `tiny`?").await;
    screen.press("y");
    screen.shows("model `tiny` is removed").await;
    assert_eq!(machine.ask_model("tiny", &key).await.0, 404);

    screen.press("5");
    screen.is("the refused request", |text| says(text, "account_suspended")).await;
    screen.press("9");
    for action in [
        "account.register",
        "account.credit",
        "account.suspend",
        "account.resume",
        "upstream.add",
        "model.add",
        "model.update",
        "model.remove",
    ] {
        screen.shows(action).await;
    }
    for mut terminal in [screen, hers] {
        terminal.press("q");
        assert_eq!(terminal.end().await, 0);
    }
}
