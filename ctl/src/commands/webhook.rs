//! `ctl webhook …`: the endpoints that are notified of events.

use proto::v1::TestWebhooksRequest;
use proto::v1::maintenance_service_client::MaintenanceServiceClient;
use serde::Serialize;

use super::non_empty;
use crate::Shell;
use crate::cli::webhook::WebhookCommand;
use crate::error::{Exit, Failure};
use crate::output::Record;

/// The result of a test, as printed.
#[derive(Serialize)]
struct TestRecord {
    endpoint: String,
    accepted: bool,
    failure: Option<String>,
    elapsed_ms: f64,
}

/// Runs `ctl webhook …`.
pub(super) async fn run(shell: &mut Shell<'_>, command: WebhookCommand) -> Result<(), Failure> {
    match command {
        WebhookCommand::Test => test(shell).await,
    }
}

async fn test(shell: &mut Shell<'_>) -> Result<(), Failure> {
    let mut client = MaintenanceServiceClient::new(shell.connect().await?);
    let answer = client.test_webhooks(TestWebhooksRequest {}).await?.into_inner();
    let records: Vec<_> = answer
        .results
        .into_iter()
        .map(|result| TestRecord {
            endpoint: result.endpoint,
            accepted: result.failure.is_empty(),
            failure: non_empty(result.failure),
            elapsed_ms: result.elapsed_ms,
        })
        .collect();
    let failed = records.iter().filter(|record| !record.accepted).count();
    shell.output.many(&records)?;
    if failed > 0 {
        let text = format!("{failed} of {} endpoints did not accept the event", records.len());
        return Err(Failure::new(Exit::Failed, text));
    }
    Ok(())
}

impl Record for TestRecord {
    const FIELDS: &'static [&'static str] = &["endpoint", "accepted", "failure", "elapsed_ms"];
    const COLUMNS: &'static [&'static str] = Self::FIELDS;
}
