//! `ctl request export`: streams all matching records.

use proto::v1::ExportRequestsRequest;
use proto::v1::usage_service_client::UsageServiceClient;

use super::{RequestRow, filter};
use crate::Shell;
use crate::cli::request::{Export, ExportFormat};
use crate::error::Failure;
use crate::output::{Format, StreamState};

/// Runs `ctl request export`.
pub(in crate::commands) async fn export(
    shell: &mut Shell<'_>,
    input: Export,
) -> Result<(), Failure> {
    shell.output.set_format(match (input.format, shell.output.format()) {
        (Some(ExportFormat::Csv), _) | (None, Format::Csv) => Format::Csv,
        _ => Format::Jsonl,
    });
    let filter = Some(filter(shell, input.filter, input.until)?);
    let mut client = UsageServiceClient::new(shell.connect().await?);
    let mut pages = client.export_requests(ExportRequestsRequest { filter }).await?.into_inner();
    // On a terminal, progress would be mixed with the exported records.
    let shows_progress = shell.output.width().is_none();
    let (mut printed, mut count) = (StreamState::default(), 0);
    // Prints the header even if there are no records.
    shell.output.append::<RequestRow>(&[], &mut printed)?;
    while let Some(page) = pages.message().await? {
        count += page.requests.len() as u64;
        let rows: Vec<_> = page.requests.into_iter().map(RequestRow::from).collect();
        shell.output.append(&rows, &mut printed)?;
        if shows_progress {
            shell.output.progress(count, None, "records");
        }
    }
    shell.output.end_progress();
    Ok(())
}
