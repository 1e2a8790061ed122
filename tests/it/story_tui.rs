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
const CTRL_O: &str = "\u{f}";
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
        self.send_request_to("sim-chat", key).await
    }

    /// Sends a request to a model. Returns the status and the request id.
    async fn send_request_to(&self, model: &str, key: &str) -> (u16, String) {
        let request = Request::post(self.gateway.http, "/v1/chat/completions").bearer(key);
        let answer = request.json(&question(model, "hi")).answer().await;
        (answer.status, answer.header("x-request-id").to_owned())
    }
}

/// Reads the key on the screen, closes its dialog, and checks that it is no longer visible.
async fn read_and_close_key(terminal: &mut Terminal) -> String {
    terminal.wait_for_text("will not come back").await;
    let text = terminal.text();
    let start = text.find("sk-tg-").unwrap();
    let letters = text[start..].chars();
    let is_key = |it: &char| it.is_ascii_alphanumeric() || "-_".contains(*it);
    let key: String = letters.take_while(is_key).collect();
    terminal.press(ESCAPE);
    terminal.wait_for_text("not copied yet").await;
    terminal.press(ESCAPE);
    terminal.wait_for_text("is gone from here").await;
    assert!(!terminal.text().contains("sk-tg-"), "{}", terminal.text());
    key
}

/// Closes the detail pane, which fills the screen of a small terminal.
async fn close_detail(terminal: &mut Terminal) {
    terminal.wait_for_text("Esc closes").await;
    terminal.press(ESCAPE);
    // input directly after an escape would be parsed as one key with it
    terminal.wait_until_hidden("Esc closes").await;
}

/// Returns whether a line of the screen contains these words in this order, separated by spaces
/// only.
fn has_line(screen: &str, words: &str) -> bool {
    screen.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().join(" ").contains(words))
}

#[tokio::test]
async fn a_new_user_can_do_everything_that_an_account_can() {
    let machine = Machine::new().await;
    let mut screen = machine.newcomer(SMALL);
    screen.wait_for_text("Ctrl-N makes one").await;
    screen.press(&format!("{CTRL_N}alice\t{PASSWORD}\t{PASSWORD}\r"));

    // trial balance, plan and token summary
    screen.wait_until("the overview", |text| has_line(text, "left $5")).await;
    screen.wait_until("the plan", |text| has_line(text, "plan free")).await;
    screen.wait_until("the usage", |text| has_line(text, "used in 30 days $0")).await;
    assert!(!screen.text().contains("accounts"), "visible to operators only:\n{}", screen.text());

    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.press("nlaptop\r");
    let first = read_and_close_key(&mut screen).await;
    screen.wait_until("the new key", |text| has_line(text, "laptop")).await;

    // the catalogue, with limits and prices
    screen.press("3");
    screen.wait_for_text("sim-chat").await;
    screen.press("/sim-chat\r");
    screen.wait_for_text("/sim-chat").await;
    screen.press("\r");
    screen.wait_until("the limits", |text| has_line(text, "limits none")).await;
    screen.wait_until("the prices", |text| has_line(text, "per million $0.50 input")).await;
    close_detail(&mut screen).await;

    // the live log
    screen.press("4");
    screen.wait_for_text("no requests yet").await;
    let (status, request) = machine.send_request(&first).await;
    assert_eq!(status, 200);
    screen.wait_until("the request", |text| has_line(text, "sim-chat completed")).await;
    screen.press("r");
    screen.wait_until("the statistics", |text| has_line(text, "requests 1")).await;
    screen.wait_until("the model's share", |text| has_line(text, "sim-chat █")).await;
    screen.press("\r");
    screen.wait_for_text(&request).await;
    screen.wait_until("the usage basis", |text| has_line(text, "counted by the upstream")).await;
    close_detail(&mut screen).await;

    // a request that no filter passes, and a way from the key to its requests
    screen.press("/status:failed\r");
    screen.wait_for_text("no request passes the filter").await;
    screen.press("2");
    screen.wait_for_text("Keys · 1").await;
    screen.press("l");
    screen.wait_for_text("keys › laptop › Requests").await;
    screen.wait_until("its request", |text| has_line(text, "sim-chat completed")).await;
    screen.press(ESCAPE);
    screen.wait_for_text("Keys · 1").await;
    screen.press("R");
    screen.wait_for_text("Rotate key").await;
    screen.press(&format!("{CTRL_U}0\r"));
    let second = read_and_close_key(&mut screen).await;
    screen.wait_for_text("Keys · 2").await;
    assert_eq!(
        (machine.send_request(&first).await.0, machine.send_request(&second).await.0),
        (401, 200)
    );
    screen.press("g");
    screen.press("x");
    screen.wait_for_text("Revoke key `laptop`?").await;
    screen.press("y");
    screen.wait_for_text("is revoked").await;
    assert_eq!(machine.send_request(&second).await.0, 401);

    // sign out and in again
    screen.press(":sign-out\r");
    screen.wait_for_text("signed out").await;
    screen.press(&format!("alice\t{PASSWORD}\r"));
    screen.wait_until("the balance", |text| has_line(text, "left $4.99")).await;
    screen.press("4");
    screen.wait_until("all requests", |text| has_line(text, "requests 4")).await;
    screen.wait_until("the refused requests", |text| has_line(text, "errors 2")).await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn the_first_journey_needs_nothing_but_the_dashboard() {
    let machine = Machine::new().await;
    let home = tempfile::tempdir_in(machine.disk.path()).unwrap().keep();
    let start = || {
        Terminal::start("tui", &home, SMALL, |command| {
            // The scheme of a gateway on this host may be left out.
            let server = machine.gateway.admin.trim_start_matches("http://");
            command.args(["--server", server]);
        })
    };
    let mut screen = start();
    screen.wait_for_text("Ctrl-N makes one").await;
    screen.press(&format!("{CTRL_N}alice\t{PASSWORD}\t{PASSWORD}\r"));
    screen.wait_until("the overview", |text| has_line(text, "left $5")).await;

    // a new key is tried with a model before it is closed
    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.press("nlaptop\r");
    screen.wait_for_text("will not come back").await;
    screen.press("t");
    screen.wait_for_text("with the new key").await;
    screen.press("Say hello to a newcomer.\r");
    screen.wait_for_text("Simulated answer").await;
    screen.wait_for_text("completed · ").await;
    screen.press(ESCAPE);
    read_and_close_key(&mut screen).await;

    // a model is tried over the other API with a key made for that, and its record is opened
    screen.press("3");
    screen.wait_for_text("sim-chat").await;
    screen.press("t");
    screen.wait_for_text("what to ask").await;
    screen.press("\tCount to three.");
    screen.wait_for_text("Responses").await;
    screen.press("\r");
    screen.wait_for_text("completed · ").await;
    screen.press(CTRL_O);
    screen.wait_until("its record", |text| has_line(text, "endpoint responses, as a stream")).await;
    screen.press(ESCAPE);
    screen.wait_until_hidden("Ctrl-O goes back").await;
    screen.press(ESCAPE);
    screen.wait_until_hidden("Try `sim-chat`").await;
    screen.press("4");
    screen.wait_until("both", |text| text.matches("completed").count() == 2).await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);

    // the session was kept, and the open screen
    let mut screen = start();
    screen.wait_until("both", |text| text.matches("completed").count() == 2).await;
    screen.press("1");
    screen.wait_until("the balance", |text| has_line(text, "left $4.99")).await;
    screen.press(":sign-out\r");
    screen.wait_for_text("signed out").await;
    screen.press("\u{3}");
    assert_eq!(screen.wait_for_exit().await, 0);
    let mut screen = start();
    screen.wait_for_text("Ctrl-N makes one").await;
    screen.press("\u{3}");
    assert_eq!(screen.wait_for_exit().await, 0);
}

#[tokio::test]
async fn an_operator_manages_accounts_upstreams_and_models() {
    let machine = Machine::new().await;
    let alice = Session::register(&machine.gateway.admin, "alice", PASSWORD).await;
    let key = alice.key().await.secret;
    let mut member_screen = machine.newcomer(SMALL);
    member_screen.wait_for_text("Ctrl-N makes one").await;
    member_screen.press(&format!("alice\t{PASSWORD}\r"));
    member_screen.wait_until("the member's overview", |text| has_line(text, "left $5")).await;

    // the token in the data directory is found automatically
    let mut screen = machine.operator(LARGE);
    screen.wait_for_text("6 accounts").await;
    screen.press("6");
    screen.wait_for_text("alice").await;
    screen.press("/alice\r");
    screen.wait_for_text("/alice").await;
    screen.press("c");
    screen.wait_for_text("kept with the ledger entry").await;
    screen.press("2.5\tgift\r");
    screen.wait_for_text("`alice` has $7.5 now").await;
    member_screen.press("r");
    member_screen.wait_until("the credit", |text| has_line(text, "left $7.5")).await;

    screen.press("s");
    screen.wait_for_text("the account sees it").await;
    screen.press("overdue\r");
    screen.wait_for_text("`alice` is suspended").await;
    assert_eq!(machine.send_request(&key).await.0, 403);
    member_screen.press("r");
    member_screen.wait_for_text("this account is suspended: overdue").await;
    screen.wait_until("the status", |text| has_line(text, "member suspended")).await;
    screen.press("s");
    screen.wait_for_text("Let `alice` be used again?").await;
    screen.press("y");
    screen.wait_for_text("`alice` can be used again").await;
    assert_eq!(machine.send_request(&key).await.0, 200);

    // from the account to its ledger and its keys, and back
    screen.press("l");
    screen.wait_for_text("Go to, for `alice`").await;
    screen.press("jj\r");
    screen.wait_for_text("accounts › alice › Ledger").await;
    screen.wait_until("the credit", |text| has_line(text, "alice credit $2.5")).await;
    screen.press("h");
    screen.wait_until_hidden("Ledger").await;
    screen.press("lj\r");
    screen.wait_for_text("accounts › alice › Keys · 1").await;
    screen.press("h");
    screen.wait_until_hidden("› Keys").await;

    screen.press("7");
    screen.wait_for_text("simulator").await;
    screen.press("n");
    screen.wait_for_text("New upstream").await;
    screen.press("local\thttp://127.0.0.1:9/v1\r");
    screen.wait_for_text("upstream `local` is added").await;
    screen.wait_for_text("http://127.0.0.1:9/v1").await;

    screen.press("3");
    screen.wait_for_text("sim-chat").await;
    screen.press("n");
    screen.wait_for_text("New model").await;
    screen.press("tiny\tsimulator:sim-chat\r");
    screen.wait_for_text("model `tiny` is in the catalogue").await;
    screen.wait_until("its health", |text| has_line(text, "tiny healthy")).await;
    assert_eq!(machine.send_request_to("tiny", &key).await.0, 200);
    screen.press("G");
    screen.press("e");
    screen.wait_for_text("Edit model").await;
    screen.press("\t\t128k\r");
    screen.wait_for_text("model `tiny` is changed").await;
    screen.wait_until("its context", |text| has_line(text, "tiny healthy 128k")).await;
    screen.press("x");
    screen.wait_for_text("Remove model `tiny`?").await;
    screen.press("y");
    screen.wait_for_text("model `tiny` is removed").await;
    assert_eq!(machine.send_request_to("tiny", &key).await.0, 404);

    // a member's leaked key
    screen.press("2");
    screen.wait_until("the member's key", |text| has_line(text, "alice")).await;
    screen.press("/alice\r");
    screen.wait_for_text("/alice").await;
    screen.press("x");
    screen.wait_for_text("of `alice`?").await;
    screen.wait_for_text("= ctl key revoke").await;
    screen.press("y");
    screen.wait_for_text("is revoked").await;
    assert_eq!(machine.send_request_to("sim-chat", &key).await.0, 401);

    screen.press("5");
    screen.wait_until("the refused request", |text| has_line(text, "account_suspended")).await;
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
        screen.wait_for_text(action).await;
    }
    for mut terminal in [screen, member_screen] {
        terminal.press("q");
        assert_eq!(terminal.wait_for_exit().await, 0);
    }
}

/// The running gateway counts its errors itself. Those from before its start come from the store, however
/// many there were.
#[tokio::test]
async fn the_errors_of_the_last_hour_are_all_counted_after_a_restart() {
    let machine = Machine::new().await;
    let mut screen = machine.newcomer(SMALL);
    screen.wait_for_text("Ctrl-N makes one").await;
    screen.press(&format!("{CTRL_N}alice\t{PASSWORD}\t{PASSWORD}\r"));
    screen.wait_until("the overview", |text| has_line(text, "left $5")).await;
    screen.press("2");
    screen.wait_for_text("no keys yet").await;
    screen.press("nlaptop\r");
    let key = read_and_close_key(&mut screen).await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
    for _ in 0..2 {
        assert_eq!(machine.send_request_to("unknown", &key).await.0, 404);
    }
    for _ in 0..300 {
        let request = Request::post(machine.gateway.http, "/v1/chat/completions").bearer(&key);
        assert_eq!(request.body("{").answer().await.status, 400);
    }
    let Machine { gateway, disk } = machine;
    gateway.stop().await;
    let gateway = Gateway::start(&disk.path().join("data"), |_| {}).await;
    let machine = Machine { gateway, disk };
    let mut screen = machine.operator(LARGE);
    screen
        .wait_until("the newer errors", |text| {
            text.lines().any(|it| it.contains("invalid_json") && it.contains(" 300 "))
        })
        .await;
    screen
        .wait_until("the older errors", |text| {
            text.lines().any(|it| it.contains("model_not_found") && it.contains(" 2 "))
        })
        .await;
    screen.press("q");
    assert_eq!(screen.wait_for_exit().await, 0);
}
