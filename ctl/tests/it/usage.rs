//! Tests of `ctl usage …`.

use crate::harness::signed_in;

#[tokio::test]
async fn summary_prints_totals_models_days_and_keys() {
    let (_fake, user) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = user.ctl(&format!("usage summary -o {format}")).await.ok();
        assert_eq!(printed, user.ctl(&format!("usage -o {format}")).await.ok());
        insta::assert_snapshot!(format!("usage_summary_{format}"), printed);
    }
}

#[tokio::test]
async fn bars_fit_the_terminal() {
    let (_fake, mut user) = signed_in().await;
    for (width, unicode) in [(100, true), (80, false), (40, true)] {
        user.environment.width = Some(width);
        user.environment.unicode = unicode;
        let drawn = user.ctl("usage").await.ok();
        let fits = |line: &str| line.chars().count() <= usize::from(width);
        assert!(drawn.lines().all(fits), "{drawn}");
        assert_eq!(drawn.is_ascii(), !unicode, "{drawn}");
        insta::assert_snapshot!(format!("usage_terminal_{width}"), drawn);
    }
    user.environment.colour = true;
    assert!(user.ctl("usage").await.ok().contains("\u{1b}[1mBy model"));
    assert!(!user.ctl("usage -o json").await.ok().contains('\u{1b}'));
}

#[tokio::test]
async fn summary_is_the_default_subcommand() {
    let (fake, user) = signed_in().await;
    user.ctl("usage --since 7d --model m --key k").await.ok();
    let without_subcommand = fake.last().message;
    user.ctl("usage summary --since 7d --model m --key k").await.ok();
    assert_eq!(without_subcommand, fake.last().message);
    assert_eq!(user.ctl("usage sumary").await.code, 2);
}
