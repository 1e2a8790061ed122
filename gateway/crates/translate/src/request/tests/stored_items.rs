//! Input items as stored.

use super::*;

/// Checks the stored items; generated ids are compared by prefix.
fn check(input: &Value, references: &[Value], expected: &Value) {
    let body = json!({"model": "m", "input": input}).to_string();
    let stored = StoredItems::new(&[], references);
    let request = Request::parse(body.as_bytes()).unwrap();
    let mut items: Vec<Value> = Vec::new();
    for item in request.input_items(7, &stored.references) {
        assert!(!item.json.get().contains('\n'));
        let mut json: Value = serde_json::from_str(item.json.get()).unwrap();
        assert_eq!(json["id"], item.id);
        if let Some((prefix, hex)) = item.id.split_once('_')
            && hex.len() == 32
        {
            assert!(hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{}", item.id);
            json["id"] = json!(prefix);
        }
        items.push(json);
    }
    assert_eq!(json!(items), *expected, "for {input}");
}

#[test]
fn input_items_are_normalized() {
    let text = |text: &str| json!({"type": "input_text", "text": text});
    check(
        &json!("hi"),
        &[],
        &json!([{"id": "msg", "type": "message", "status": "completed", "role": "user", "content": [text("hi")]}]),
    );
    let image = json!({"type": "input_image", "image_url": "data:x"});
    check(
        &json!([
            {"role": "user", "content": "hi"},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, image]},
            {"type": "message", "id": "msg_own", "status": "in_progress", "role": "assistant", "content": "ok"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": {"a": 1}},
            {"type": "function_call_output", "call_id": "c", "output": null},
            {"type": "custom_tool_call", "call_id": "d", "name": "c", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "d", "output": [image]},
            {"type": "reasoning", "summary": []},
            {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]},
        ]),
        &[],
        &json!([
            {"id": "msg", "type": "message", "status": "completed", "role": "user", "content": [text("hi")]},
            {"id": "msg", "type": "message", "status": "completed", "role": "user", "content": [text("hi"), image]},
            {"id": "msg_own", "type": "message", "status": "in_progress", "role": "assistant",
                "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}]},
            {"id": "msg", "type": "message", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "ok", "annotations": [], "logprobs": []}]},
            {"id": "fc", "type": "function_call", "status": "completed", "call_id": "c", "name": "f",
                "namespace": "n", "arguments": "{\"a\":1}"},
            {"id": "fco", "type": "function_call_output", "status": "completed", "call_id": "c", "output": ""},
            {"id": "ctc", "type": "custom_tool_call", "status": "completed", "call_id": "d", "name": "c", "input": "x"},
            {"id": "ctco", "type": "custom_tool_call_output", "status": "completed", "call_id": "d", "output": [image]},
            {"id": "rs", "type": "reasoning", "status": "completed", "summary": []},
            {"id": "at", "type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]},
        ]),
    );
}

#[test]
fn references_are_stored_as_the_referenced_items() {
    let stored = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": []});
    let input = json!([{"type": "item_reference", "id": "msg_1"}, {"id": "gone"}]);
    check(&input, std::slice::from_ref(&stored), &json!([stored]));
}

#[test]
fn normalized_items_translate_like_the_originals() {
    let body = json!({"model": "m", "input": [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "c", "name": "f"},
        {"type": "function_call_output", "call_id": "c", "output": null},
    ]});
    let text = body.to_string();
    let request = Request::parse(text.as_bytes()).unwrap();
    let items = request.input_items(1, &HashMap::new());
    let again: Vec<Value> =
        items.iter().map(|item| serde_json::from_str(item.json.get()).unwrap()).collect();
    let again = json!({"input": again});
    assert_eq!(chat(&again, &generic()), chat(&json!({"input": body["input"]}), &generic()));
}

#[test]
fn a_duplicate_id_is_replaced() {
    let message = json!({"id": "same", "type": "message", "status": "completed", "role": "user", "content": []});
    let mut other = message.clone();
    other["id"] = json!("msg");
    check(&json!([message, message]), &[], &json!([message, other]));
}

#[test]
fn generated_ids_differ_by_item_and_seed() {
    let body = json!({"model": "m", "input": vec![json!({"role": "user", "content": "x"}); 50]});
    let text = body.to_string();
    let request = Request::parse(text.as_bytes()).unwrap();
    let ids: std::collections::HashSet<String> = [1, 2, 51]
        .into_iter()
        .flat_map(|seed| request.input_items(seed, &HashMap::new()))
        .map(|item| item.id)
        .collect();
    assert_eq!(ids.len(), 150);
}
