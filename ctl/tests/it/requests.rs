//! Tests of `ctl request …`.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::harness::signed_in;

#[tokio::test]
async fn list_prints_records_in_every_format() {
    let (_fake, user) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = user.ctl(&format!("request list -o {format}")).await.ok();
        insta::assert_snapshot!(format!("request_list_{format}"), printed);
    }
}

#[tokio::test]
async fn list_fetches_pages_up_to_the_limit() {
    let (fake, user) = signed_in().await;
    for (limit, lines, calls) in [(1, 1, 1), (2, 2, 1), (3, 3, 2), (9, 3, 2), (0, 0, 0)] {
        let before = fake.calls().len();
        let printed = user.ctl(&format!("request list -o jsonl --limit {limit}")).await.ok();
        assert_eq!(printed.lines().count(), lines, "limit {limit}");
        assert_eq!(fake.calls().len() - before, calls, "limit {limit}");
    }
}

#[tokio::test]
async fn filters_reach_the_gateway() {
    let (fake, user) = signed_in().await;
    let filter = "--status failed --model m --key k --account a --since 24h";
    user.ctl(&format!("request list {filter} --until 2026-11-20T00:00:00Z --limit 5")).await.ok();
    insta::assert_snapshot!(fake.last().message);
    user.ctl("usage summary --account a --model m --since 7d --until 1d").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(user.ctl("request list --status fine").await.code, 2);
    for verb in ["list", "export"] {
        let args = ["ctl", "request", verb, "--filter", "-status:completed model:a,b"];
        user.run(&args, "").await.ok();
        let sent = fake.last().message;
        assert!(sent.contains("expression: \"-status:completed model:a,b\""), "{sent}");
    }
}

#[tokio::test]
async fn a_narrow_terminal_shows_id_status_and_cost() {
    let (fake, mut user) = signed_in().await;
    fake.end_tails();
    for width in [80, 120] {
        user.environment.width = Some(width);
        for (verb, flag) in [("list", ""), ("tail", "--no-reconnect")] {
            let printed = user.ctl(&format!("request {verb} {flag}")).await.out;
            let fits = |line: &str| line.chars().count() <= usize::from(width);
            assert!(printed.lines().all(fits), "{printed}");
            let rejected = printed.lines().last().unwrap();
            for text in ["0000000c", "404 model_not_found", " 0 "] {
                assert!(rejected.contains(text), "`{text}` is missing at {width}: {printed}");
            }
            insta::assert_snapshot!(format!("request_{verb}_{width}"), printed);
        }
    }
}

#[tokio::test]
async fn show_prints_one_record() {
    let (fake, user) = signed_in().await;
    let id = "019a9f0e-0000-7000-8000-00000000000a";
    insta::assert_snapshot!(user.ctl(&format!("request show {id}")).await.ok());
    assert_eq!(fake.last().method, "GetRequest");
    let document = user.ctl(&format!("request show {id} -o json")).await.ok();
    assert!(document.starts_with("{\n  \"id\": "), "{document}");
}

#[tokio::test]
async fn show_finds_a_record_by_a_unique_part_of_its_id() {
    let (fake, user) = signed_in().await;
    let found = user.ctl("request show 0000000C -o jsonl").await.ok();
    assert!(found.contains("00000000000c") && found.lines().count() == 1, "{found}");
    assert_eq!(fake.calls().len(), 2, "it is on the second page");
    for (part, code, message) in [
        ("019a9f0e", 2, "several requests"),
        ("ffffffff", 4, "no recent request"),
        ("000-00000000000a", 0, ""),
    ] {
        let result = user.ctl(&format!("request show {part}")).await;
        assert!(result.code == code && result.err.contains(message), "{part}: {result:?}");
    }
    user.ctl("request show nope").await.ok();
    assert_eq!(fake.last().message, r#"GetRequestRequest { id: "nope" }"#, "not a partial id");
}

#[tokio::test]
async fn tail_prints_records_and_the_cursor_to_continue_from() {
    let (fake, user) = signed_in().await;
    fake.end_tails();
    for format in ["table", "jsonl", "csv"] {
        let line = format!("request tail --no-reconnect --history 3 -o {format}");
        let result = user.ctl(&line).await;
        assert_eq!(result.code, 6);
        assert!(result.err.contains("(7 skipped"), "{}", result.err);
        assert!(result.err.contains("ctl request tail --cursor c2"), "{}", result.err);
        insta::assert_snapshot!(format!("request_tail_{format}"), result.out);
    }
    assert!(fake.last().message.ends_with(r#"cursor: "", history: 3, max_backlog: 0 }"#));
    user.ctl("request tail --no-reconnect --cursor c2").await;
    assert!(fake.last().message.ends_with(r#"cursor: "c2", history: 0, max_backlog: 0 }"#));
}

/// A stdout that fails with a broken pipe once it has this number of lines.
struct LineLimitedPipe(Vec<u8>, usize);

impl Write for LineLimitedPipe {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let lines = self.0.split(|byte| *byte == b'\n').count() - 1;
        if lines < self.1 { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

#[tokio::test]
async fn tail_reconnects_without_losing_or_repeating_records() {
    let (fake, user) = signed_in().await;
    fake.break_tails();
    let args = ["ctl", "request", "tail", "--filter", "cost>0.01", "-o", "jsonl"];
    let (mut out, mut err) = (LineLimitedPipe(Vec::new(), 3), Vec::new());
    let code = ctl::run(args, &user.environment, &mut io::empty(), &mut out, &mut err).await;
    let (out, err) = (String::from_utf8(out.0).unwrap(), String::from_utf8(err).unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, user.ctl("request list -o jsonl").await.ok());
    assert_eq!(err, "(shutting down; reconnecting in 100ms)\n(7 skipped: too slow)\n");
    let tails: Vec<_> =
        fake.calls().into_iter().filter(|call| call.method == "TailRequests").collect();
    assert_eq!(tails.len(), 2);
    for (call, cursor) in tails.iter().zip(["\"\"", "\"c1\""]) {
        assert!(call.message.contains("expression: \"cost>0.01\""), "{}", call.message);
        assert!(call.message.contains(&format!("cursor: {cursor}")), "{}", call.message);
    }
}

#[tokio::test]
async fn tail_does_not_retry_the_first_connection() {
    let (fake, mut user) = signed_in().await;
    fake.refuse("TailRequests", tonic::Code::Unavailable, "not yet");
    assert_eq!(user.ctl("request tail").await.code, 6);
    user.environment.token = Some("stale".into());
    assert_eq!(user.ctl("request tail").await.code, 3);
}

#[tokio::test]
async fn tail_refuses_the_json_format() {
    let (_fake, user) = signed_in().await;
    let result = user.ctl("request tail -o json").await;
    assert_eq!(result.code, 2);
    assert!(result.err.contains("-o jsonl"), "{}", result.err);
}

/// Runs the real binary: records are printed as they arrive, and Ctrl-C ends it with exit code 0.
#[tokio::test(flavor = "multi_thread")]
async fn tail_ends_with_0_on_ctrl_c() {
    let (fake, user) = signed_in().await;
    let home = user.path("");
    let code = tokio::task::spawn_blocking(move || {
        let mut tail = Command::new(env!("CARGO_BIN_EXE_ctl"))
            .args(["--server", &fake.server, "request", "tail", "-o", "jsonl"])
            .env("HOME", home)
            .env("TOLLGATE_TOKEN", "token")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        for _ in 0..3 {
            lines.next().unwrap().unwrap();
        }
        let kill = format!("kill -INT {}", tail.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        tail.wait().unwrap().code()
    });
    assert_eq!(code.await.unwrap(), Some(0));
}

#[tokio::test]
async fn captured_messages_are_shown_without_control_characters() {
    let (fake, user) = signed_in().await;
    let started = user.ctl("request capture --key 9f2c41d0 --for 5m -o json").await.ok();
    assert!(started.contains("9f2c41d0"), "{started}");
    let asked = r#"CaptureRequestsRequest { key: "9f2c41d0", seconds: 300 }"#;
    assert_eq!(fake.last().message, asked);
    for format in ["table", "json"] {
        let line = format!("request show 019a9f0e-0000-7000-8000-00000000000a --wire -o {format}");
        let printed = user.ctl(&line).await.ok();
        assert!(!printed.contains('\u{1b}'), "{printed}");
        insta::assert_snapshot!(format!("request_wire_{format}"), printed);
    }
}

#[tokio::test]
async fn cancel_finds_a_request_by_a_unique_part_of_its_id() {
    let (fake, user) = signed_in().await;
    user.ctl("request cancel 0000000D").await.ok();
    let whole = r#"CancelRequestRequest { id: "019a9f0e-0000-7000-8000-00000000000d" }"#;
    assert_eq!(fake.last().message, whole);
    for (part, code, message) in
        [("019a9f0e", 2, "several requests"), ("ffffffff", 4, "no listed request in flight")]
    {
        let result = user.ctl(&format!("request cancel {part}")).await;
        assert!(result.code == code && result.err.contains(message), "{part}: {result:?}");
        assert_eq!(fake.last().method, "ListRequestsInFlight");
    }
}
