//! Whole streams: recorded chat streams, and the events that real clients were tested with.

use std::sync::LazyLock;

use super::*;
use crate::plan::ReasoningOutput;

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    let json = include_str!("../../../../../../tests/fixtures/spec/golden-streams.json");
    serde_json::from_str(json).unwrap()
});

/// The recorded chat stream of each golden stream.
pub(super) const FIXTURES: [(&str, &str); 14] = [
    ("text", include_str!("../../fixtures/text.jsonl")),
    ("empty", include_str!("../../fixtures/empty.jsonl")),
    ("reason_text", include_str!("../../fixtures/reason_text.jsonl")),
    ("reason_content", include_str!("../../fixtures/reason_content.jsonl")),
    ("call", include_str!("../../fixtures/call.jsonl")),
    ("noarg", include_str!("../../fixtures/noarg.jsonl")),
    ("text_call_text", include_str!("../../fixtures/text_call_text.jsonl")),
    ("two_calls", include_str!("../../fixtures/two_calls.jsonl")),
    ("ns_call", include_str!("../../fixtures/ns_call.jsonl")),
    ("custom", include_str!("../../fixtures/custom.jsonl")),
    ("refusal", include_str!("../../fixtures/refusal.jsonl")),
    ("incomplete", include_str!("../../fixtures/incomplete.jsonl")),
    ("failed", include_str!("../../fixtures/failed.jsonl")),
    ("keepalive", include_str!("../../fixtures/keepalive.jsonl")),
];

pub(super) fn plan_of(name: &str) -> ResponsePlan {
    let reasoning = match name {
        "reason_content" => ReasoningOutput::Content,
        _ => ReasoningOutput::Summary,
    };
    ResponsePlan { reasoning, seals_reasoning: name == "reason_text", ..plan() }
}

#[test]
fn recorded_chat_streams_become_the_golden_streams() {
    assert_eq!(GOLDEN.as_object().unwrap().len(), FIXTURES.len());
    for (name, fixture) in FIXTURES {
        let run = run_stream(plan_of(name), &lines(fixture));
        let mut expected = GOLDEN[name].clone();
        if name == "reason_text" {
            // The golden stream has the seal of another sealer.
            let text = expected.to_string().replace("gwr1:AAAA", "gwr1:think");
            expected = serde_json::from_str(&text).unwrap();
        }
        let got = normalized(Value::Array(run.events));
        let expected = normalized(expected);
        for (got, expected) in got.as_array().unwrap().iter().zip(expected.as_array().unwrap()) {
            assert_eq!(got, expected, "{name}");
        }
        assert_eq!(got.as_array().unwrap().len(), expected.as_array().unwrap().len(), "{name}");
    }
}

#[test]
fn golden_streams_rebuild_to_their_objects() {
    for (name, fixture) in FIXTURES {
        let run = run_stream(plan_of(name), &lines(fixture));
        assert_eq!(rebuild::rebuild_output(&run.events), *run.output(), "{name}");
    }
}

/// §0.1.5, §4.3: a stream that is cut anywhere is not reported as complete.
#[test]
fn a_truncated_golden_stream_never_completes() {
    for (name, fixture) in FIXTURES {
        let bytes = wire(&lines(fixture));
        for at in 0..=bytes.len() {
            let seen = data_of(&bytes[..at]);
            let run = run_stream(plan_of(name), &seen);
            let ended = seen.iter().any(|data| data.contains("_reason\":\""));
            let is_whole =
                ["response.completed", "response.incomplete"].contains(run.kinds().last().unwrap());
            assert_eq!(is_whole, ended, "{name} cut at {at}");
            rebuild::rebuild_output(&run.events);
        }
    }
}
