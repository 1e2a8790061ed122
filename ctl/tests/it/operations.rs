//! Tests of `ctl traffic`, `ctl upstream health`, `ctl account limits`, `ctl version`,
//! `ctl reload` and `ctl webhook`.

use std::io::{self, Write};

use crate::fake::FakeGateway;
use crate::harness::signed_in;

#[tokio::test]
async fn traffic_is_shown_once_in_every_format() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = user.ctl(&format!("traffic --account * -o {format}")).await.ok();
        insta::assert_snapshot!(format!("traffic_{format}"), printed);
    }
    assert_eq!(fake.last().message, r#"WatchTrafficRequest { account: "*", interval_ms: 1000 }"#);
    assert_eq!(user.ctl("traffic --interval-ms 10").await.code, 2);
}

#[tokio::test]
async fn watched_traffic_is_printed_until_the_stream_ends() {
    let (_fake, mut user) = signed_in().await;
    let result = user.ctl("traffic --watch -o jsonl").await;
    assert_eq!((result.code, result.out.lines().count()), (6, 2), "{result:?}");
    let result = user.ctl("traffic --watch").await;
    assert_eq!(
        (result.code, result.out.lines().count()),
        (6, 3),
        "a header and two rows: {result:?}"
    );
    user.environment.width = Some(80);
    let result = user.ctl("traffic --watch").await;
    assert_eq!(result.out.matches("\u{1b}[H\u{1b}[J").count(), 2, "{result:?}");
    assert_eq!(user.ctl("traffic --watch -o json").await.code, 2);
}

#[tokio::test]
async fn limits_are_listed_with_their_use() {
    let (fake, mut user) = signed_in().await;
    insta::assert_snapshot!(user.ctl("account limits").await.ok());
    insta::assert_snapshot!(user.ctl("account limits alice -o json").await.ok());
    assert_eq!(fake.last().message, r#"ListLimitUseRequest { account: "alice" }"#);
    user.environment.unicode = false;
    assert!(user.ctl("account limits").await.ok().is_ascii());
}

#[tokio::test]
async fn upstreams_are_listed_even_without_health() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json"] {
        let printed = user.ctl(&format!("upstream health -o {format}")).await.ok();
        insta::assert_snapshot!(format!("upstream_health_{format}"), printed);
    }
    assert!(user.ctl("upstream list").await.ok().contains(" open "));
    fake.refuse("ListUpstreamHealth", tonic::Code::Unimplemented, "");
    let printed = user.ctl("upstream list -o jsonl").await.ok();
    assert!(printed.contains("\"breaker\":null"), "{printed}");
    assert_eq!(user.ctl("upstream health").await.code, 1);
}

#[tokio::test]
async fn a_route_is_explained_with_its_reasons() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json"] {
        let line = format!("route explain llama3 --cache-key c-7 -o {format}");
        insta::assert_snapshot!(format!("route_explain_{format}"), user.ctl(&line).await.ok());
    }
    fake.refuse("ExplainRoute", tonic::Code::NotFound, "there is no model `llama3`");
    assert_eq!(user.ctl("route explain llama3").await.code, 4);
}

#[tokio::test]
async fn quiet_prints_only_names() {
    let (_fake, user) = signed_in().await;
    for (line, printed) in [
        ("key list -q", "9f2c41d0\n11aa22bb\n"),
        ("model list --quiet", "sim-fast\nsim-slow\n"),
        ("whoami -q", "alice\n"),
        ("account invite -q", "inv-1\n"),
        ("account reset-password bob -q", "tgr-1\n"),
        ("operator-token rotate -q", "/data/operator.token\n"),
        ("model remove m -q", ""),
    ] {
        let result = user.ctl(line).await;
        assert_eq!((result.code, &*result.out, &*result.err), (0, printed, ""), "{line}");
    }
}

#[tokio::test]
async fn versions_are_those_of_both_programs() {
    let (fake, user) = signed_in().await;
    let printed = user.ctl("version -o csv").await.ok();
    let lines: Vec<_> = printed.lines().collect();
    let ours = format!("ctl,{},{},", version::VERSION, version::COMMIT.unwrap_or_default());
    let expected =
        ["program,version,commit,schema", &ours, "gateway,0.9.0,0123456789ab,SQLite schema 22"];
    assert_eq!(lines, expected);
    assert!(user.ctl("--version").await.ok().contains(version::LONG));
    fake.refuse("GetVersion", tonic::Code::Unavailable, "");
    let result = user.ctl("version -o csv").await;
    assert_eq!((result.code, result.out.lines().count()), (6, 2), "{result:?}");
}

#[tokio::test]
async fn a_reload_is_shown_in_every_format() {
    let (fake, user) = signed_in().await;
    for format in ["table", "json"] {
        let printed = user.ctl(&format!("reload -o {format}")).await.ok();
        insta::assert_snapshot!(format!("reload_{format}"), printed);
    }
    assert_eq!(fake.last().message, "ReloadRequest");
}

#[tokio::test]
async fn a_rotation_of_the_seal_key_says_what_is_left_to_do() {
    let (fake, user) = signed_in().await;
    let result = user.ctl("seal rotate -o json").await;
    assert!(result.err.contains("remove the former key from `/run/secrets/seal`"), "{result:?}");
    insta::assert_snapshot!("seal_rotate", result.ok());
    assert_eq!(fake.last().message, "RotateSealKeyRequest");
}

#[tokio::test]
async fn a_test_of_webhooks_shows_each_endpoint_and_fails_with_one() {
    let (fake, user) = signed_in().await;
    insta::assert_snapshot!("webhook_test", user.ctl("webhook test -o json").await.ok());
    assert_eq!(fake.last().message, "TestWebhooksRequest");
    fake.inject_problems();
    let result = user.ctl("webhook test -o csv").await;
    assert_eq!((result.code, result.out.lines().count()), (1, 3), "{result:?}");
    assert!(result.err.contains("1 of 2 endpoints did not accept the event"), "{result:?}");
}

#[tokio::test]
async fn the_load_is_shown_once_in_every_format() {
    let (fake, mut user) = signed_in().await;
    for format in ["table", "json", "csv"] {
        let printed = user.ctl(&format!("top --once -o {format}")).await.ok();
        insta::assert_snapshot!(format!("top_{format}"), printed);
    }
    assert!(fake.last().message.contains("page_size: 1000"), "{}", fake.last().message);
    assert_eq!(user.ctl("top -o json").await.code, 2);
    // Failures of the first sample are final.
    user.environment.width = Some(100);
    fake.refuse("ListUpstreamHealth", tonic::Code::PermissionDenied, "only support may");
    let result = user.ctl("top").await;
    assert_eq!(result.code, 3, "{result:?}");
}

/// A terminal whose gateway is unavailable from the first flush on, and which is closed after the second one.
struct FailingScreen {
    fake: FakeGateway,
    text: Vec<u8>,
    flushes: usize,
}

impl Write for FailingScreen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushes += 1;
        self.fake.refuse("ListRequests", tonic::Code::Unavailable, "shutting down");
        if self.flushes < 2 { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }
}

#[tokio::test]
async fn the_last_load_stays_on_the_screen_while_the_gateway_is_unavailable() {
    let (fake, mut user) = signed_in().await;
    (user.environment.width, user.environment.height) = (Some(100), Some(10));
    let args = ["ctl", "top", "--interval-ms", "250"];
    let (mut out, mut err) = (FailingScreen { fake, text: Vec::new(), flushes: 0 }, Vec::new());
    let code = ctl::run(args, &user.environment, &mut io::empty(), &mut out, &mut err).await;
    assert_eq!((code, String::from_utf8(err).unwrap().as_str()), (0, ""));
    let text = String::from_utf8(out.text).unwrap();
    let pictures: Vec<_> = text.split("\u{1b}[H\u{1b}[J").skip(1).collect();
    let [first, second] = pictures[..] else { panic!("two pictures: {text}") };
    assert!(!first.contains("shutting down"), "{first}");
    let note = "shutting down; this is the load at 2026-11-20T12:00:00Z";
    assert!(second.contains(note) && second.contains("requests/s 1.2"), "{second}");
    assert_eq!((first.lines().count(), second.lines().count()), (9, 9), "{text}");
}
