//! Translates a Responses request to chat, and a recorded chat stream to Responses events.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;

use bytes::BytesMut;
use domain::upstream::Profile;
use domain::usage::Usage;
use domain::wire::usage::UsageReport;
use translate::answer::{CompletionInfo, Envelope, ResponseStream, StreamFailure};
use translate::dialect::Dialect;
use translate::plan::{ReasoningOutput, ReasoningSealer};
use translate::request::{HostedTools, InputModalities, Request, StoredHistory, TranslateOptions};

/// The body of `POST /v1/responses`, as a client sends it.
const REQUEST: &str = r#"{
    "model": "local", "stream": true, "instructions": "Be brief.", "input": "Weather in Bern?",
    "tools": [{"type": "function", "name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
}"#;

/// The `data` of each server-sent event of the chat server.
const CHAT_STREAM: [&str; 5] = [
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Let me look."}}]}"#,
    r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",
        "function":{"name":"weather","arguments":"{\"city\":\"Bern\"}"}}]}}]}"#,
    r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":58,"completion_tokens":21,"total_tokens":79}}"#,
    "[DONE]",
];

/// For clients that do not request encrypted reasoning; a real sealer must encrypt and authenticate.
struct NoSealer;

impl ReasoningSealer for NoSealer {
    fn seal(&self, _text: &str) -> String {
        String::new()
    }

    fn open(&self, _sealed: &str) -> Option<String> {
        None
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut client = io::stdout();

    // the request: an error here is the body of a 400
    let options = TranslateOptions {
        dialect: Dialect::of(Profile::LlamaCpp),
        inputs: InputModalities { images: false, files: false, audio: false },
        verbosity: false,
        strict: false,
        hosted_tools: HostedTools::Refuse,
        reasoning: ReasoningOutput::Summary,
        sealer: &NoSealer,
        history: StoredHistory::Disabled,
    };
    let translated = Request::parse(REQUEST.as_bytes())?.translate(&options)?;
    let chat_request = translated.chat_body("qwen3-8b", None);
    writeln!(client, "POST /v1/chat/completions\n{}\n", std::str::from_utf8(&chat_request)?)?;
    if let Some(losses) = translated.plan.report.header() {
        writeln!(client, "{}: {losses}", translate::report::HEADER)?;
    }

    // the answer: id, time and seed come from the caller
    let envelope = Envelope {
        id: "resp_7a1c5e0d9b3f4826".to_owned(),
        created_at: 1_790_000_000,
        seed: 0x5eed,
        done_marker: true,
        sealer: Arc::new(NoSealer),
    };
    let mut stream = ResponseStream::new(&envelope, translated.plan.clone());
    let mut out = BytesMut::new();
    let mut reported = UsageReport::default();
    let mut result = Ok(());
    for data in CHAT_STREAM {
        result = stream.push(data, &mut out, |chunk| {
            reported = chunk.usage.and_then(UsageReport::parse).unwrap_or(reported);
        });
        client.write_all(&out.split())?; // ready to be sent to the client
        if result.is_err() {
            break;
        }
    }
    match result.and_then(|()| stream.close()) {
        Ok(()) => {
            let usage = reported.or_counted(&Usage::default());
            stream.end(CompletionInfo { completed_at: 1_790_000_002, usage }, &mut out);
        }
        Err(violation) => {
            let message = violation.to_string();
            let failure =
                StreamFailure { code: "server_error", kind: "server_error", message: &message };
            stream.fail(&failure, reported.complete(), &mut out);
        }
    }
    client.write_all(&out)?;
    Ok(())
}
