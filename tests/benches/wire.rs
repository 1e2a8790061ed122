//! The cost of a request and of an event in the pipeline, by size: `cargo bench -p tests`.

use bytes::{Buf, Bytes, BytesMut};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use domain::wire::chat::ChatRequest;
use domain::wire::splice::splice;
use gateway::pipeline::meter::Meter;
use gateway::pipeline::passthrough::ChatPassthrough;

/// Sizes of bodies: a short prompt, a conversation, an agent's context.
const SIZES: [usize; 3] = [2_000, 20_000, 200_000];
const EVENTS: usize = 100;

fn main() {
    divan::main();
}

/// Returns a streamed chat request of about `size` bytes, in messages of a kilobyte.
fn body(size: usize) -> Bytes {
    let message = format!(r#"{{"role":"user","content":"{}"}}"#, "a \\\"b\\\" c\\n ".repeat(75));
    let messages = vec![message; (size / 1_000).max(1)].join(",");
    format!(r#"{{"model":"asked","stream":true,"messages":[{messages}]}}"#).into()
}

#[divan::bench(args = SIZES)]
fn peek(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher
        .counter(BytesCount::of_slice(&*body))
        .bench(|| ChatRequest::peek(black_box(&body)).is_ok());
}

#[divan::bench(args = SIZES)]
fn peek_and_splice(bencher: Bencher<'_, '_>, size: usize) {
    let body = body(size);
    bencher.counter(BytesCount::of_slice(&*body)).bench(|| {
        let request = ChatRequest::peek(black_box(&body)).ok()?;
        Some(splice(&body, &request.edits("upstream-model", None, &["max_tokens"])).remaining())
    });
}

/// Returns a stream of [`EVENTS`] events of one word each.
fn stream(model: &str) -> String {
    let event = format!(
        "data: {{\"id\":\"chatcmpl-123\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{model}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word\"}},\"finish_reason\":null}}]}}\n\n"
    );
    event.repeat(EVENTS)
}

/// All events in one read, with and without a change of the model name.
#[divan::bench(args = ["asked", "upstream-model"])]
fn events_in_one_read(bencher: Bencher<'_, '_>, model: &str) {
    let stream = stream(model);
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| relay([stream.as_bytes()]));
}

/// One event per read.
#[divan::bench(args = ["asked", "upstream-model"])]
fn events_in_a_read_each(bencher: Bencher<'_, '_>, model: &str) {
    let stream = stream(model);
    let events: Vec<_> = stream.split_inclusive("\n\n").map(str::as_bytes).collect();
    bencher.counter(ItemsCount::new(EVENTS)).bench_local(|| relay(events.iter().copied()));
}

fn relay<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut relay = ChatPassthrough::new("\"asked\"".to_owned(), false);
    let (mut meter, mut out) = (Meter::default(), BytesMut::new());
    let mut given = 0;
    for read in reads {
        let relayed = relay.push(black_box(read), &mut meter, &mut out);
        relayed.expect("these are chunks");
        given += out.split().len();
    }
    given
}
