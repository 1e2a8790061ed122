//! `ctl usage …`

use crate::harness::signed_in;

#[tokio::test]
async fn summary_prints_totals_models_days_and_keys() {
    let (_fake, person) = signed_in().await;
    for format in ["table", "json", "jsonl", "csv"] {
        let printed = person.ctl(&format!("usage summary -o {format}")).await.ok();
        assert_eq!(printed, person.ctl(&format!("usage -o {format}")).await.ok());
        insta::assert_snapshot!(format!("usage_summary_{format}"), printed);
    }
}

#[tokio::test]
async fn a_terminal_sees_bars_that_fit_it() {
    let (_fake, mut person) = signed_in().await;
    for (width, unicode) in [(100, true), (80, false), (40, true)] {
        person.environment.width = Some(width);
        person.environment.unicode = unicode;
        let drawn = person.ctl("usage").await.ok();
        let fits = |line: &str| line.chars().count() <= usize::from(width);
        assert!(drawn.lines().all(fits), "{drawn}");
        assert_eq!(drawn.is_ascii(), !unicode, "{drawn}");
        insta::assert_snapshot!(format!("usage_terminal_{width}"), drawn);
    }
    person.environment.colour = true;
    assert!(person.ctl("usage").await.ok().contains("\u{1b}[1mBy model"));
    assert!(!person.ctl("usage -o json").await.ok().contains('\u{1b}'));
}

#[tokio::test]
async fn the_verb_may_be_left_out_with_its_options() {
    let (fake, person) = signed_in().await;
    person.ctl("usage --since 7d --model m --key k").await.ok();
    let bare = fake.last().message;
    person.ctl("usage summary --since 7d --model m --key k").await.ok();
    assert_eq!(bare, fake.last().message);
    assert_eq!(person.ctl("usage sumary").await.code, 2);
}
