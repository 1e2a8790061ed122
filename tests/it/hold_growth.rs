//! The hold of a stream grows with its answer: everything that the balance pays for is sent,
//! nothing beyond it, and concurrent requests share the balance.

use bpe_openai::o200k_base;
use proto::v1::{self, RequestStatus};
use serde_json::{Value, json};
use tests::http::Answer;
use tests::{Product, RawUpstream, Session, chunk, json_answer, question, stream_head};
use tokio::task::JoinSet;

/// The prices of `asked`, in nanodollars per token.
const INPUT_PRICE: u64 = 1_000;
const OUTPUT_PRICE: u64 = 2_000;
/// The tokens of `question("asked", "hi")` by the gateway's own count.
const INPUT_TOKENS: u64 = 8;

/// Where the text of an answer is in its deltas.
#[derive(Clone, Copy, Debug)]
enum TextField {
    Content,
    Reasoning,
    Arguments,
}

/// A text that an upstream streams.
#[derive(Clone)]
struct Sample {
    name: &'static str,
    field: TextField,
    text: String,
    /// Whether it is encoded as `\uXXXX`.
    escaped: bool,
}

fn texts() -> Vec<Sample> {
    let text = |name, field, text: &str, escaped| Sample {
        name,
        field,
        text: (0..)
            .map(|number| format!("{number}. {text}"))
            .take(3_000 / text.len().isqrt())
            .collect(),
        escaped,
    };
    let english = "The harbour was quiet before dawn, and nobody saw the small boat leave. ";
    let code = "fn add(a: u64, b: u64) -> u64 {\n    a.checked_add(b).unwrap_or(u64::MAX)\n}\n\n";
    vec![
        text("english", TextField::Content, english, false),
        text("code", TextField::Content, code, false),
        text("chinese", TextField::Content, "天亮之前港口很安静，没有人看见小船离开。", false),
        text("escaped thai", TextField::Content, "ท่าเรือเงียบสงบก่อนรุ่งสาง ", true),
        text("emoji", TextField::Content, "😀👍🏽🎉🚀 ", true),
        text("arguments", TextField::Arguments, r#"{"city": "Rome", "days": [1, 2, 3]}, "#, false),
        text("reasoning", TextField::Reasoning, english, false),
    ]
}

impl Sample {
    fn tokens(&self) -> u64 {
        o200k_base().count(&self.text) as u64
    }

    /// Returns the cost of an answer with this text, including the input, in nanodollars.
    fn cost(&self) -> u64 {
        // the name of a tool call is a token
        INPUT_TOKENS * INPUT_PRICE + (self.tokens() + 1) * OUTPUT_PRICE
    }

    /// Returns the chunks of a stream, each with some events.
    fn stream(&self) -> Vec<String> {
        let characters: Vec<char> = self.text.chars().collect();
        let events = characters.chunks(5).enumerate().map(|(number, characters)| {
            let text: String = characters.iter().collect();
            let json = if self.escaped {
                let units = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
                format!("\"{}\"", units.collect::<String>())
            } else {
                Value::from(text).to_string()
            };
            let delta = match self.field {
                TextField::Content => format!(r#"{{"content":{json}}}"#),
                TextField::Reasoning => format!(r#"{{"reasoning_content":{json}}}"#),
                TextField::Arguments => {
                    let name = if number == 0 { r#""name":"f","# } else { "" };
                    format!(
                        r#"{{"tool_calls":[{{"index":0,"function":{{{name}"arguments":{json}}}}}]}}"#
                    )
                }
            };
            format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
        });
        let events: Vec<String> = events.collect();
        let mut chunks: Vec<String> = events.chunks(20).map(|it| chunk(&it.concat())).collect();
        let end = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
        chunks.push(chunk(&format!("data: {end}\n\ndata: [DONE]\n\n")) + &chunk(""));
        chunks
    }

    /// Returns the part of the text in the response to a chat request.
    fn received(&self, answer: &Answer) -> String {
        let pieces = answer.events().into_iter().filter_map(|event| {
            let data: Value = serde_json::from_str(event.strip_prefix("data: ")?).ok()?;
            let delta = &data["choices"][0]["delta"];
            let value = match self.field {
                TextField::Content => &delta["content"],
                TextField::Reasoning => &delta["reasoning_content"],
                TextField::Arguments => &delta["tool_calls"][0]["function"]["arguments"],
            };
            value.as_str().map(str::to_owned)
        });
        pieces.collect()
    }
}

fn dollars(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn nanos(dollars: &str) -> u64 {
    let (whole, part) = dollars.split_once('.').unwrap_or((dollars, ""));
    format!("{whole}{part:0<9}").parse().unwrap()
}

async fn product() -> (Product, RawUpstream) {
    let (product, upstream) = (Product::start().await, RawUpstream::start().await);
    product.operator().await.add_model_on("asked", &[&upstream.url]).await;
    (product, upstream)
}

/// Registers an account with this balance. Returns its session and its key.
async fn customer(product: &Product, name: &str, balance: u64) -> (Session, String) {
    let operator = product.operator().await;
    let session = product.member(name).await;
    operator.credit(name, "-5").await;
    operator.credit(name, &dollars(balance)).await;
    let key = session.key().await.secret;
    (session, key)
}

fn streamed() -> Value {
    let mut body = question("asked", "hi");
    body["stream"] = json!(true);
    body
}

/// Sends a request that is answered with a stream of `text`.
async fn send_request(
    product: &Product,
    upstream: &RawUpstream,
    key: &str,
    text: &Sample,
) -> Answer {
    let serve = async {
        let mut call = upstream.call().await;
        call.send(stream_head()).await;
        for chunk in text.stream() {
            if !call.try_send(chunk).await {
                return;
            }
        }
        call.finish().await;
    };
    let (answer, ()) = tokio::join!(product.chat(key, &streamed()).answer(), serve);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

/// Sends `count` requests at once.
async fn send_concurrently(product: &Product, key: &str, body: &Value, count: u64) -> Vec<Answer> {
    let mut asking = JoinSet::new();
    for _ in 0..count {
        asking.spawn(product.chat(key, body).answer());
    }
    asking.join_all().await
}

#[tokio::test]
async fn a_balance_five_percent_above_the_cost_pays_for_any_answer() {
    let (product, upstream) = product().await;
    for (number, text) in texts().iter().enumerate() {
        let balance = text.cost() * 21 / 20;
        let (session, key) = customer(&product, &format!("payer{number}"), balance).await;
        let answer = send_request(&product, &upstream, &key, text).await;
        let received = o200k_base().count(&text.received(&answer)) as u64;
        let record = session.record().await;
        let name = text.name;
        assert_eq!(received, text.tokens(), "{name}: {record:?}");
        assert_eq!(record.status(), RequestStatus::Completed, "{name}: {record:?}");
        let charged = nanos(record.cost_usd.as_deref().unwrap());
        assert!(charged.abs_diff(text.cost()) <= text.cost() / 100, "{name}: {charged} {record:?}");
        assert_eq!(nanos(&session.account().await.balance_usd), balance - charged, "{name}");
    }
}

#[tokio::test]
async fn an_answer_is_cut_where_the_balance_ends() {
    let (product, upstream) = product().await;
    for (number, text) in texts().iter().enumerate() {
        // the upstream ignores the cap that it receives
        let balance = text.cost() / 4;
        let (session, key) = customer(&product, &format!("payer{number}"), balance).await;
        let answer = send_request(&product, &upstream, &key, text).await;
        assert!(answer.text().contains(r#""finish_reason":"length""#), "{}", text.name);
        let record = session.record().await;
        assert_eq!(record.status(), RequestStatus::Incomplete, "{}: {record:?}", text.name);
        let received = o200k_base().count(&text.received(&answer)) as u64;
        let payable = (balance - INPUT_TOKENS * INPUT_PRICE) / OUTPUT_PRICE;
        // a tokenizer may find twice as many tokens as the upstream's, which determines the cap
        assert!(received <= 2 * payable + 64, "{}: {received} of {payable}", text.name);
        assert!(received >= payable * 97 / 100, "{}: {received} of {payable}", text.name);
        assert!(nanos(record.cost_usd.as_deref().unwrap()) <= balance);
    }
}

#[tokio::test]
async fn fifty_concurrent_streams_share_a_balance_that_pays_for_all() {
    const STREAMS: u64 = 50;
    let (product, upstream) = product().await;
    let text = Sample { text: texts()[0].text.chars().take(3_000).collect(), ..texts()[0].clone() };
    let balance = STREAMS * text.cost() * 13 / 10;
    let (session, key) = customer(&product, "sharer", balance).await;
    let body = streamed();
    let clients = send_concurrently(&product, &key, &body, STREAMS);
    let serve = async {
        let mut calls = Vec::new();
        for _ in 0..STREAMS {
            let mut call = upstream.call().await;
            call.send(stream_head()).await;
            calls.push(call);
        }
        // one piece of each stream in turn
        for piece in text.stream() {
            for call in &mut calls {
                call.try_send(&piece).await;
            }
        }
        for mut call in calls {
            call.finish().await;
        }
    };
    let (answers, ()) = tokio::join!(clients, serve);
    for answer in &answers {
        assert_eq!(text.received(answer), text.text);
    }
    let records = session.records(50).await;
    assert!(records.iter().all(|it| it.status() == RequestStatus::Completed), "{records:?}");
    let charged: u64 = records.iter().map(|it| nanos(it.cost_usd.as_deref().unwrap())).sum();
    assert_eq!(nanos(&session.account().await.balance_usd), balance - charged);
}

#[tokio::test]
async fn a_monthly_quota_that_covers_an_answer_lets_it_complete() {
    let (product, upstream) = product().await;
    for (number, text) in texts().iter().enumerate() {
        let alice = product.member(&format!("payer{number}")).await;
        let quota = (text.tokens() + INPUT_TOKENS) * 21 / 20;
        let limits = v1::Limits { monthly_tokens: Some(quota), ..Default::default() };
        let key = alice.key_with(|key| key.limits = Some(limits)).await.secret;
        let answer = send_request(&product, &upstream, &key, text).await;
        let record = alice.record().await;
        assert_eq!(text.received(&answer), text.text, "{}: {record:?}", text.name);
        assert_eq!(record.status(), RequestStatus::Completed, "{}: {record:?}", text.name);
    }
}

#[tokio::test]
async fn concurrent_plain_answers_cost_no_more_than_their_holds() {
    const REQUESTS: usize = 20;
    let (product, upstream) = product().await;
    let balance = 60_000_000;
    let (session, key) = customer(&product, "sharer", balance).await;
    let mut body = question("asked", "hi");
    body["max_tokens"] = json!(25_000_000);
    let clients = send_concurrently(&product, &key, &body, REQUESTS as u64);
    let serve = async {
        let mut answering = JoinSet::new();
        loop {
            let mut call = upstream.call().await;
            let answer = async move {
                // the longest permitted answer
                let cap = call.json()["max_tokens"].as_u64().unwrap();
                let usage = json!({ "prompt_tokens": INPUT_TOKENS, "completion_tokens": cap });
                let choices =
                    json!([{ "message": { "content": "hi" }, "finish_reason": "length" }]);
                let answer = json!({ "choices": choices, "usage": usage }).to_string();
                call.send(json_answer(200, &answer)).await;
                call.finish().await;
            };
            answering.spawn(answer);
        }
    };
    let answers = tokio::select! {
        answers = clients => answers,
        () = serve => unreachable!("the upstream serves forever"),
    };
    let served = answers.iter().filter(|answer| answer.status == 200).count();
    assert!(served > 2, "{served} were served");
    for record in session.records(REQUESTS).await {
        let Some(tokens) = record.tokens else { continue };
        let used = INPUT_PRICE * tokens.input.unwrap() + OUTPUT_PRICE * tokens.output.unwrap();
        assert_eq!(
            nanos(record.cost_usd.as_deref().unwrap()),
            used,
            "the usage is fully charged: {record:?}"
        );
    }
}

#[tokio::test]
async fn a_request_is_tokenized_when_an_estimate_by_length_exceeds_the_balance() {
    let (product, upstream) = product().await;
    // 800 words; an estimate by length would be 2,000 tokens
    let (session, key) = customer(&product, "counted", 1_100_000).await;
    let usage = json!({ "prompt_tokens": 807, "completion_tokens": 1 });
    let choices = json!([{ "message": { "content": "hi" }, "finish_reason": "stop" }]);
    let answer = json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string());
    let request = product.chat(&key, &question("asked", &"word ".repeat(800)));
    let (answer, sent) = tokio::join!(request.answer(), upstream.answer(answer));
    assert_eq!(answer.status, 200, "{answer:?}");
    let cap = sent.json()["max_tokens"].as_u64().unwrap();
    assert!((80..147).contains(&cap), "the rest of the balance pays for {cap} tokens");
    assert_eq!(session.record().await.cost_usd.as_deref(), Some("0.000809"));
}

#[tokio::test]
async fn a_request_waits_for_the_hold_of_another_to_be_released() {
    let (product, upstream) = product().await;
    let (_, key) = customer(&product, "waiter", 10_000_000).await;
    let mut body = question("asked", "hi");
    // the whole balance
    body["max_tokens"] = json!(4_900);
    let usage = json!({ "prompt_tokens": INPUT_TOKENS, "completion_tokens": 1 });
    let choices = json!([{ "message": { "content": "hi" }, "finish_reason": "stop" }]);
    let answer = json_answer(200, &json!({ "choices": choices, "usage": usage }).to_string());
    let serve = async {
        let mut first = upstream.call().await;
        let second = product.chat(&key, &body).answer();
        let give_back = async {
            first.send(&answer).await;
            first.finish().await;
            upstream.answer(&answer).await;
        };
        tokio::join!(second, give_back).0.status
    };
    let (first, second) = tokio::join!(product.chat(&key, &body).answer(), serve);
    assert_eq!((first.status, second), (200, 200));
}

#[tokio::test]
async fn a_choice_out_of_range_is_an_upstream_error() {
    let (product, upstream) = product().await;
    let (session, key) = customer(&product, "alice", 1_000_000_000).await;
    let events = [0, 128].map(|index| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"a\"}}}}]}}\n\n")
    });
    let stream = format!("{}{}{}", stream_head(), chunk(&events[0]), chunk(&events[1]));
    let (answer, _) =
        tokio::join!(product.chat(&key, &streamed()).answer(), upstream.answer(stream));
    assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
    assert!(answer.text().contains("error"), "{}", answer.text());
    assert_eq!(session.record().await.status(), RequestStatus::Failed);
}

#[tokio::test]
async fn several_choices_of_one_long_word_each_are_cut_where_the_balance_ends() {
    let (product, upstream) = product().await;
    // The balance pays for 100 output tokens; the words of all five choices have more.
    let (session, key) = customer(&product, "alice", INPUT_TOKENS * INPUT_PRICE + 300_000).await;
    let mut body = streamed();
    body["n"] = json!(5);
    let word: String = (0..600_u32).map(|n| char::from(b'a' + (n * n % 26) as u8)).collect();
    let serve = async {
        let mut call = upstream.begin_stream().await;
        for index in 0..5 {
            let delta = json!({ "index": index, "delta": { "content": word } });
            let event = chunk(&format!("data: {}\n\n", json!({ "choices": [delta] })));
            if !call.try_send(event).await {
                return;
            }
        }
        call.closed().await;
    };
    let (answer, ()) = tokio::join!(product.chat(&key, &body).answer(), serve);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(session.record().await.status(), RequestStatus::Incomplete);
}

/// Regression test: the client got the last event, whatever it cost, if it lacked its blank line.
#[tokio::test]
async fn a_last_event_without_its_blank_line_is_not_sent_if_it_costs_more_than_the_balance() {
    let (product, upstream) = product().await;
    let (session, key) = customer(&product, "payer", INPUT_TOKENS * INPUT_PRICE + 300_000).await;
    let text = texts()[0].text.clone();
    let last = json!({ "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": "stop" }] });
    let sent = format!("{}{}{}", stream_head(), chunk(&format!("data: {last}")), chunk(""));
    let request = product.chat(&key, &streamed());
    let (answer, _) = tokio::join!(request.answer(), upstream.answer(sent));
    assert!(answer.text().contains(r#""finish_reason":"length""#), "{answer:?}");
    assert!(!answer.text().contains("harbour"), "{answer:?}");
    assert_eq!(session.record().await.status(), RequestStatus::Incomplete);
}
