//! `ctl request export`: all chosen records, as they come.

use proto::v1::ExportRequestsRequest;
use proto::v1::usage_service_client::UsageServiceClient;

use super::{Line, filter};
use crate::Shell;
use crate::cli::request::{Export, ExportFormat};
use crate::error::Failure;
use crate::output::{Format, Stream};

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
    // Not in between what is exported, where a person sees both.
    let apart = shell.output.width().is_none();
    let (mut printed, mut count) = (Stream::default(), 0);
    // A header stands over nothing, too.
    shell.output.more::<Line>(&[], &mut printed)?;
    while let Some(page) = pages.message().await? {
        count += page.requests.len() as u64;
        let lines: Vec<_> = page.requests.into_iter().map(Line::from).collect();
        shell.output.more(&lines, &mut printed)?;
        if apart {
            shell.output.progress(count, None, "records");
        }
    }
    shell.output.end_progress();
    Ok(())
}
