//! Fuzzes the reader of JSON. Invariant: it accepts the texts that `serde_json` accepts, and finds the same values in
//! them.
#![no_main]

use std::borrow::Cow;
use std::collections::HashMap;

use domain::wire::json::{JsonReader, RawJson, as_utf8};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most values of one input that are looked into, and the most members of one object.
const MAX_VALUES: usize = 256;
const MAX_MEMBERS: usize = 16;

/// A string, borrowed if it has no escape sequences.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fuzz_target!(|input: &[u8]| {
    let text = as_utf8(input);
    assert_eq!(text, str::from_utf8(input).ok());
    let Some(text) = text else { return };
    let mut reader = JsonReader::new(text);
    let value = reader.value().ok().filter(|_| reader.end().is_ok());
    let expected = serde_json::from_str::<&RawValue>(text).ok();
    assert_eq!(value.map(RawJson::get), expected.map(RawValue::get), "{text:?}");
    if let Some(value) = value {
        check_parts(value);
    }
});

/// Checks that `value` is read as `serde_json` reads it, and so are values in it.
fn check_parts(value: RawJson<'_>) {
    let mut remaining = vec![value];
    for _ in 0..MAX_VALUES {
        let Some(value) = remaining.pop() else { return };
        let text = value.get();
        let string = serde_json::from_str::<Text<'_>>(text).ok().map(|Text(string)| string);
        assert_eq!(value.string(), string, "{text:?}");

        let elements = value.elements();
        let expected = serde_json::from_str::<Vec<&RawValue>>(text).ok();
        let texts =
            |values: &Vec<RawJson<'_>>| values.iter().map(|it| it.get().to_owned()).collect();
        assert_eq!(
            elements.as_ref().map(texts),
            expected.map(|it| Vec::from_iter(it.iter().map(|it| it.get().to_owned()))),
            "{text:?}"
        );
        remaining.extend(elements.into_iter().flatten());

        let members = serde_json::from_str::<HashMap<String, &RawValue>>(text);
        for (name, expected) in members.into_iter().flatten().take(MAX_MEMBERS) {
            let member = value.member(&name).expect("serde_json finds a member of this name");
            assert_eq!(member.get(), expected.get(), "{name:?} of {text:?}");
            remaining.push(member);
        }
    }
}
