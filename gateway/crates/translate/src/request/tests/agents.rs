//! Requests of coding agents.

use super::*;
use crate::plan::ResponsePlan;

fn fixture(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A request from the middle of a Codex session.
pub(super) fn codex() -> Value {
    fixture(include_str!("fixtures/codex.json"))
}

/// Returns the plan in a deterministic order.
fn plan_json(plan: &ResponsePlan) -> Value {
    let mut tools: Vec<String> = plan
        .tools
        .wire_names()
        .map(|wire_name| {
            let tool = plan.tools.find(wire_name).unwrap();
            format!("{wire_name}: {:?} {:?} {}", tool.kind, tool.namespace, tool.name)
        })
        .collect();
    tools.sort();
    let echo: Value = serde_json::from_str(&format!("{{{}}}", plan.echo)).unwrap();
    json!({
        "model": plan.model, "echo": echo, "tools": tools, "allowed": plan.allowed,
        "reasoning": format!("{:?}", plan.reasoning), "seals_reasoning": plan.seals_reasoning,
        "logprobs": plan.logprobs, "report": plan.report.header(),
    })
}

/// Compares the chat request and the plan with their snapshots.
fn check(name: &str, body: &Value, options: &TranslateOptions<'_>) {
    let translated = translate(body, options).unwrap();
    let sent: Value = serde_json::from_slice(&translated.chat_body("up", None)).unwrap();
    insta::assert_json_snapshot!(format!("{name}_chat"), sent);
    insta::assert_json_snapshot!(format!("{name}_plan"), plan_json(&translated.plan));
}

#[test]
fn codex_requests_are_translated() {
    check("codex", &codex(), &generic());
}

#[test]
fn codex_requests_are_translated_for_openai() {
    check("codex_openai", &codex(), &options(Profile::OpenAi));
}

#[test]
fn codex_requests_with_tools_in_the_input_are_translated() {
    let body = fixture(include_str!("fixtures/codex_lite.json"));
    check("codex_lite", &body, &options(Profile::Vllm));
}

#[test]
fn opencode_requests_are_translated() {
    let body = fixture(include_str!("fixtures/opencode.json"));
    check("opencode", &body, &options(Profile::LlamaCpp));
}

#[test]
fn ai_sdk_requests_are_translated() {
    let stored = StoredItems::new(
        &[],
        &[
            json!({"id": "rs_kept", "type": "reasoning", "status": "completed",
                "summary": [{"type": "summary_text", "text": "I ask."}]}),
            json!({"id": "fc_kept", "type": "function_call", "status": "completed",
                "call_id": "call_1", "name": "weather", "arguments": "{\"city\":\"Bern\"}"}),
        ],
    );
    let body = fixture(include_str!("fixtures/ai_sdk.json"));
    check("ai_sdk", &body, &stored.options());
}
