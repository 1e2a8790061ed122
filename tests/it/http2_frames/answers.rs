//! The frames of answers up to 16 KiB: the last data ends the stream, without an empty frame behind it.

use serde_json::{Value, json};
use tests::http2::{
    DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, SETTINGS, WINDOW_UPDATE, block, frame,
    frames,
};
use tests::{Product, question};

use super::{Connection, POST, STREAM, last_data};

/// The setting of a stream's first window (RFC 9113, 6.5.2).
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Returns the lengths of the answer's frames of data, and whether each ends the stream.
async fn data_frames(
    connection: &mut Connection,
    path: &str,
    key: &str,
    body: &Value,
) -> Vec<(usize, bool)> {
    let authorization = format!("Bearer {key}");
    let mut headers = POST.to_vec();
    headers[3].1 = path;
    headers.push(("authorization", &authorization));
    let head = frame(HEADERS, END_HEADERS, STREAM, &block(&headers));
    connection.send(&[head, last_data(STREAM, body.to_string().as_bytes())].concat()).await;
    connection.answer(STREAM).await;
    let answer = frames(&connection.received);
    let data = answer.iter().filter(|frame| frame.kind == DATA && frame.stream == STREAM);
    data.map(|frame| (frame.payload.len(), frame.flags & END_STREAM != 0)).collect()
}

#[tokio::test]
async fn the_last_data_of_an_answer_ends_its_stream() {
    let product = Product::start().await;
    let alice = product.member("alice").await;
    let key = alice.key().await.secret;
    let chat = question("sim-chat", "hi");
    let mut chat_stream = chat.clone();
    chat_stream["stream"] = true.into();
    let response = json!({ "model": "sim-chat", "input": "hi" });
    let response_stream = json!({ "model": "sim-chat", "input": "hi", "stream": true });
    for (path, body) in [
        ("/v1/chat/completions", &chat),
        ("/v1/chat/completions", &chat_stream),
        ("/v1/responses", &response),
        ("/v1/responses", &response_stream),
    ] {
        let mut connection = Connection::open(&product, &key).await;
        let data = data_frames(&mut connection, path, &key, body).await;
        let (last, before) = data.split_last().unwrap();
        assert!(last.0 > 0 && last.1, "{path} {body}: {data:?}");
        assert!(before.iter().all(|(length, ends)| *length > 0 && !ends), "{data:?}");
    }
}

/// The gateway has given all of the answer to its HTTP/2 layer, which waits for the client's window.
#[tokio::test]
async fn an_answer_that_waits_for_window_is_complete_in_a_shutdown() {
    const FIRST_WINDOW: usize = 10;
    let product = Product::start().await;
    let key = product.member("alice").await.key().await.secret;
    let mut connection = Connection::open(&product, &key).await;
    let window = u32::try_from(FIRST_WINDOW).unwrap().to_be_bytes();
    let settings = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window].concat();
    let authorization = format!("Bearer {key}");
    let mut headers = POST.to_vec();
    headers[3].1 = "/v1/chat/completions";
    headers.push(("authorization", &authorization));
    let request = [
        frame(SETTINGS, 0, 0, &settings),
        frame(HEADERS, END_HEADERS, STREAM, &block(&headers)),
        last_data(STREAM, question("sim-chat", "hi").to_string().as_bytes()),
    ];
    connection.send(&request.concat()).await;
    let is_data = |frame: &Frame| frame.kind == DATA && frame.stream == STREAM;
    let first = connection.find(is_data).await.expect("the answer begins");
    assert_eq!((first.payload.len(), first.flags & END_STREAM), (FIRST_WINDOW, 0));

    product.shutdown.cancel();
    connection.find(|frame| frame.kind == GOAWAY).await.expect("the shutdown is announced");
    connection.send(&frame(WINDOW_UPDATE, 0, STREAM, &60_000_u32.to_be_bytes())).await;
    let ends = |frame: &Frame| is_data(frame) && frame.flags & END_STREAM != 0;
    connection.find(ends).await.expect("the answer is complete");
    assert_eq!(connection.find(|_| false).await, None, "the connection ends");
    product.stop().await;
}
