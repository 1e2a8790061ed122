//! Fuzzes the translation of chat streams: every input becomes Responses events that are valid JSON, numbered
//! consecutively, with exactly one terminal event.
#![no_main]

use std::sync::Arc;

use bytes::BytesMut;
use domain::usage::Usage;
use translate::answer::{CompletionInfo, Envelope, StreamFailure, ResponseStream};
use translate::plan::{ResponsePlan, ReasoningSealer};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

struct Sealer;

impl ReasoningSealer for Sealer {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, _: &str) -> Option<String> {
        None
    }
}

fuzz_target!(|lines: &str| {
    let envelope = Envelope {
        id: "resp_1".to_owned(),
        created_at: 1,
        seed: 2,
        done_marker: true,
        sealer: Arc::new(Sealer),
    };
    let plan = ResponsePlan { echo: "\"tools\":[]".to_owned(), seals_reasoning: true, ..ResponsePlan::default() };
    let mut stream = ResponseStream::new(&envelope, Arc::new(plan));
    let mut out = BytesMut::new();
    let pushed = lines.lines().try_for_each(|line| stream.push(line, &mut out, |_| {}));
    if pushed.and_then(|()| stream.close()).is_ok() {
        stream.end(CompletionInfo { completed_at: 3, usage: Usage::default().into() }, &mut out);
    } else {
        let failure = StreamFailure { code: "server_error", kind: "server_error", message: "broke" };
        stream.fail(&failure, None, &mut out);
    }

    let text = std::str::from_utf8(&out).expect("events are text");
    let body = text.strip_suffix("data: [DONE]\n\n").expect("the stream ends in [DONE]");
    let mut ends = 0;
    for (number, event) in body.split_terminator("\n\n").enumerate() {
        let (_, data) = event.split_once("\ndata: ").expect("an event has data");
        let data: Value = serde_json::from_str(data).expect("it is JSON");
        assert_eq!(data["sequence_number"], number);
        let kind = data["type"].as_str().expect("it has a type");
        let is_end = ["response.completed", "response.incomplete", "response.failed"].contains(&kind);
        ends += usize::from(is_end);
    }
    assert_eq!(ends, 1);
});
