//! Writes the first inputs of the targets into a directory, a folder for each: `seeds DIR`. They are made of the
//! fixtures of the tests and of messages of each kind.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
// Has what instrumented code calls.
use libfuzzer_sys as _;
use prost::Message;
use proto::v1;

/// The key of a client, in text of HTTP/1.1.
const AUTHORIZATION: &str = "authorization: Bearer $K\r\n";

fn main() -> Result<()> {
    let dir = PathBuf::from(std::env::args_os().nth(1).context("seeds DIR")?);
    let translate = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/translate/src");
    let streams = fixtures(&translate.join("fixtures"))?;
    let requests = fixtures(&translate.join("request/tests/fixtures"))?;
    let write = |target: &str, inputs: &[Vec<u8>]| -> Result<()> {
        let dir = dir.join(target);
        fs::create_dir_all(&dir)?;
        for (number, input) in inputs.iter().enumerate() {
            fs::write(dir.join(format!("seed-{number:02}")), input)?;
        }
        Ok(())
    };
    write("stream", &streams)?;
    for target in ["request", "lenient", "json"] {
        write(target, &requests)?;
    }
    write("sse", &streams.iter().map(|stream| events(stream)).collect::<Vec<_>>())?;
    write("answer", &ANSWERS.map(|answer| [b"\x0c", answer.as_bytes()].concat()))?;
    write("journal", &JOURNALS.map(<[u8]>::to_vec))?;
    write("connection", &connections(&requests))?;
    write("admin", &calls())
}

fn fixtures(dir: &Path) -> Result<Vec<Vec<u8>>> {
    let mut paths: Vec<_> =
        fs::read_dir(dir)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    paths.sort();
    paths.iter().map(|path| Ok(fs::read(path)?)).collect()
}

/// Returns an input of `sse`: two cuts, and an event for each line of `chunks`.
fn events(chunks: &[u8]) -> Vec<u8> {
    let mut input = vec![2, 0, 9, 0, 99];
    for line in chunks.split(|&byte| byte == b'\n') {
        input.extend(b"event: x\r\ndata: ");
        input.extend(line);
        input.extend(b"\n\n");
    }
    input
}

/// Plain answers of upstreams.
const ANSWERS: [&str; 4] = [
    r#"{"id":"c","model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Hello","refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
    r#"{"choices":[{"index":0,"message":{"reasoning_content":"Hm","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"b","type":"function","function":{"name":"apply_patch","arguments":"{\"input\":\"x\"}"}},{"function":{"name":"tool_search","arguments":"{}"}},{"function":{"name":"mcp__x__f","arguments":""}}]},"finish_reason":"tool_calls"}]}"#,
    r#"{"choices":[{"index":0,"message":{"refusal":"No","annotations":[{"type":"url_citation","url":"https://a"}],"reasoning_details":[{"text":"x"}]},"logprobs":{"content":[{"token":"N","logprob":-1.5,"bytes":[78],"top_logprobs":[]}]},"finish_reason":"length"}]}"#,
    r#"{"error":{"message":"overloaded","type":"server_error","code":503}}"#,
];

/// Inputs of `journal`: bytes, entries, and changes to a written journal.
const JOURNALS: [&[u8]; 5] = [
    b"\x04\x00\x20\0\0\0\x03\x12\x34\x56\x78abc\0\0\0\x03\x12\x34\x56\x78abc\x80\x10tollgate-jrnl\0\0\x02",
    b"\x05\x00\x04\x01abc\x00\x04\x02abc\x00\x24\x32aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0\0\0",
    b"\x06\0\x01\x20\x03\0\x02\x80\x01",
    b"\x06\x02\x00\x40\x50\x05\0\0\0\x01\x01\0\0",
    b"\x06\x04\x01\0\x30\x03\0\0\xff",
];

/// Returns inputs of `connection`.
fn connections(requests: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let text = |how: u8, text: &str| [&[how], text.as_bytes()].concat();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n{AUTHORIZATION}\r\n");
    let post = |path: &str, body: &str| {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\n{AUTHORIZATION}");
        format!("{head}content-length: {length}\r\n\r\n{body}")
    };
    let chat =
        r#"{"model":"sim-chat","messages":[{"role":"user","content":"[sim words=9 usage=off]"}]}"#;
    let stream = r#"{"model":"sim-chat","stream":true,"messages":[{"role":"user","content":"[sim stall=3]"}]}"#;
    let response = r#"{"model":"sim-reasoner","stream":true,"input":"hi"}"#;
    let mut inputs = vec![
        text(0, &get("/v1/models")),
        text(8, &format!("{}{}", get("/healthz"), get("/v1/models/sim-chat"))),
        text(2, &post("/v1/chat/completions", chat)),
        text(4, &post("/v1/chat/completions", stream)),
        text(0, &post("/v1/chat/completions", stream)),
        text(
            16,
            &format!("{}{}", post("/v1/responses", response), post("/v1/chat/completions", "{")),
        ),
        text(0, &get("/v1/responses/resp_00000000000000000000000000000000")),
        text(
            0,
            &format!(
                "POST /v1/responses HTTP/1.1\r\nhost: a\r\n{AUTHORIZATION}transfer-encoding: chunked\r\n\
                 expect: 100-continue\r\n\r\n{:x}\r\n{response}\r\n0\r\n\r\nHEAD /v1/models HTTP/1.1\r\n\r\n",
                response.len()
            ),
        ),
        // Steps: a request, a body, windows, resets, raw frames.
        b"\x01\x04\x01\x00\x04\x03\x02\x04\x05\x04\x07\x04\x07\x06".to_vec(),
        b"\x01\x02\x01\x02\x07\x03\x01\x03\x05\x00\x01\x00\x00\x06\x03".to_vec(),
        b"\x0b\x04\x01\x08\x01\x06\x00\x00\x08abcdefgh\x01\x04\x00\x00\x06\x00\x04\x00\x00\xff\xff"
            .to_vec(),
        b"\x05\x04\x01\x04\x07\x00\x09\x00\x00\x00\x07\x00\x00\x00\x00\x00".to_vec(),
    ];
    inputs.extend(requests.iter().map(|body| {
        let body = String::from_utf8_lossy(body);
        text(0, &post("/v1/responses", &body))
    }));
    inputs
}

/// Returns inputs of `admin`: one for each call.
fn calls() -> Vec<Vec<u8>> {
    let limits = Some(v1::Limits { rpm: Some(9), tpm: Some(99), ..v1::Limits::default() });
    let upstream = v1::Upstream {
        name: "up".to_owned(),
        url: "https://a.example/v1".to_owned(),
        credential: Some(v1::Credential {
            source: Some(v1::credential::Source::Env("TOKEN".to_owned())),
        }),
        profile: v1::Profile::Vllm.into(),
        deadlines: Some(v1::Deadlines { connect_ms: Some(9), ..v1::Deadlines::default() }),
        max_connections: Some(4),
        max_waiting: Some(2),
        proxy: "http://b.example:1".to_owned(),
        proxy_login: Some(v1::ProxyLogin {
            user: "user".to_owned(),
            password: Some(v1::Credential {
                source: Some(v1::credential::Source::Env("WORD".to_owned())),
            }),
        }),
        ..v1::Upstream::default()
    };
    let model = v1::Model {
        id: "m".to_owned(),
        display_name: "M".to_owned(),
        context_window: Some(8_192),
        max_output_tokens: Some(1_024),
        limits,
        price: Some(v1::Price {
            input_usd: "0.5".to_owned(),
            cached_usd: "0.05".to_owned(),
            output_usd: "1.5".to_owned(),
            version: 0,
        }),
        abilities: vec![v1::Ability::Tools.into(), v1::Ability::Vision.into()],
        inputs: vec![v1::Input::Text.into(), v1::Input::Image.into()],
        aliases: vec!["n".to_owned()],
        deployments: vec![v1::Deployment {
            upstream: "up".to_owned(),
            upstream_model: "there".to_owned(),
            weight: 1,
            priority: 0,
        }],
        routing: v1::Routing::LeastLoaded.into(),
        hedge_after_ms: Some(250),
        ..v1::Model::default()
    };
    let add_upstream = v1::AddUpstreamRequest { upstream: Some(upstream) };
    let add_model = v1::AddModelRequest { model: Some(model) };
    let plan = v1::Plan {
        name: "p".to_owned(),
        trial_credit_usd: "1.25".to_owned(),
        limits,
        models: vec!["m".to_owned()],
        max_keys: Some(20),
    };
    let put_plan = v1::PutPlanRequest { plan: Some(plan) };
    let key = v1::CreateKeyRequest {
        label: "k".to_owned(),
        limits,
        spend_cap_usd: "3".to_owned(),
        client_gone: v1::ClientGone::Drain.into(),
        drain_seconds: 30,
        expires_at: Some(prost_types::Timestamp { seconds: 1_900_000_000, nanos: 7 }),
        ..v1::CreateKeyRequest::default()
    };
    let update_model = v1::UpdateModelRequest {
        id: "m".to_owned(),
        cached_usd: Some(String::new()),
        routing: Some(v1::Routing::PrefixAffinity.into()),
        ..v1::UpdateModelRequest::default()
    };
    let update_upstream = v1::UpdateUpstreamRequest {
        name: "up".to_owned(),
        url: Some("sim:".to_owned()),
        profile: Some(v1::Profile::Openai.into()),
        proxy: Some(String::new()),
        ..v1::UpdateUpstreamRequest::default()
    };
    let changes = [
        v1::catalogue_change::Change::AddUpstream(add_upstream.clone()),
        v1::catalogue_change::Change::AddModel(add_model.clone()),
        v1::catalogue_change::Change::PutPlan(put_plan.clone()),
    ];
    let changes = changes.map(|change| v1::CatalogueChange { change: Some(change) });
    let apply = v1::ApplyChangesRequest { changes: changes.to_vec(), dry_run: false };
    let filter = Some(v1::RequestFilter {
        model: "m".to_owned(),
        expression: "status = failed and tokens > 100".to_owned(),
        since: Some(prost_types::Timestamp { seconds: 1_800_000_000, nanos: 0 }),
        ..v1::RequestFilter::default()
    });
    let list = v1::ListRequestsRequest { filter, ..v1::ListRequestsRequest::default() };
    let both = [input(1, &add_upstream), input(0, &add_model)].concat();
    vec![
        both.clone(),
        [both.clone(), input(4, &update_model), input(5, &update_upstream)].concat(),
        [both, input(2, &put_plan)].concat(),
        input(3, &key),
        input(6, &apply),
        input(7, &list),
    ]
}

/// Returns one call of an input of `admin`.
fn input(method: u8, message: &impl Message) -> Vec<u8> {
    let message = message.encode_to_vec();
    let length = u16::try_from(message.len()).expect("it is short").to_be_bytes();
    [&[method], &length[..], &message].concat()
}
