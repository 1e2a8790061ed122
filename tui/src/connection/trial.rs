//! Sends the request that tries a model to `/v1`, and finds its record.

use ctl::api::{Api, EventStream};
use ctl::error::Failure;
use jiff::{SignedDuration, Timestamp};
use proto::v1;
use proto::v1::key_service_client::KeyServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};
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
/// The time before its end from which on the created key is replaced.
const KEY_MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// The spending cap of the created key, in US dollars.
const KEY_CAP_USD: &str = "1";
/// The header with the id of the record.
const REQUEST_ID: &str = "x-request-id";
/// The delays before each attempt to read the record, which is written after the answer.
const RECORD_DELAYS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];

/// The key for trying models in one session. Created with the first request, and again when it is
/// of no more use.
#[derive(Clone, Debug, Default)]
pub struct TrialKey(Arc<Mutex<Option<CreatedKey>>>);

/// A key that was created for trying models.
#[derive(Clone, Debug)]
struct CreatedKey {
    id: String,
    secret: SecretString,
    /// When it ends.
    end: Timestamp,
}

/// Why the request was not answered.
#[derive(Debug)]
struct Refused {
    /// A text for the user.
    problem: String,
    /// The id of the request's record, if the gateway answered.
    request_id: Option<String>,
    /// Whether the key is unknown, revoked, at its end or has spent what it may.
    is_key_used_up: bool,
}

/// Sends the request and reports its events, until `stop` is sent or dropped.
///
/// # Cancel safety
/// Not cancel safe: the created key would be lost, and count among the account's keys until its
/// end. `stop` closes the connection, which stops the request, but lets the creation end.
pub async fn try_model(
    gateway: Address,
    token: SecretString,
    key: TrialKey,
    request: TrialRequest,
    messages: mpsc::Sender<Message>,
    stop: oneshot::Receiver<()>,
) {
    let secret = match &request.key {
        Some(key) => Ok(key.clone()),
        None => key.get(&gateway, &token).await,
    };
    let answer = async {
        match secret {
            Ok(secret) => answer(&gateway, &token, &key, &secret, &request, &messages).await,
            Err(problem) => {
                for event in [TrialEvent::Failed(problem), TrialEvent::Unrecorded] {
                    // Fails only during shutdown.
                    let _ = messages.send(Message::Trial(request.run, event)).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        _ = stop => {}
        () = answer => {}
    }
}

/// Sends the request with `secret`, and reports its events.
async fn answer(
    gateway: &Address,
    token: &SecretString,
    key: &TrialKey,
    secret: &SecretString,
    request: &TrialRequest,
    messages: &mpsc::Sender<Message>,
) {
    let run = request.run;
    let report = async |event| messages.send(Message::Trial(run, event)).await.is_ok();
    let mut events = match open(gateway, secret, request).await {
        Ok(events) => events,
        Err(refused) => {
            report(TrialEvent::Failed(refused.problem)).await;
            if refused.is_key_used_up {
                key.discard(secret, gateway, token).await;
            }
            report_record(gateway, token, refused.request_id, report).await;
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
    report_record(gateway, token, id, report).await;
}

async fn open(
    gateway: &Address,
    key: &SecretString,
    request: &TrialRequest,
) -> Result<EventStream, Refused> {
    let refused = |failure: Failure| Refused {
        problem: failure.to_string(),
        request_id: None,
        is_key_used_up: false,
    };
    let api = Api::with_authorities(&request.base_url, gateway.authorities(), IDLE_TIMEOUT);
    let api = api.map_err(refused)?;
    let (path, body) = body(request);
    let answer = api.post(path, key, &body).await.map_err(refused)?;
    let status = answer.status().as_u16();
    let id = answer.headers().get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let request_id = id.map(str::to_owned);
    EventStream::of(answer, IDLE_TIMEOUT).await.map_err(|failure| {
        let problem = failure.to_string();
        let is_key_used_up = is_key_used_up(status, &problem);
        Refused { problem, request_id, is_key_used_up }
    })
}

/// Returns whether a response means that another key may be accepted. A spent balance has the same
/// code as a spent key.
fn is_key_used_up(status: u16, problem: &str) -> bool {
    status == 401 || (status == 429 && problem.contains("insufficient_quota"))
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

/// Reports the record of the request as soon as it is written, or that there is none.
async fn report_record(
    gateway: &Address,
    token: &SecretString,
    id: Option<String>,
    report: impl AsyncFnOnce(TrialEvent) -> bool,
) {
    let record = match id {
        Some(id) => find_record(gateway, token, id).await,
        None => None,
    };
    let found = |record| TrialEvent::Recorded(Box::new(convert::record(record)));
    report(record.map_or(TrialEvent::Unrecorded, found)).await;
}

async fn find_record(
    gateway: &Address,
    token: &SecretString,
    id: String,
) -> Option<v1::RequestRecord> {
    let mut usage = UsageServiceClient::new(gateway.connect(Some(token)).await.ok()?);
    for delay in RECORD_DELAYS {
        sleep(delay).await;
        let request = v1::GetRequestRequest { id: id.clone() };
        let answer = with_timeout(usage.get_request(request)).await;
        if let Some(record) = answer.ok().and_then(|answer| answer.request) {
            return Some(record);
        }
    }
    None
}

// === impl TrialKey ===

impl TrialKey {
    /// Returns the secret of the key. Creates a key if there is none, or if it ends soon.
    async fn get(&self, gateway: &Address, token: &SecretString) -> Result<SecretString, String> {
        let mut known = self.0.lock().await;
        let now = clock::now();
        if let Some(key) = known.as_ref().filter(|key| key.is_usable(now)) {
            return Ok(key.secret.clone());
        }
        let key = CreatedKey::create(gateway, token, now).await?;
        Ok(known.insert(key).secret.clone())
    }

    /// Forgets the key with this secret, and revokes it, so that it no longer counts among the
    /// account's keys. Does nothing if it is another key.
    async fn discard(&self, secret: &SecretString, gateway: &Address, token: &SecretString) {
        let mut known = self.0.lock().await;
        let is_same = |key: &mut CreatedKey| key.secret.expose_secret() == secret.expose_secret();
        if let Some(key) = known.take_if(is_same) {
            key.revoke(gateway, token).await;
        }
    }

    /// Revokes the key at the end of the session, so that none is left for each session.
    pub async fn end(&self, gateway: &Address, token: &SecretString) {
        if let Some(key) = self.0.lock().await.take() {
            key.revoke(gateway, token).await;
        }
    }
}

// === impl CreatedKey ===

impl CreatedKey {
    /// Creates a key that ends [`KEY_LIFETIME`] after `now`.
    async fn create(
        gateway: &Address,
        token: &SecretString,
        now: Timestamp,
    ) -> Result<Self, String> {
        let channel = gateway.connect(Some(token)).await;
        let channel = channel.map_err(|error| problem::unreachable(gateway.server(), &error))?;
        let end = now.saturating_add(KEY_LIFETIME).unwrap_or(Timestamp::MAX);
        let request = v1::CreateKeyRequest {
            label: KEY_LABEL.to_owned(),
            expires_at: Some(prost_types::Timestamp { seconds: end.as_second(), nanos: 0 }),
            spend_cap_usd: KEY_CAP_USD.to_owned(),
            ..v1::CreateKeyRequest::default()
        };
        let answer = with_timeout(KeyServiceClient::new(channel).create_key(request)).await;
        let answer = answer.map_err(|status| problem::change(&status))?;
        let id = answer.key.unwrap_or_default().id;
        Ok(Self { id, secret: SecretString::from(answer.secret), end })
    }

    /// Revokes the key. If that fails, it ends by itself.
    async fn revoke(self, gateway: &Address, token: &SecretString) {
        if let Ok(channel) = gateway.connect(Some(token)).await {
            let request = v1::RevokeKeyRequest { id: self.id };
            let _ = with_timeout(KeyServiceClient::new(channel).revoke_key(request)).await;
        }
    }

    /// Returns whether the key lasts long enough for another request.
    fn is_usable(&self, now: Timestamp) -> bool {
        self.end.duration_since(now) > KEY_MARGIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_replaced_before_its_end_and_when_it_is_used_up() {
        let end = Timestamp::from_second(3_600).unwrap();
        let key = CreatedKey { id: "id".to_owned(), secret: "sk-tg-secret".into(), end };
        let at = |second| key.is_usable(Timestamp::from_second(second).unwrap());
        assert_eq!([at(0), at(3_299), at(3_300), at(9_000)], [true, true, false, false]);
        for (status, problem, expected) in [
            (401, "HTTP 401: the key is revoked (invalid_api_key)", true),
            (429, "HTTP 429: the key has spent $1 (insufficient_quota)", true),
            (429, "HTTP 429: later (rate_limit_exceeded)", false),
            (404, "HTTP 404: no such model (model_not_found)", false),
        ] {
            assert_eq!(is_key_used_up(status, problem), expected, "{problem}");
        }
    }

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
