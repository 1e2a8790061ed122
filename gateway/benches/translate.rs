//! Measures the relaying of a burst of text chunks, as Responses events and as chat completion chunks.
//! `cargo bench -p gateway --bench translate`.

use std::sync::Arc;

use bytes::BytesMut;
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use domain::wire::sse::{self, Splitter};
use gateway::pipeline::meter::Meter;
use gateway::pipeline::passthrough::ChatPassthrough;
use translate::answer::{Envelope, ResponseStream};
use translate::plan::{ReasoningSealer, ResponsePlan};

const EVENTS: usize = 100;

fn main() {
    divan::main();
}

/// A sealer that does nothing, because the chunks have no reasoning.
struct NoSealer;

impl ReasoningSealer for NoSealer {
    fn seal(&self, _: &str) -> String {
        String::new()
    }

    fn open(&self, _: &str) -> Option<String> {
        None
    }
}

/// Returns a stream of [`EVENTS`] events with one word each.
fn burst() -> String {
    let event = "data: {\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"upstream\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
    event.repeat(EVENTS)
}

#[divan::bench]
fn responses(bencher: Bencher<'_, '_>) {
    let burst = burst();
    let plan = Arc::new(ResponsePlan { model: "asked".to_owned(), ..ResponsePlan::default() });
    let envelope = Envelope {
        id: "resp_0123456789abcdef0123456789abcdef".to_owned(),
        created_at: 1_790_000_000,
        seed: 7,
        done_marker: true,
        sealer: Arc::new(NoSealer),
    };
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut stream = ResponseStream::new(&envelope, plan.clone());
        let (mut splitter, mut out) = (Splitter::default(), BytesMut::new());
        let split = splitter.push(black_box(burst.as_bytes()), |event| {
            let data = sse::data(event).expect("these have data");
            let json = std::str::from_utf8(&data).expect("this is text");
            stream.push(json, &mut out, |_| {}).expect("these are chunks");
        });
        split.expect("these are small");
        out.split()
    });
}

#[divan::bench]
fn passthrough(bencher: Bencher<'_, '_>) {
    let burst = burst();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| {
        let mut relay = ChatPassthrough::new("\"asked\"".to_owned(), false);
        let (mut meter, mut out) = (Meter::default(), BytesMut::new());
        let relayed = relay.push(black_box(burst.as_bytes()), &mut meter, &mut out);
        relayed.expect("these are chunks");
        out.split()
    });
}
