//! `ctl request …`

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::harness::signed_in;

#[tokio::test]
async fn list_prints_records_in_every_format() {
    let (_fake, person) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = person.ctl(&format!("request list -o {format}")).await.ok();
        insta::assert_snapshot!(format!("request_list_{format}"), printed);
    }
}

#[tokio::test]
async fn list_goes_from_page_to_page_up_to_the_limit() {
    let (fake, person) = signed_in().await;
    for (limit, lines, calls) in [(1, 1, 1), (2, 2, 1), (3, 3, 2), (9, 3, 2), (0, 0, 0)] {
        let before = fake.calls().len();
        let printed = person.ctl(&format!("request list -o jsonl --limit {limit}")).await.ok();
        assert_eq!(printed.lines().count(), lines, "limit {limit}");
        assert_eq!(fake.calls().len() - before, calls, "limit {limit}");
    }
}

#[tokio::test]
async fn filters_reach_the_gateway() {
    let (fake, person) = signed_in().await;
    let filter = "--status failed --model m --key k --account a --since 24h";
    person.ctl(&format!("request list {filter} --until 2026-11-20T00:00:00Z --limit 5")).await.ok();
    insta::assert_snapshot!(fake.last().message);
    person.ctl("usage summary --account a --model m --since 7d --until 1d").await.ok();
    insta::assert_snapshot!(fake.last().message);
    assert_eq!(person.ctl("request list --status fine").await.code, 2);
    for verb in ["list", "export"] {
        let args = ["ctl", "request", verb, "--filter", "-status:completed model:a,b"];
        person.run(&args, "").await.ok();
        let asked = fake.last().message;
        assert!(asked.contains("expression: \"-status:completed model:a,b\""), "{asked}");
    }
}

#[tokio::test]
async fn a_terminal_sees_what_is_needed_to_look_further() {
    let (fake, mut person) = signed_in().await;
    fake.end_tails();
    for width in [80, 120] {
        person.environment.width = Some(width);
        for (verb, flag) in [("list", ""), ("tail", "--no-reconnect")] {
            let printed = person.ctl(&format!("request {verb} {flag}")).await.out;
            let fits = |line: &str| line.chars().count() <= usize::from(width);
            assert!(printed.lines().all(fits), "{printed}");
            let refused = printed.lines().last().unwrap();
            for told in ["0000000c", "404 model_not_found", " 0 "] {
                assert!(refused.contains(told), "`{told}` is missing at {width}: {printed}");
            }
            insta::assert_snapshot!(format!("request_{verb}_{width}"), printed);
        }
    }
}

#[tokio::test]
async fn show_prints_one_record() {
    let (fake, person) = signed_in().await;
    let id = "019a9f0e-0000-7000-8000-00000000000a";
    insta::assert_snapshot!(person.ctl(&format!("request show {id}")).await.ok());
    assert_eq!(fake.last().method, "GetRequest");
    let document = person.ctl(&format!("request show {id} -o json")).await.ok();
    assert!(document.starts_with("{\n  \"id\": "), "{document}");
}

#[tokio::test]
async fn show_finds_a_record_by_a_part_of_its_id_that_no_other_has() {
    let (fake, person) = signed_in().await;
    let found = person.ctl("request show 0000000C -o jsonl").await.ok();
    assert!(found.contains("00000000000c") && found.lines().count() == 1, "{found}");
    assert_eq!(fake.calls().len(), 2, "it is on the second page");
    for (part, code, said) in [
        ("019a9f0e", 2, "several requests"),
        ("ffffffff", 4, "no id of the last requests"),
        ("000-00000000000a", 0, ""),
    ] {
        let ran = person.ctl(&format!("request show {part}")).await;
        assert!(ran.code == code && ran.err.contains(said), "{part}: {ran:?}");
    }
    person.ctl("request show nope").await.ok();
    assert_eq!(fake.last().message, r#"GetRequestRequest { id: "nope" }"#, "it can be no part");
}

#[tokio::test]
async fn tail_prints_what_comes_and_where_to_go_on() {
    let (fake, person) = signed_in().await;
    fake.end_tails();
    for format in ["table", "jsonl", "csv"] {
        let line = format!("request tail --no-reconnect --history 3 -o {format}");
        let ran = person.ctl(&line).await;
        assert_eq!(ran.code, 6);
        assert!(ran.err.contains("(7 skipped"), "{}", ran.err);
        assert!(ran.err.contains("ctl request tail --cursor c2"), "{}", ran.err);
        insta::assert_snapshot!(format!("request_tail_{format}"), ran.out);
    }
    assert!(fake.last().message.ends_with(r#"cursor: "", history: 3 }"#));
    person.ctl("request tail --no-reconnect --cursor c2").await;
    assert!(fake.last().message.ends_with(r#"cursor: "c2", history: 0 }"#));
}

/// A reader who has seen enough after so many lines.
struct Reader(Vec<u8>, usize);

impl Write for Reader {
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
async fn tail_goes_on_after_a_broken_connection_without_losing_or_repeating_a_row() {
    let (fake, person) = signed_in().await;
    fake.break_tails();
    let args = ["ctl", "request", "tail", "--filter", "cost>0.01", "-o", "jsonl"];
    let (mut out, mut err) = (Reader(Vec::new(), 3), Vec::new());
    let code = ctl::run(args, &person.environment, &mut io::empty(), &mut out, &mut err).await;
    let (out, err) = (String::from_utf8(out.0).unwrap(), String::from_utf8(err).unwrap());
    assert_eq!(code, 0, "{err}");
    assert_eq!(out, person.ctl("request list -o jsonl").await.ok());
    assert_eq!(err, "(shutting down; reconnecting in 100ms)\n(7 skipped: too slow)\n");
    let asked: Vec<_> =
        fake.calls().into_iter().filter(|call| call.method == "TailRequests").collect();
    assert_eq!(asked.len(), 2);
    for (call, cursor) in asked.iter().zip(["\"\"", "\"c1\""]) {
        assert!(call.message.contains("expression: \"cost>0.01\""), "{}", call.message);
        assert!(call.message.contains(&format!("cursor: {cursor}")), "{}", call.message);
    }
}

#[tokio::test]
async fn tail_does_not_go_on_where_it_never_began() {
    let (fake, mut person) = signed_in().await;
    fake.refuse("TailRequests", tonic::Code::Unavailable, "not yet");
    assert_eq!(person.ctl("request tail").await.code, 6);
    person.environment.token = Some("stale".into());
    assert_eq!(person.ctl("request tail").await.code, 3);
}

#[tokio::test]
async fn tail_is_no_json_document() {
    let (_fake, person) = signed_in().await;
    let ran = person.ctl("request tail -o json").await;
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("-o jsonl"), "{}", ran.err);
}

/// The binary itself: records come while the tail goes on, and Ctrl-C ends it with 0.
#[tokio::test(flavor = "multi_thread")]
async fn tail_ends_with_0_on_ctrl_c() {
    let (fake, person) = signed_in().await;
    let home = person.path("");
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
