//! `ctl request in-flight` and `ctl request cancel`.

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{CancelRequestRequest, ListRequestsInFlightRequest, RequestInFlight};
use serde::Serialize;

use super::super::{rfc3339, short_id};
use super::find;
use crate::Shell;
use crate::cli::request::{Cancel, InFlight};
use crate::error::Failure;
use crate::output::Record;

/// A request in flight, as printed.
#[derive(Serialize)]
struct InFlightRow {
    id: String,
    account: String,
    key: String,
    model: String,
    endpoint: String,
    deployment: String,
    stream: bool,
    started_at: Option<String>,
    age_ms: f64,
    input_bytes: u64,
    output_bytes: u64,
}

pub(super) async fn list(shell: &mut Shell<'_>, input: InFlight) -> Result<(), Failure> {
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let account = input.account.unwrap_or_default();
    let request = ListRequestsInFlightRequest { account };
    let answer = client.list_requests_in_flight(request).await?.into_inner();
    let rows: Vec<_> = answer.requests.into_iter().map(InFlightRow::from).collect();
    shell.output.many(&rows)?;
    let others = answer.total.saturating_sub(rows.len() as u64);
    if others > 0 {
        shell.output.note(&format!("{others} younger requests are not listed"));
    }
    Ok(())
}

pub(super) async fn cancel(shell: &mut Shell<'_>, Cancel { id }: Cancel) -> Result<(), Failure> {
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let id = if find::is_partial_id(&id) {
        find::find_in_flight(&mut client, &id).await?.id
    } else {
        id
    };
    if shell.should_confirm() {
        shell.confirm(&format!(
            "Cancel request {id}? Its client gets an error; its input, if it was sent, and what was received are charged."
        ))?;
    }
    client.cancel_request(CancelRequestRequest { id: id.clone() }).await?;
    shell.output.note(&format!("cancelled request {id}"));
    Ok(())
}

// === impl InFlightRow ===

impl From<RequestInFlight> for InFlightRow {
    fn from(request: RequestInFlight) -> Self {
        Self {
            id: request.id,
            account: request.account,
            key: request.key,
            model: request.model,
            endpoint: request.endpoint,
            deployment: request.deployment,
            stream: request.stream,
            started_at: rfc3339(request.started_at),
            age_ms: request.age_ms,
            input_bytes: request.input_bytes,
            output_bytes: request.output_bytes,
        }
    }
}

impl Record for InFlightRow {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "account",
        "key",
        "model",
        "endpoint",
        "deployment",
        "stream",
        "started_at",
        "age_ms",
        "input_bytes",
        "output_bytes",
    ];
    const COLUMNS: &'static [&'static str] =
        &["id", "age_ms", "model", "deployment", "stream", "output_bytes", "account", "key"];
    const NARROW_COLUMNS: &'static [&'static str] =
        &["short_id", "age_ms", "model", "output_bytes", "account"];

    fn text(&self, field: &str) -> Option<String> {
        (field == "short_id").then(|| short_id(&self.id).to_owned())
    }
}
