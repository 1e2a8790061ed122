//! `ctl request …` and `ctl usage …`

use std::io::{BufRead, BufReader};
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
}

#[tokio::test]
async fn show_prints_one_record() {
    let (_fake, person) = signed_in().await;
    insta::assert_snapshot!(person.ctl("request show 019a9f0e").await.ok());
    let document = person.ctl("request show 019a9f0e -o json").await.ok();
    assert!(document.starts_with("{\n  \"id\": "), "{document}");
}

#[tokio::test]
async fn tail_prints_what_comes_and_where_to_go_on() {
    let (fake, person) = signed_in().await;
    fake.end_tails();
    for format in ["table", "jsonl", "csv"] {
        let ran = person.ctl(&format!("request tail --history 3 -o {format}")).await;
        assert_eq!(ran.code, 6);
        assert!(ran.err.contains("7 records were skipped"), "{}", ran.err);
        assert!(ran.err.contains("ctl request tail --cursor c2"), "{}", ran.err);
        insta::assert_snapshot!(format!("request_tail_{format}"), ran.out);
    }
    assert!(fake.last().message.ends_with(r#"cursor: "", history: 3 }"#));
    person.ctl("request tail --cursor c2").await;
    assert!(fake.last().message.ends_with(r#"cursor: "c2", history: 0 }"#));
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

#[tokio::test]
async fn summary_prints_totals_models_and_days() {
    let (_fake, person) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = person.ctl(&format!("usage summary -o {format}")).await.ok();
        insta::assert_snapshot!(format!("usage_summary_{format}"), printed);
    }
}
