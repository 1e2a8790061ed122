//! `ctl traffic`, `ctl upstream health` and `ctl account limits`

use crate::harness::signed_in;

#[tokio::test]
async fn traffic_is_shown_once_in_every_format() {
    let (fake, person) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = person.ctl(&format!("traffic --account * -o {format}")).await.ok();
        insta::assert_snapshot!(format!("traffic_{format}"), printed);
    }
    assert_eq!(fake.last().message, r#"WatchTrafficRequest { account: "*", interval_ms: 1000 }"#);
    assert_eq!(person.ctl("traffic --interval-ms 10").await.code, 2);
}

#[tokio::test]
async fn watched_traffic_goes_on_until_the_gateway_goes() {
    let (_fake, mut person) = signed_in().await;
    let ran = person.ctl("traffic --watch -o jsonl").await;
    assert_eq!((ran.code, ran.out.lines().count()), (6, 2), "{ran:?}");
    let ran = person.ctl("traffic --watch").await;
    assert_eq!((ran.code, ran.out.lines().count()), (6, 3), "a header and two rows: {ran:?}");
    person.environment.width = Some(80);
    let ran = person.ctl("traffic --watch").await;
    assert_eq!(ran.out.matches("\u{1b}[H\u{1b}[J").count(), 2, "{ran:?}");
    assert_eq!(person.ctl("traffic --watch -o json").await.code, 2);
}

#[tokio::test]
async fn limits_are_listed_with_their_use() {
    let (fake, mut person) = signed_in().await;
    insta::assert_snapshot!(person.ctl("account limits").await.ok());
    insta::assert_snapshot!(person.ctl("account limits alice -o json").await.ok());
    assert_eq!(fake.last().message, r#"ListLimitUseRequest { account: "alice" }"#);
    person.environment.unicode = false;
    assert!(person.ctl("account limits").await.ok().is_ascii());
}

#[tokio::test]
async fn health_is_listed_and_upstreams_are_without_it() {
    let (fake, person) = signed_in().await;
    for format in ["table", "json"] {
        let printed = person.ctl(&format!("upstream health -o {format}")).await.ok();
        insta::assert_snapshot!(format!("upstream_health_{format}"), printed);
    }
    assert!(person.ctl("upstream list").await.ok().contains(" open "));
    fake.refuse("ListUpstreamHealth", tonic::Code::Unimplemented, "");
    let listed = person.ctl("upstream list -o jsonl").await.ok();
    assert!(listed.contains("\"breaker\":null"), "{listed}");
    assert_eq!(person.ctl("upstream health").await.code, 1);
}

#[tokio::test]
async fn quiet_is_names_alone_and_no_talk() {
    let (_fake, person) = signed_in().await;
    for (line, printed) in [
        ("key list -q", "9f2c41d0\n11aa22bb\n"),
        ("model list --quiet", "sim-fast\nsim-slow\n"),
        ("whoami -q", "alice\n"),
        ("account invite -q", "inv-1\n"),
        ("model remove m -q", ""),
    ] {
        let ran = person.ctl(line).await;
        assert_eq!((ran.code, &*ran.out, &*ran.err), (0, printed, ""), "{line}");
    }
}
