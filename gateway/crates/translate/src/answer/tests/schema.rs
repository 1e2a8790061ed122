//! Validates streams and objects against the published schemas.

use std::collections::HashMap;
use std::sync::LazyLock;

use jsonschema::Validator;

use super::*;
use crate::plan::ReasoningOutput;

/// The schemas of events by type, and of the response object under "".
struct Schemas(HashMap<String, Validator>);

static OPEN_RESPONSES: LazyLock<Schemas> = LazyLock::new(|| {
    let json =
        include_str!("../../../../../../tests/fixtures/spec/openresponses/openapi-2026-04-24.json");
    Schemas::load(json, "ResponseResource")
});

static OPENAI: LazyLock<Schemas> = LazyLock::new(|| {
    let json = include_str!("../../../../../../tests/fixtures/spec/openai/openapi-subset.json");
    Schemas::load(json, "Response")
});

impl Schemas {
    fn load(json: &str, response: &str) -> Self {
        let document: Value = serde_json::from_str(json).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let validator = |name: &str| {
            let schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$ref": format!("#/components/schemas/{name}"),
                "components": {"schemas": schemas},
            });
            jsonschema::validator_for(&schema).unwrap()
        };
        let ours = |kind: &str| {
            kind == "error"
                || ["created", "in_progress", "completed", "incomplete", "failed"]
                    .iter()
                    .any(|it| kind == format!("response.{it}"))
                || ["output_", "content_", "refusal.", "reasoning_", "function_", "custom_"]
                    .iter()
                    .any(|it| kind.starts_with(&format!("response.{it}")))
        };
        let mut all = HashMap::from([(String::new(), validator(response))]);
        for (name, schema) in schemas {
            let fields = &schema["properties"];
            if let Some(kind) = fields["type"]["enum"][0].as_str()
                && fields.get("sequence_number").is_some()
                && ours(kind)
            {
                all.insert(kind.to_owned(), validator(name));
            }
        }
        assert!(all.len() > 15, "{} events", all.len());
        Self(all)
    }

    /// Returns the errors of an event or, for "", of an object; `None` if the schema has no such
    /// event.
    fn faults(&self, kind: &str, value: &Value) -> Option<Vec<String>> {
        let validator = self.0.get(kind)?;
        Some(
            validator
                .iter_errors(value)
                .map(|fault| format!("{}: {fault}", fault.instance_path()))
                .collect(),
        )
    }
}

/// Validates events against both schemas, except for known differences: custom calls, tool searches
/// and `reasoning_text` exist only in OpenAI's, and a null `usage` is valid only in Open Responses.
fn check(events: &[Value]) {
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let of_openai = event.to_string();
        let only_openai = ["custom_tool_call", "tool_search_call", "reasoning_text", "keepalive"]
            .iter()
            .any(|it| of_openai.contains(it));
        if !only_openai {
            // Open Responses nests the members of an error, and allows additional ones.
            let faults = OPEN_RESPONSES.faults(kind, event);
            assert_eq!(faults, Some(Vec::new()), "{event:#}");
        }
        if kind != "keepalive" {
            let mut event = event.clone();
            if event["response"]["usage"].is_null()
                && let Some(response) = event["response"].as_object_mut()
            {
                response.remove("usage");
            }
            assert_eq!(OPENAI.faults(kind, &event), Some(Vec::new()), "{event:#}");
        }
    }
}

#[test]
fn golden_streams_match_both_schemas() {
    for (name, fixture) in golden::FIXTURES {
        check(&run_stream(golden::plan_of(name), &lines(fixture)).events);
    }
}

#[test]
fn all_other_events_match_both_schemas() {
    let rich = [
        delta(json!({"reasoning_content": "why"})),
        delta(json!({"content": "see", "annotations": [
            {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}},
        ]})),
        json!({"service_tier": "priority", "choices": [{"index": 0, "delta": {"content": " a"}, "logprobs":
            {"content": [{"token": " a", "logprob": -0.5, "top_logprobs": [{"token": "b", "logprob": -1}]}]}}]})
        .to_string(),
        delta(json!({"refusal": "no"})),
        call(json!({"index": 0, "id": "call_s", "function": {"name": "tool_search", "arguments": "{\"query\":\"a\"}"}})),
        call(json!({"index": 1, "id": "call_f", "function": {"name": "f", "arguments": "{\"a"}})),
        finish("length"),
    ];
    for reasoning in [ReasoningOutput::Summary, ReasoningOutput::Content, ReasoningOutput::Hidden] {
        let plan = ResponsePlan { reasoning, seals_reasoning: true, logprobs: true, ..plan() };
        check(&run_ok(plan, &rich).events);
    }
}

#[test]
fn objects_match_both_schemas() {
    let body = message(
        json!({
            "content": "a", "reasoning": "b", "refusal": "c",
            "tool_calls": [{"id": "call_f", "function": {"name": "f", "arguments": "{}"}}],
        }),
        "tool_calls",
    );
    let object = answer(plan(), &body);
    assert_eq!(OPEN_RESPONSES.faults("", &object), Some(Vec::new()));
    assert_eq!(OPENAI.faults("", &object), Some(Vec::new()));
}
