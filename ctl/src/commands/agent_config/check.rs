//! `ctl agent-config … --check`: runs one tool call through the gateway and reports each step.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::turn::{self, Call, Reply, Wire};
use crate::Shell;
use crate::api::{Api, EventStream, excerpt};
use crate::cli::agent_config::Agent;
use crate::error::{Exit, Failure};
use crate::output::{Format, Record, StreamState};

/// The longest wait for the response head and between two pieces of the body: a model may reason
/// for minutes before its first token.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);

/// A completed step, as printed.
#[derive(Serialize)]
struct StepRecord {
    step: &'static str,
    ms: u64,
    said: String,
}

/// The endpoint of the agent's requests, with the key.
struct AgentClient {
    api: Api,
    path: &'static str,
    key: SecretString,
    wire: Wire,
}

/// Runs the check.
pub(super) async fn run(
    shell: &mut Shell<'_>,
    agent: Agent,
    base_url: &str,
    model: &str,
    key_file: Option<PathBuf>,
) -> Result<(), Failure> {
    let key = key(shell, key_file)?;
    let wire = turn::wire(agent);
    let path = match wire {
        Wire::Responses => "responses",
        Wire::Chat => "chat/completions",
    };
    let api = Api::new(base_url, &shell.gateway()?, IDLE_TIMEOUT)?;
    let client = AgentClient { api, path, key, wire };
    let mut steps = StreamState::default();

    let request = turn::first_request(agent, model);
    let start = Instant::now();
    let reply = client.send(&request).await?;
    if !turn::uses_tools(agent) {
        print(shell, &mut steps, "asked and answered", start, excerpt(&reply.text))?;
        return finish(shell, agent, model, &reply);
    }
    let call = reply.tool_call().map_err(failed)?.clone();
    let Call { name, arguments, .. } = &call;
    let offered = format!("{name} {}", excerpt(arguments));
    print(shell, &mut steps, "offered a tool, got a call", start, offered)?;

    let request = turn::tool_output_request(agent, request, &reply, &call);
    let start = Instant::now();
    let reply = client.send(&request).await?;
    print(shell, &mut steps, "sent its output, got an answer", start, excerpt(&reply.text))?;
    finish(shell, agent, model, &reply)
}

fn finish(shell: &mut Shell<'_>, agent: Agent, model: &str, last: &Reply) -> Result<(), Failure> {
    if last.text.trim().is_empty() {
        return Err(failed("the last answer has no text"));
    }
    let agent = super::name(agent);
    shell.output.note(&format!("{agent} can work with `{model}` here"));
    Ok(())
}

fn key(shell: &Shell<'_>, file: Option<PathBuf>) -> Result<SecretString, Failure> {
    let Some(path) = file else {
        return shell.environment.api_key.clone().ok_or_else(|| {
            Failure::usage("no API key given").advise(
                "set TOLLGATE_API_KEY or give --key-file FILE; `ctl key create` creates one",
            )
        });
    };
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::file("reading the key file", &path, &error))?;
    Ok(SecretString::from(text.trim()))
}

fn print(
    shell: &mut Shell<'_>,
    steps: &mut StreamState,
    step: &'static str,
    start: Instant,
    said: String,
) -> Result<(), Failure> {
    let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    if shell.output.format() == Format::Table {
        return shell.output.text(&format!("{step} ({ms} ms): {said}\n"));
    }
    shell.output.append(&[StepRecord { step, ms, said }], steps)
}

fn failed(reason: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, reason)
}

// === impl AgentClient ===

impl AgentClient {
    /// Sends a request and reads the event stream to its end.
    ///
    /// # Errors
    /// The request is refused, a timeout expires, or the stream breaks or ends with a failure.
    async fn send(&self, body: &Value) -> Result<Reply, Failure> {
        let answer = self.api.post(self.path, &self.key, body).await?;
        let mut events = EventStream::of(answer, IDLE_TIMEOUT).await?;
        let mut reply = Reply::new(self.wire);
        while let Some(data) = events.next().await? {
            reply.push_event(&data);
        }
        match (&reply.failure, reply.is_complete) {
            (Some(reason), _) => Err(failed(format!("the answer failed: {reason}"))),
            (None, false) => Err(failed("the stream ended before the answer was complete")),
            (None, true) => Ok(reply),
        }
    }
}

// === impl StepRecord ===

impl Record for StepRecord {
    const FIELDS: &'static [&'static str] = &["step", "ms", "said"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
