//! `ctl usage …`, and how a sum of requests is printed.

use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{ExportRequestsRequest, RequestFilter, SummarizeUsageRequest, UsageTotals};
use serde::Serialize;

use super::{filled, request};
use crate::Shell;
use crate::cli::usage::{Export, ExportFormat, Summary, UsageCommand};
use crate::error::Failure;
use crate::output::{Format, Record, Stream};

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

/// The whole summary as one document.
#[derive(Serialize)]
struct SummaryRecord {
    totals: TotalsRecord,
    by_model: Vec<ModelRecord>,
    by_day: Vec<DayRecord>,
}

/// A line of the summary, where it is printed as lines.
#[derive(Serialize)]
struct LineRecord {
    /// `total`, `model` or `day`.
    by: &'static str,
    /// The model or the day.
    name: Option<String>,
    #[serde(flatten)]
    totals: TotalsRecord,
}

/// Runs `ctl usage …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: UsageCommand) -> Result<(), Failure> {
    match command {
        UsageCommand::Summary(input) => summary(shell, input).await,
        UsageCommand::Export(input) => export(shell, input).await,
    }
}

async fn summary(shell: &mut Shell<'_>, input: Summary) -> Result<(), Failure> {
    let now = shell.environment.now;
    let filter = RequestFilter {
        account: input.account.unwrap_or_default(),
        model: input.model.unwrap_or_default(),
        since: input.since.map(|since| since.before(now)).transpose()?,
        until: input.until.map(|until| until.before(now)).transpose()?,
        ..RequestFilter::default()
    };
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let request = SummarizeUsageRequest { filter: Some(filter) };
    let answer = client.summarize_usage(request).await?.into_inner();
    let totals = TotalsRecord::from(answer.totals);
    let by_model = answer
        .by_model
        .into_iter()
        .map(|it| ModelRecord { model: it.model, totals: it.totals.into() });
    let by_day =
        answer.by_day.into_iter().map(|it| DayRecord { day: it.day, totals: it.totals.into() });
    if shell.output.format() == Format::Json {
        let (by_model, by_day) = (by_model.collect(), by_day.collect());
        return shell.output.document(&SummaryRecord { totals, by_model, by_day });
    }
    let mut lines = vec![LineRecord { by: "total", name: None, totals }];
    lines.extend(by_model.map(|it| LineRecord {
        by: "model",
        name: Some(it.model),
        totals: it.totals,
    }));
    lines.extend(by_day.map(|it| LineRecord { by: "day", name: Some(it.day), totals: it.totals }));
    shell.output.many(&lines)
}

async fn export(shell: &mut Shell<'_>, input: Export) -> Result<(), Failure> {
    shell.output.set_format(match (input.format, shell.output.format()) {
        (Some(ExportFormat::Csv), _) | (None, Format::Csv) => Format::Csv,
        _ => Format::Jsonl,
    });
    let mut filter = request::filter(shell, input.filter)?;
    filter.until = input.until.map(|until| until.before(shell.environment.now)).transpose()?;
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let asked = ExportRequestsRequest { filter: Some(filter) };
    let mut pages = client.export_requests(asked).await?.into_inner();
    // Said only to somebody who sees it, and not in between what is exported.
    let watched = shell.environment.interactive && shell.environment.width.is_none();
    let (mut printed, mut count) = (Stream::default(), 0);
    // A header stands over nothing, too.
    shell.output.more::<request::Line>(&[], &mut printed)?;
    while let Some(page) = pages.message().await? {
        count += page.requests.len();
        let lines: Vec<_> = page.requests.into_iter().map(request::Line::from).collect();
        shell.output.more(&lines, &mut printed)?;
        if watched {
            shell.output.progress(&format!("{count} records"));
        }
    }
    if watched {
        shell.output.note("");
    }
    Ok(())
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
