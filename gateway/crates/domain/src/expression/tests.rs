//! Tests of the parser: results, errors and limits.

use proptest::prelude::*;

use super::*;
use crate::ValidationError;

/// Resolves the account `ann` and the alias `fast`.
struct TestResolver;

impl Resolver for TestResolver {
    type Error = ValidationError;

    fn account(&self, text: &str) -> Result<AccountId, ValidationError> {
        let missing =
            || ValidationError::new("account", format!("account `{text}` does not exist"));
        (text == "ann").then(ann).ok_or_else(missing)
    }

    fn model(&self, text: &str) -> ModelId {
        ModelId::new(if text == "fast" { "gpt-5" } else { text })
    }
}

fn ann() -> AccountId {
    AccountId(uuid::Uuid::from_u128(1))
}

fn noon() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

fn read(text: &str) -> Result<Expression, ValidationError> {
    parse(text, noon(), &TestResolver)
}

/// Expects these terms and no time range.
#[track_caller]
fn check(text: &str, expected: impl IntoIterator<Item = (bool, Predicate)>) {
    let terms = expected.into_iter().map(|(holds, predicate)| Term { predicate, negated: !holds });
    let expected = Expression { terms: terms.collect(), ..Expression::default() };
    assert_eq!(read(text), Ok(expected), "{text}");
}

#[test]
fn parses_every_field() {
    let milliseconds = Duration::from_millis;
    check("", []);
    check("  model:fast\t", [(true, Predicate::Model(vec![ModelId::new("gpt-5")]))]);
    check("account:ann", [(true, Predicate::Account(vec![ann()]))]);
    check("key:k1,k2", [(true, Predicate::Key(vec![KeyId::new("k1"), KeyId::new("k2")]))]);
    check(
        "-status:completed,cancelled stream:no",
        [
            (false, Predicate::Status(vec![RequestStatus::Completed, RequestStatus::Cancelled])),
            (true, Predicate::Stream(false)),
        ],
    );
    check("endpoint:responses", [(true, Predicate::Endpoint(vec![Endpoint::Responses]))]);
    check("-error:a,b", [(false, Predicate::Error(vec!["a".into(), "b".into()]))]);
    check("cost>0.01", [(true, Predicate::Cost(Comparison::Above, Nanos(10_000_000)))]);
    check("tokens<=4000", [(true, Predicate::Tokens(Comparison::AtMost, Tokens(4000)))]);
    check(
        "duration>=1.5s",
        [(true, Predicate::Duration(Comparison::AtLeast, milliseconds(1_500)))],
    );
    check("-ttft<250ms", [(false, Predicate::Ttft(Comparison::Below, milliseconds(250)))]);
}

#[test]
fn values_may_contain_operators() {
    check(
        "model:a:b,c>d",
        [(true, Predicate::Model(vec![ModelId::new("a:b"), ModelId::new("c>d")]))],
    );
}

#[test]
fn several_times_are_intersected() {
    let range = |text: &str| {
        let Expression { since, until, terms } = read(text).unwrap();
        assert_eq!(terms, []);
        [since, until].map(|time| time.map(|time| time.to_string()))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(range("since:15m"), [some("2026-11-20T11:45:00Z"), None]);
    assert_eq!(range("since:7d since:1h since:2h"), [some("2026-11-20T11:00:00Z"), None]);
    assert_eq!(
        range("until:2026-11-19T00:00:00Z until:30s -since:2026-11-18T00:00:00+01:00"),
        [None, some("2026-11-17T23:00:00Z")]
    );
    assert_eq!(range("-until:24h"), [some("2026-11-19T12:00:00Z"), None]);
    let midnight = Some("2026-11-01T00:00:00Z".to_owned());
    assert_eq!(range("since:2026-11-01")[0], midnight, "a day is its midnight in UTC");
    assert_eq!(range("since:9999999d")[0], Some(Timestamp::MIN.to_string()));
}

#[test]
fn errors_contain_position_and_allowed_input() {
    for (text, expected) in [
        ("gpt-5", "characters 1 to 5: `gpt-5` is no condition; there are `model:`"),
        ("model:a modle:b", "characters 9 to 13: there is no field `modle`; there are `model:`"),
        ("ü status:dune", "characters 1 to 1: `ü` is no condition"),
        ("stream:no status:failed,dune", "characters 25 to 28: `dune` is no status; it is one of"),
        ("endpoint:chat", "characters 10 to 13: `chat` is no endpoint; it is one of `chat.comp"),
        ("-stream:true", "characters 9 to 12: `true` is neither `yes` nor `no`"),
        ("model:", "characters 1 to 6: `model:` lacks a value"),
        ("-model:,,", "characters 1 to 9: `model:,,` lacks a value"),
        ("cost:1", "characters 1 to 6: `cost` is compared: write `cost>…` or `cost<…`"),
        ("model>1", "characters 1 to 7: `model` is not compared: write `model:…`"),
        ("modle>1", "characters 1 to 5: there is no field `modle`"),
        ("cost>1e3", "characters 6 to 8: `1e3` is not an amount: give US dollars"),
        ("tokens>-1", "characters 8 to 9: `-1` is not a number of tokens"),
        ("ttft>5", "characters 6 to 6: `5` is not a length of time, such as `250ms`"),
        ("ttft>infs", "characters 6 to 9: `infs` is not a length of time"),
        ("since:yesterday", "characters 7 to 15: `yesterday` is not a time: write how long ago"),
        (">5", "characters 1 to 1: there is no field ``"),
    ] {
        let error = read(text).unwrap_err();
        assert_eq!(error.field, "filter.expression");
        let place = error.message.strip_prefix("in `filter.expression`, ").unwrap();
        assert!(place.starts_with(expected), "{text}: {place}");
    }
    assert_eq!(read("account:bob").unwrap_err().message, "account `bob` does not exist");
}

#[test]
fn length_and_number_of_terms_are_limited() {
    assert!(read(&"key:a ".repeat(64)).is_ok());
    assert!(read(&"key:a ".repeat(65)).unwrap_err().message.contains("64 terms"));
    assert!(read(&"k".repeat(4_097)).unwrap_err().message.contains("4096 bytes"));
}

proptest! {
    #[test]
    fn never_panics_on_any_text(text in ".*") {
        _ = read(&text);
    }

    #[test]
    fn never_panics_on_tokens_of_the_grammar(
        words in prop::collection::vec(
            "-?(model|status|cost|since|ttft|stream|ü)?[:<>=]{0,2}(a|1|5ms|7d|yes|failed|,|ü|-)*",
            0..8,
        )
    ) {
        _ = read(&words.join(" "));
    }

    #[test]
    fn order_of_terms_is_irrelevant(seed in any::<u64>()) {
        let mut words = ["model:a", "-key:b", "cost>1", "since:1h", "until:5m", "stream:yes"];
        let first = read(&words.join(" ")).unwrap();
        words.rotate_left(usize::try_from(seed % 6).unwrap());
        let other = read(&words.join("  ")).unwrap();
        prop_assert_eq!((first.since, first.until), (other.since, other.until));
        prop_assert!(first.terms.iter().all(|term| other.terms.contains(term)));
    }
}
