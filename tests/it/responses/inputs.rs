//! Content parts that the model supports are forwarded; others are refused by name.

use proto::v1::{self, Input};
use serde_json::{Value, json};
use tests::{Session, json_answer};

use super::{post, with_upstream};

/// Sets the inputs that the model `asked` supports.
async fn set_inputs(operator: &Session, inputs: &[Input]) {
    let inputs = v1::InputList { inputs: inputs.iter().map(|it| (*it).into()).collect() };
    let change = v1::UpdateModelRequest {
        id: "asked".to_owned(),
        inputs: Some(inputs.clone()),
        ..v1::UpdateModelRequest::default()
    };
    let model = operator.models().update_model(change).await.unwrap().into_inner().model.unwrap();
    assert_eq!(model.inputs, inputs.inputs);
}

/// Returns the kinds of content parts, with their names and formats in Responses and in chat.
fn parts() -> [(Input, &'static str, Value, Value); 3] {
    [
        (
            Input::Image,
            "images",
            json!({ "type": "input_image", "image_url": "https://example.com/a.png" }),
            json!({ "type": "image_url", "image_url": { "url": "https://example.com/a.png" } }),
        ),
        (
            Input::File,
            "files",
            json!({ "type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf" }),
            json!({ "type": "file", "file": { "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf" } }),
        ),
        (
            Input::Audio,
            "audio",
            json!({ "type": "input_audio", "input_audio": { "data": "AA", "format": "mp3" } }),
            json!({ "type": "input_audio", "input_audio": { "data": "AA", "format": "mp3" } }),
        ),
    ]
}

/// Returns the same request for both endpoints.
fn requests(
    product: &tests::Product,
    key: &str,
    part: &Value,
    chat_part: &Value,
) -> [tests::http::Request; 2] {
    let text = json!({ "type": "input_text", "text": "see" });
    let responses =
        json!({ "model": "asked", "input": [{ "role": "user", "content": [text, part] }] });
    let text = json!({ "type": "text", "text": "see" });
    let chat =
        json!({ "model": "asked", "messages": [{ "role": "user", "content": [text, chat_part] }] });
    [post(product, key, &responses), product.chat(key, &chat)]
}

#[tokio::test]
async fn supported_content_parts_reach_a_generic_upstream() {
    let (product, upstream, _alice, key) = with_upstream().await;
    let operator = product.operator().await;
    let whole = json!({ "choices": [{ "message": { "content": "hi" }, "finish_reason": "stop" }] });
    for inputs in [&[][..], &[Input::Text, Input::Image, Input::File, Input::Audio]] {
        set_inputs(&operator, inputs).await;
        for (_, _, part, chat_part) in parts() {
            for request in requests(&product, &key, &part, &chat_part) {
                let (answer, call) = tokio::join!(
                    request.answer(),
                    upstream.answer(json_answer(200, &whole.to_string()))
                );
                assert_eq!(answer.status, 200, "{answer:?}");
                assert_eq!(call.json()["messages"][0]["content"][1], chat_part);
            }
        }
    }
}

#[tokio::test]
async fn unsupported_content_parts_are_refused_by_name_before_the_upstream_is_called() {
    let (product, _upstream, _alice, key) = with_upstream().await;
    let operator = product.operator().await;
    for (missing, plural, part, chat_part) in parts() {
        let all = [Input::Text, Input::Image, Input::File, Input::Audio];
        let inputs: Vec<_> = all.into_iter().filter(|it| *it != missing).collect();
        set_inputs(&operator, &inputs).await;
        let params = ["input[0].content[1].type", "messages[0].content[1].type"];
        for (request, param) in requests(&product, &key, &part, &chat_part).into_iter().zip(params)
        {
            let answer = request.answer().await;
            let error = answer.error();
            assert_eq!((answer.status, &error["param"]), (400, &json!(param)), "{answer:?}");
            assert_eq!(error["code"], "unsupported_content_part");
            let message = error["message"].as_str().unwrap();
            assert!(
                message.contains(plural) || message.contains("does not accept images"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn a_missing_output_is_named() {
    let (product, _upstream, _alice, key) = with_upstream().await;
    for (call, output) in [
        (
            json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" }),
            "function_call_output",
        ),
        (
            json!({ "type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x" }),
            "custom_tool_call_output",
        ),
    ] {
        let input =
            json!([{ "role": "user", "content": "hi" }, call, { "type": output, "call_id": "c" }]);
        let answer =
            post(&product, &key, &json!({ "model": "asked", "input": input })).answer().await;
        let error = answer.error();
        assert_eq!(
            (answer.status, &error["param"]),
            (400, &json!("input[2].output")),
            "{answer:?}"
        );
        assert_eq!(error["code"], "missing_required_parameter");
    }
}
