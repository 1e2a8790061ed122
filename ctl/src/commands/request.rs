//! `ctl request …`, and the printed form of request records.

mod export;
mod find;
mod in_flight;
mod tail;
mod wire;

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{GetRequestRequest, ListRequestsRequest, RequestFilter, RequestRecord};
use serde::Serialize;

use super::{enum_name, required, rfc3339, short_id};
use crate::Shell;
use crate::cli::request::{Filter, List, RequestCommand, Show};
use crate::cli::value::When;
use crate::error::Failure;
use crate::output::Record;

pub(super) use export::export;

/// A request record, as printed.
#[derive(Serialize)]
pub(super) struct RequestRow {
    id: String,
    account: String,
    key: String,
    model: Option<String>,
    endpoint: String,
    stream: bool,
    status: Option<String>,
    http_status: Option<u32>,
    error_code: Option<String>,
    input_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    usage_basis: Option<String>,
    cost_usd: Option<String>,
    started_at: Option<String>,
    duration_ms: Option<f64>,
    ttft_ms: Option<f64>,
    deployment: Option<String>,
    price_version: Option<u32>,
    notes: Vec<String>,
    count: u32,
}

/// Runs `ctl request …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: RequestCommand) -> Result<(), Failure> {
    match command {
        RequestCommand::List(input) => list(shell, input).await,
        RequestCommand::Capture(input) => wire::capture(shell, input).await,
        RequestCommand::Show(input) if input.wire => wire::show(shell, input.id).await,
        RequestCommand::Show(input) => show(shell, input).await,
        RequestCommand::InFlight(input) => in_flight::list(shell, input).await,
        RequestCommand::Cancel(input) => in_flight::cancel(shell, input).await,
        RequestCommand::Tail(input) => tail::tail(shell, input).await,
        RequestCommand::Export(input) => export(shell, input).await,
    }
}

async fn list(shell: &mut Shell<'_>, input: List) -> Result<(), Failure> {
    let filter = filter(shell, input.filter, input.until)?;
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let limit = usize::try_from(input.limit).unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    let mut page_token = String::new();
    while rows.len() < limit {
        let page_size = u32::try_from((limit - rows.len()).min(1_000)).unwrap_or(1_000);
        let request = ListRequestsRequest { filter: Some(filter.clone()), page_size, page_token };
        let page = client.list_requests(request).await?.into_inner();
        rows.extend(page.requests.into_iter().map(RequestRow::from));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    rows.truncate(limit);
    shell.output.many(&rows)
}

async fn show(shell: &mut Shell<'_>, input: Show) -> Result<(), Failure> {
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let record = if find::is_partial_id(&input.id) {
        find::find_by_partial_id(&mut client, &input.id).await?
    } else {
        let answer = client.get_request(GetRequestRequest { id: input.id }).await?.into_inner();
        required(answer.request, "request")?
    };
    shell.output.one(&RequestRow::from(record))
}

/// Converts the filter flags to their proto form, with times relative to the start of the command.
pub(super) fn filter(
    shell: &Shell<'_>,
    given: Filter,
    until: Option<When>,
) -> Result<RequestFilter, Failure> {
    let now = shell.environment.now;
    Ok(RequestFilter {
        account: given.account.unwrap_or_default(),
        key: given.key.unwrap_or_default(),
        model: given.model.unwrap_or_default(),
        status: given.status.map(Into::into).unwrap_or_default(),
        since: given.since.map(|since| since.before(now)).transpose()?,
        until: until.map(|until| until.before(now)).transpose()?,
        expression: given.expression,
    })
}

// === impl RequestRow ===

impl RequestRow {
    /// Returns status, error code and count as one short text. An HTTP error status replaces the
    /// status, as it is more specific.
    fn short_status(&self) -> String {
        let status = self.status.clone().unwrap_or_default();
        let status = match (&self.error_code, self.http_status.filter(|status| *status >= 400)) {
            (Some(code), Some(http_status)) => format!("{http_status} {code}"),
            (Some(code), None) => format!("{status} {code}"),
            (None, _) => status,
        };
        if self.count > 1 { format!("{status} x{}", self.count) } else { status }
    }
}

impl From<RequestRecord> for RequestRow {
    fn from(record: RequestRecord) -> Self {
        let tokens = record.tokens.unwrap_or_default();
        Self {
            status: enum_name(record.status().as_str_name(), "REQUEST_STATUS_"),
            usage_basis: enum_name(record.usage_basis().as_str_name(), "USAGE_BASIS_"),
            id: record.id,
            account: record.account,
            key: record.key,
            model: record.model,
            endpoint: record.endpoint,
            stream: record.stream,
            http_status: record.http_status,
            error_code: record.error_code,
            input_tokens: tokens.input,
            cached_tokens: tokens.cached,
            output_tokens: tokens.output,
            reasoning_tokens: tokens.reasoning,
            cost_usd: record.cost_usd,
            started_at: rfc3339(record.started_at),
            duration_ms: record.duration_ms,
            ttft_ms: record.ttft_ms,
            deployment: record.deployment,
            price_version: record.price_version,
            notes: record.notes,
            count: record.count.max(1),
        }
    }
}

impl Record for RequestRow {
    const FIELDS: &'static [&'static str] = &[
        "id",
        "account",
        "key",
        "model",
        "endpoint",
        "stream",
        "status",
        "http_status",
        "error_code",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "reasoning_tokens",
        "usage_basis",
        "cost_usd",
        "started_at",
        "duration_ms",
        "ttft_ms",
        "deployment",
        "price_version",
        "notes",
        "count",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "started_at",
        "status",
        "http_status",
        "error_code",
        "count",
        "model",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "duration_ms",
        "ttft_ms",
        "account",
        "endpoint",
    ];
    const NARROW_COLUMNS: &'static [&'static str] = &[
        "short_id",
        "short_started_at",
        "short_status",
        "cost_usd",
        "model",
        "input_tokens",
        "output_tokens",
        "duration_ms",
        "ttft_ms",
        "account",
        "endpoint",
    ];
    const MIN_WIDTHS: &'static [(&'static str, usize)] = &[
        ("id", 36),
        ("started_at", 20),
        ("status", 11),
        ("short_status", 21),
        ("error_code", 17),
        ("model", 16),
        ("input_tokens", 6),
        ("output_tokens", 6),
        ("cost_usd", 10),
        ("duration_ms", 11),
        ("account", 8),
        ("endpoint", 16),
    ];

    fn text(&self, field: &str) -> Option<String> {
        match field {
            "short_id" => Some(short_id(&self.id).to_owned()),
            "short_status" => Some(self.short_status()),
            _ => None,
        }
    }
}
