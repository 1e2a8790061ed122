//! Sends the request that tries a model to `/v1`, and finds its record.

use ctl::api::{Api, EventStream};
use jiff::SignedDuration;
use proto::v1;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;

use std::sync::Arc;
use std::time::Duration;

use super::address::Address;
use super::call::with_timeout;
use super::{convert, problem};
use crate::clock;
use crate::message::Message;
use crate::model::trial::{TrialApi, TrialEvent, TrialRequest};

/// The longest wait for the response head and between two pieces of the answer.
const IDLE_TIMEOUT: Duration = Duration::from_mins(5);
/// The label of the created key.
const KEY_LABEL: &str = "tui trial";
/// The lifetime of the created key.
const KEY_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// The spending cap of the created key, in US dollars.
const KEY_CAP_USD: &str = "1";
/// The delays before each attempt to read the record, which is written after the answer.
const RECORD_DELAYS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The key for trying models in one session. Created with the first request.
#[derive(Clone, Debug, Default)]
pub struct TrialKey(Arc<Mutex<Option<SecretString>>>);

/// Sends the request and reports its events.
///
/// # Cancel safety
/// Dropping the future closes the connection, which stops the request.
pub async fn try_model(
    gateway: Address,
    token: SecretString,
    key: TrialKey,
    request: TrialRequest,
    messages: mpsc::Sender<Message>,
) {
    let run = request.run;
    let report = async |event| messages.send(Message::Trial(run, event)).await.is_ok();
    let key = match &request.key {
        Some(key) => Ok(key.clone()),
        None => key.get(&gateway, &token).await,
    };
    let events = match key {
        Ok(key) => open(&gateway, &key, &request).await,
        Err(problem) => Err(problem),
    };
    let mut events = match events {
        Ok(events) => events,
        Err(problem) => {
            report(TrialEvent::Failed(problem)).await;
            return;
        }
    };
    loop {
        let event = match events.next().await {
            Ok(Some(data)) => match parse(request.api, &data) {
                Some(event) => event,
                None => continue,
            },
            Ok(None) => TrialEvent::Failed("the answer ended before it was complete".to_owned()),
            Err(failure) => TrialEvent::Failed(failure.to_string()),
        };
        let is_end = !matches!(event, TrialEvent::Text(_));
        if !report(event).await {
            return;
        }
        if is_end {
            break;
        }
    }
    let id = events.request_id().map(str::to_owned);
    // The gateway writes the record when the connection is done with the request.
    drop(events);
    if let Some(id) = id {
        report_record(&gateway, &token, id, report).await;
    }
}

async fn open(
    gateway: &Address,
    key: &SecretString,
    request: &TrialRequest,
) -> Result<EventStream, String> {
    let api = Api::with_authorities(&request.base_url, gateway.authorities(), IDLE_TIMEOUT);
    let api = api.map_err(|failure| failure.to_string())?;
    let (path, body) = body(request);
    let answer = api.post(path, key, &body).await.map_err(|failure| failure.to_string())?;
    EventStream::of(answer, IDLE_TIMEOUT).await.map_err(|failure| failure.to_string())
}

/// Returns the path and the body of the request.
fn body(request: &TrialRequest) -> (&'static str, Value) {
    let TrialRequest { model, prompt, .. } = request;
    match request.api {
        TrialApi::Chat => {
            let messages = json!([{"role": "user", "content": prompt}]);
            let body = json!({"model": model, "messages": messages, "stream": true});
            ("chat/completions", body)
        }
        TrialApi::Responses => {
            ("responses", json!({"model": model, "input": prompt, "stream": true}))
        }
    }
}

/// Returns the meaning of an event, if it has one for the display.
fn parse(api: TrialApi, data: &str) -> Option<TrialEvent> {
    if data == "[DONE]" {
        return Some(TrialEvent::Done);
    }
    let event: Value = serde_json::from_str(data).ok()?;
    let failure = |error: &Value| {
        let message = error["message"].as_str().unwrap_or("the answer failed");
        Some(TrialEvent::Failed(message.to_owned()))
    };
    let text = |text: &Value| {
        let text = text.as_str().filter(|text| !text.is_empty())?;
        Some(TrialEvent::Text(text.to_owned()))
    };
    match (api, event["type"].as_str()) {
        (TrialApi::Chat, _) if event["error"].is_object() => failure(&event["error"]),
        (TrialApi::Chat, _) => text(&event["choices"][0]["delta"]["content"]),
        (TrialApi::Responses, Some("response.output_text.delta")) => text(&event["delta"]),
        (TrialApi::Responses, Some("response.completed" | "response.incomplete")) => {
            Some(TrialEvent::Done)
        }
        (TrialApi::Responses, Some("response.failed")) => failure(&event["response"]["error"]),
        (TrialApi::Responses, Some("error")) => failure(&event),
        _ => None,
    }
}

/// Reports the record of the request as soon as it is written.
async fn report_record(
    gateway: &Address,
    token: &SecretString,
    id: String,
    report: impl AsyncFnOnce(TrialEvent) -> bool,
) {
    let Ok(channel) = gateway.connect(Some(token)).await else { return };
    let mut usage = UsageServiceClient::new(channel);
    for delay in RECORD_DELAYS {
        sleep(delay).await;
        let request = v1::GetRequestRequest { id: id.clone() };
        let answer = with_timeout(usage.get_request(request)).await;
        if let Some(record) = answer.ok().and_then(|answer| answer.request) {
            report(TrialEvent::Recorded(Box::new(convert::record(record)))).await;
            return;
        }
    }
}

// === impl TrialKey ===

impl TrialKey {
    /// Returns the key, which is created by the first call and ends after [`KEY_LIFETIME`].
    async fn get(&self, gateway: &Address, token: &SecretString) -> Result<SecretString, String> {
        let mut known = self.0.lock().await;
        if let Some(key) = &*known {
            return Ok(key.clone());
        }
        let channel = gateway.connect(Some(token)).await;
        let channel = channel.map_err(|error| problem::unreachable(gateway.server(), &error))?;
        let end = clock::now().checked_add(KEY_LIFETIME).ok();
        let request = v1::CreateKeyRequest {
            label: KEY_LABEL.to_owned(),
            expires_at: end
                .map(|end| prost_types::Timestamp { seconds: end.as_second(), nanos: 0 }),
            spend_cap_usd: KEY_CAP_USD.to_owned(),
            ..v1::CreateKeyRequest::default()
        };
        let answer = with_timeout(KeyServiceClient::new(channel).create_key(request)).await;
        let key = answer.map(|answer| SecretString::from(answer.secret));
        let key = key.map_err(|status| problem::change(&status))?;
        *known = Some(key.clone());
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_both_apis_become_text_and_ends() {
        let text = |text: &str| Some(TrialEvent::Text(text.to_owned()));
        let failed = |text: &str| Some(TrialEvent::Failed(text.to_owned()));
        for (api, data, expected) in [
            (TrialApi::Chat, r#"{"choices":[{"delta":{"content":"Hi"}}]}"#, text("Hi")),
            (TrialApi::Chat, r#"{"choices":[{"delta":{"content":""}}]}"#, None),
            (TrialApi::Chat, r#"{"choices":[],"usage":{}}"#, None),
            (TrialApi::Chat, r#"{"error":{"message":"gone"}}"#, failed("gone")),
            (TrialApi::Chat, "[DONE]", Some(TrialEvent::Done)),
            (TrialApi::Chat, "not json", None),
            (
                TrialApi::Responses,
                r#"{"type":"response.output_text.delta","delta":"Hi"}"#,
                text("Hi"),
            ),
            (TrialApi::Responses, r#"{"type":"response.created"}"#, None),
            (TrialApi::Responses, r#"{"type":"response.completed"}"#, Some(TrialEvent::Done)),
            (
                TrialApi::Responses,
                r#"{"type":"response.failed","response":{"error":{"message":"gone"}}}"#,
                failed("gone"),
            ),
            (TrialApi::Responses, r#"{"type":"error","message":"gone"}"#, failed("gone")),
        ] {
            assert_eq!(parse(api, data), expected, "{data}");
        }
    }
}
