//! `ctl usage …`, and the printed form of usage totals; `render` draws them for a terminal.

mod render;

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{SummarizeUsageRequest, SummarizeUsageResponse, UsageTotals};
use serde::Serialize;

use super::{non_empty, request, rfc3339};
use crate::Shell;
use crate::cli::usage::{Summary, Usage, UsageCommand};
use crate::error::Failure;
use crate::output::{Format, Record};

/// Totals over requests, as printed.
#[derive(Serialize)]
struct TotalsRecord {
    requests: u64,
    errors: u64,
    input_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    output_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    cost_usd: Option<String>,
}

/// The totals of a model, as part of a JSON document.
#[derive(Serialize)]
struct ModelRecord {
    model: String,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The totals of a day, as part of a JSON document.
#[derive(Serialize)]
pub(super) struct DayRecord {
    day: String,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The totals of a key, as part of a JSON document.
#[derive(Serialize)]
struct KeyRecord {
    key: String,
    label: Option<String>,
    account: Option<String>,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The totals of an hour, as part of a JSON document.
#[derive(Serialize)]
struct HourRecord {
    /// The start of the hour (RFC 3339).
    hour: String,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The summary as one JSON document.
#[derive(Serialize)]
pub(super) struct SummaryRecord {
    totals: TotalsRecord,
    by_model: Vec<ModelRecord>,
    pub(super) by_day: Vec<DayRecord>,
    by_hour: Vec<HourRecord>,
    by_key: Vec<KeyRecord>,
}

/// A row of the summary, in formats other than JSON.
#[derive(Serialize)]
struct RowRecord {
    /// The grouping: `total`, `model`, `day`, `hour` or `key`.
    by: &'static str,
    /// The model, the day, the start of the hour or the key's public id; `None` for the total.
    name: Option<String>,
    #[serde(flatten)]
    totals: TotalsRecord,
    /// The label and the account of a key.
    label: Option<String>,
    account: Option<String>,
}

/// Runs `ctl usage …`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Usage) -> Result<(), Failure> {
    match input.command {
        None => summary(shell, input.summary).await,
        Some(UsageCommand::Summary(input)) => summary(shell, input).await,
        Some(UsageCommand::Export(input)) => request::export(shell, input).await,
    }
}

async fn summary(shell: &mut Shell<'_>, input: Summary) -> Result<(), Failure> {
    let filter = request::filter(shell, input.filter, input.until)?;
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let request = SummarizeUsageRequest { filter: Some(filter), models_by_time: false };
    let summary = SummaryRecord::from(client.summarize_usage(request).await?.into_inner());
    match (shell.output.format(), shell.output.width()) {
        (Format::Json, _) => shell.output.document(&summary),
        (Format::Table, Some(width)) if !shell.output.is_quiet() => {
            let text = render::render(&summary, width, &shell.output);
            shell.output.text(&text)
        }
        _ => shell.output.many(&summary.into_rows()),
    }
}

// === impl SummaryRecord ===

impl SummaryRecord {
    fn into_rows(self) -> Vec<RowRecord> {
        let all = |by, name, totals| RowRecord { by, name, totals, label: None, account: None };
        let total = all("total", None, self.totals);
        let row = |by, name, totals| all(by, Some(name), totals);
        let models = self.by_model.into_iter().map(|it| row("model", it.model, it.totals));
        let days = self.by_day.into_iter().map(|it| row("day", it.day, it.totals));
        let keys = self.by_key.into_iter().map(|it| RowRecord {
            label: it.label,
            account: it.account,
            ..row("key", it.key, it.totals)
        });
        let hours = self.by_hour.into_iter().map(|it| row("hour", it.hour, it.totals));
        std::iter::once(total).chain(models).chain(days).chain(hours).chain(keys).collect()
    }
}

impl From<SummarizeUsageResponse> for SummaryRecord {
    fn from(answer: SummarizeUsageResponse) -> Self {
        let models = answer.by_model.into_iter();
        let days = answer.by_day.into_iter();
        let hours = answer.by_hour.into_iter();
        let keys = answer.by_key.into_iter();
        Self {
            totals: answer.totals.into(),
            by_model: models
                .map(|it| ModelRecord { model: it.model, totals: it.totals.into() })
                .collect(),
            by_day: days.map(|it| DayRecord { day: it.day, totals: it.totals.into() }).collect(),
            by_hour: hours
                .map(|it| HourRecord {
                    hour: rfc3339(it.start).unwrap_or_default(),
                    totals: it.totals.into(),
                })
                .collect(),
            by_key: keys
                .map(|it| KeyRecord {
                    key: it.key,
                    label: non_empty(it.label),
                    account: non_empty(it.account),
                    totals: it.totals.into(),
                })
                .collect(),
        }
    }
}

// === impl TotalsRecord ===

impl From<Option<UsageTotals>> for TotalsRecord {
    fn from(totals: Option<UsageTotals>) -> Self {
        let totals = totals.unwrap_or_default();
        let tokens = totals.tokens.unwrap_or_default();
        Self {
            requests: totals.requests,
            errors: totals.errors,
            input_tokens: tokens.input,
            cached_tokens: tokens.cached,
            output_tokens: tokens.output,
            reasoning_tokens: tokens.reasoning,
            cost_usd: non_empty(totals.cost_usd),
        }
    }
}

impl Record for RowRecord {
    const FIELDS: &'static [&'static str] = &[
        "by",
        "name",
        "requests",
        "errors",
        "input_tokens",
        "cached_tokens",
        "output_tokens",
        "reasoning_tokens",
        "cost_usd",
        "label",
        "account",
    ];
    const COLUMNS: &'static [&'static str] = &[
        "by",
        "name",
        "label",
        "requests",
        "errors",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "cached_tokens",
        "reasoning_tokens",
    ];
}
