//! `ctl usage …`, and how a sum of requests is printed; `picture` draws it for a terminal.

mod picture;

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{SummarizeUsageRequest, SummarizeUsageResponse, UsageTotals};
use serde::Serialize;

use super::{filled, request};
use crate::Shell;
use crate::cli::usage::{Summary, Usage, UsageCommand};
use crate::error::Failure;
use crate::output::{Format, Record};

/// A sum of requests, as it is printed.
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

/// The sum for a model, inside a document.
#[derive(Serialize)]
struct ModelRecord {
    model: String,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The sum for a day, inside a document.
#[derive(Serialize)]
struct DayRecord {
    day: String,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The sum for a key, inside a document.
#[derive(Serialize)]
struct KeyRecord {
    key: String,
    label: Option<String>,
    account: Option<String>,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// The whole summary as one document.
#[derive(Serialize)]
struct SummaryRecord {
    totals: TotalsRecord,
    by_model: Vec<ModelRecord>,
    by_day: Vec<DayRecord>,
    by_key: Vec<KeyRecord>,
}

/// A line of the summary, where it is printed as lines.
#[derive(Serialize)]
struct LineRecord {
    /// `total`, `model`, `day` or `key`.
    by: &'static str,
    /// The model, the day or the key's public id.
    name: Option<String>,
    #[serde(flatten)]
    totals: TotalsRecord,
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
    let request = SummarizeUsageRequest { filter: Some(filter) };
    let summary = SummaryRecord::from(client.summarize_usage(request).await?.into_inner());
    match (shell.output.format(), shell.output.width()) {
        (Format::Json, _) => shell.output.document(&summary),
        (Format::Table, Some(width)) if !shell.output.is_quiet() => {
            let text = picture::draw(&summary, width, &shell.output);
            shell.output.text(&text)
        }
        _ => shell.output.many(&summary.lines()),
    }
}

// === impl SummaryRecord ===

impl SummaryRecord {
    fn lines(self) -> Vec<LineRecord> {
        let total = LineRecord { by: "total", name: None, totals: self.totals };
        let line = |by, name, totals| LineRecord { by, name: Some(name), totals };
        let models = self.by_model.into_iter().map(|it| line("model", it.model, it.totals));
        let days = self.by_day.into_iter().map(|it| line("day", it.day, it.totals));
        let keys = self.by_key.into_iter().map(|it| line("key", it.key, it.totals));
        std::iter::once(total).chain(models).chain(days).chain(keys).collect()
    }
}

impl From<SummarizeUsageResponse> for SummaryRecord {
    fn from(answer: SummarizeUsageResponse) -> Self {
        let models = answer.by_model.into_iter();
        let days = answer.by_day.into_iter();
        let keys = answer.by_key.into_iter();
        Self {
            totals: answer.totals.into(),
            by_model: models
                .map(|it| ModelRecord { model: it.model, totals: it.totals.into() })
                .collect(),
            by_day: days.map(|it| DayRecord { day: it.day, totals: it.totals.into() }).collect(),
            by_key: keys
                .map(|it| KeyRecord {
                    key: it.key,
                    label: filled(it.label),
                    account: filled(it.account),
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
            cost_usd: filled(totals.cost_usd),
        }
    }
}

impl Record for LineRecord {
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
    ];
    const COLUMNS: &'static [&'static str] = &[
        "by",
        "name",
        "requests",
        "errors",
        "input_tokens",
        "output_tokens",
        "cost_usd",
        "cached_tokens",
        "reasoning_tokens",
    ];
}
