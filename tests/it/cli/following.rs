//! `ctl request tail` across a restart of the gateway.

use std::process::Stdio;

use gateway::config::AdminAddress;
use serde_json::Value;
use tests::process::command;
use tests::{Product, question, with_timeout};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A running `ctl request tail`.
struct Tail {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Tail {
    fn start(product: &Product, filter: &str) -> Self {
        let mut command = command("ctl");
        command.args(["request", "tail", "-o", "jsonl", "--filter", filter]);
        command.env("TOLLGATE_SERVER", &product.admin);
        command.env("TOLLGATE_TOKEN", product.home.operator_token());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the id of the next request that it prints.
    async fn next(&mut self) -> String {
        let line = with_timeout("a row", self.lines.next_line()).await.unwrap().unwrap();
        let record: Value = line.parse().unwrap();
        record["id"].as_str().unwrap().to_owned()
    }

    /// Interrupts it as Ctrl-C does, and checks that there is no further output.
    async fn interrupt(mut self) {
        let id = self.child.id().unwrap().to_string();
        Command::new("sh").args(["-c", "kill -INT $0", &id]).status().await.unwrap();
        let status = with_timeout("its end", self.child.wait()).await.unwrap();
        assert_eq!(status.code(), Some(0));
        assert_eq!(self.lines.next_line().await.unwrap(), None);
    }
}

/// Sends a request and returns its id.
async fn send_request(product: &Product, key: &str) -> String {
    let answer = product.chat(key, &question("sim-chat", "hi")).answer().await;
    answer.header("x-request-id").to_owned()
}

#[tokio::test]
async fn a_tail_continues_after_a_restart_without_loss_or_repetition() {
    let dir = tempfile::tempdir().unwrap();
    // an address that stays the same after the restart
    let address = AdminAddress::Unix(dir.path().join("admin.sock"));
    let product = Product::with(|setup| setup.config.admin_listen = address).await;
    let key = product.member("alice").await.key().await.secret;
    let mut asked = vec![send_request(&product, &key).await];
    product.operator().await.records(1).await;
    let mut tail = Tail::start(&product, "account:alice status:completed");
    let mut printed = vec![tail.next().await];
    asked.push(send_request(&product, &key).await);
    printed.push(tail.next().await);

    let product = product.stop().await.start().await;
    // during or after the restart: each must be printed exactly once
    for _ in 0..3 {
        asked.push(send_request(&product, &key).await);
    }
    for _ in 0..3 {
        printed.push(tail.next().await);
    }
    asked.push(send_request(&product, &key).await);
    printed.push(tail.next().await);
    assert_eq!(printed, asked);
    tail.interrupt().await;
}
