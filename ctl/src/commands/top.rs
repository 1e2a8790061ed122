//! `ctl top`: the load of the gateway, once or refreshed until Ctrl-C.
//!
//! Each refresh reads a page of the newest records; [`load`] computes rates and rankings from those of the last minute,
//! [`render`] draws them.

mod load;
mod render;

use std::pin::pin;
use std::time::Duration;

use proto::client::Connection;
use proto::v1::traffic_service_client::TrafficServiceClient;
use proto::v1::usage_service_client::UsageServiceClient;
use proto::v1::{ListRequestsRequest, ListUpstreamHealthRequest, WatchTrafficRequest};

use self::load::LoadRecord;
use crate::Shell;
use crate::cli::top::Top;
use crate::error::{Exit, Failure};
use crate::output::{Format, StreamState};

/// The largest page of records.
const MAX_RECORDS: u32 = 1_000;

/// Runs `ctl top`.
pub(super) async fn run(shell: &mut Shell<'_>, input: Top) -> Result<(), Failure> {
    if !input.once && shell.output.format() == Format::Json {
        return Err(Failure::usage("endless output cannot be one JSON document")
            .advise("add --once, or use -o jsonl, which prints an object per line"));
    }
    // A screen that is not there cannot be refreshed.
    let is_screen = shell.output.format() == Format::Table && shell.output.width().is_some();
    let once = input.once || shell.output.format() == Format::Table && !is_screen;
    let connection = shell.connect().await?;
    let mut printed = StreamState::default();
    let mut last = None;
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        let read = tokio::select! {
            read = read(&connection, usize::from(input.rows)) => read,
            _ = &mut interrupt => return Ok(()),
        };
        let (load, problem) = match (read, last.take()) {
            (Ok(load), _) => (load, None),
            // The next refresh may find the gateway again. Before the first one, failures are final.
            (Err(failure), Some(load)) if failure.exit() == Exit::Unavailable => {
                (load, Some(failure))
            }
            (Err(failure), _) => return Err(failure),
        };
        if once {
            return show(shell, &load, None, None);
        }
        if is_screen {
            // Clears the screen, so that each sample replaces the previous one.
            shell.output.text("\u{1b}[H\u{1b}[J")?;
            let height = shell.output.height();
            show(shell, &load, problem.as_ref(), height)?;
            shell.output.flush()?;
        } else if let Some(failure) = problem {
            shell.output.note(&format!("({failure}; trying again)"));
        } else {
            shell.output.append(std::slice::from_ref(&load), &mut printed)?;
        }
        last = Some(load);
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(input.interval_ms.into())) => {}
            _ = &mut interrupt => return Ok(()),
        }
    }
}

async fn read(connection: &Connection, rows: usize) -> Result<LoadRecord, Failure> {
    let mut traffic = TrafficServiceClient::new(connection.clone());
    let request = WatchTrafficRequest { account: "*".to_owned(), interval_ms: 0 };
    let sample = traffic.watch_traffic(request).await?.into_inner().message().await?;
    let closed = || Failure::new(Exit::Unavailable, "the gateway closed the stream");
    let sample = sample.ok_or_else(closed)?;
    let upstreams = traffic.list_upstream_health(ListUpstreamHealthRequest {}).await?;
    // Without `since`, which is about arrivals: a long request that has just ended counts.
    let request =
        ListRequestsRequest { filter: None, page_size: MAX_RECORDS, page_token: String::new() };
    let page = UsageServiceClient::new(connection.clone()).list_requests(request).await?;
    let page = page.into_inner();
    let is_complete = page.next_page_token.is_empty();
    let upstreams = upstreams.into_inner().upstreams;
    Ok(LoadRecord::of(&sample, &page.requests, is_complete, upstreams, rows))
}

fn show(
    shell: &mut Shell<'_>,
    load: &LoadRecord,
    problem: Option<&Failure>,
    height: Option<usize>,
) -> Result<(), Failure> {
    if shell.output.format() != Format::Table || shell.output.is_quiet() {
        return shell.output.one(load);
    }
    let text = render::render(load, &shell.output, problem, height);
    shell.output.text(&text)
}
