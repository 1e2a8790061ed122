//! Checks of the host: clock, disk space and the limit of open files.

use std::path::PathBuf;

use jiff::Timestamp;
use rustix::process::{Resource, getrlimit};

use super::{Finding, blocking};
use crate::webhooks::EndpointStatus;

/// The earliest plausible time, 1 January 2026, in seconds since 1970.
const MIN_CLOCK_SECONDS: i64 = 1_767_225_600;
const MIB: u64 = 1024 * 1024;
/// Free space below this is a warning, in bytes.
const LOW_SPACE_BYTES: u64 = 2 * 1024 * MIB;
/// Free space below this share of the disk is a warning, in percent.
const LOW_SPACE_PERCENT: u64 = 5;
/// Free space below this is a problem, in bytes.
const MIN_SPACE_BYTES: u64 = 128 * MIB;
/// A limit of open files below this is a warning. A request in flight uses two: the connections of
/// the client and of the upstream.
const LOW_FILE_LIMIT: u64 = 4_096;
/// The longest time between two scrapes; Prometheus takes a series for gone after it.
const MAX_SCRAPE_INTERVAL_SECONDS: i64 = 5 * 60;
/// A limit of open files below this is a problem.
const MIN_FILE_LIMIT: u64 = 256;

pub(super) fn clock(now: Timestamp) -> Finding {
    if now.as_second() < MIN_CLOCK_SECONDS {
        let remedy = "set the clock of the gateway's host, and keep it right with NTP";
        return Finding::problem(format!("the clock says {now:.0}, which is in the past"), remedy);
    }
    Finding::ok(format!("the clock says {now:.0}"))
}

pub(super) async fn disk(dir: PathBuf) -> Vec<Finding> {
    blocking(move || {
        let found = rustix::fs::statvfs(&dir).map(|disk| {
            let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
            space(bytes(disk.f_bavail), bytes(disk.f_blocks))
        });
        vec![found.unwrap_or_else(|error| {
            let text = format!("the free space of the disk cannot be read: {error}");
            Finding::problem(text, "check that the disk of the data directory is mounted")
        })]
    })
    .await
}

fn space(free: u64, whole: u64) -> Finding {
    let percent = (free / MIB).saturating_mul(100) / (whole / MIB).max(1);
    let text = format!("{} MiB are free, {percent} % of the disk", free / MIB);
    let remedy = "make room on the disk, move the data directory, or keep records for a shorter time \
        (`records_keep_days`)";
    if free < MIN_SPACE_BYTES {
        Finding::problem(text, remedy)
    } else if free < LOW_SPACE_BYTES || percent < LOW_SPACE_PERCENT {
        Finding::warning(text, remedy)
    } else {
        Finding::ok(text)
    }
}

pub(super) async fn files() -> Vec<Finding> {
    blocking(|| {
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
        vec![open_files(open, getrlimit(Resource::Nofile).current)]
    })
    .await
}

/// Returns the finding about the metrics, which were scraped at `last`.
pub(super) fn metrics(last: Option<Timestamp>, now: Timestamp) -> Finding {
    let remedy = "add the address to a job of Prometheus, as in examples/observability, and look at its targets";
    let Some(last) = last else {
        return Finding::warning("they were not scraped since the start", remedy);
    };
    let seconds = now.duration_since(last).as_secs().max(0);
    let text = format!("the last scrape was {seconds} s ago");
    if seconds > MAX_SCRAPE_INTERVAL_SECONDS {
        Finding::warning(text, remedy)
    } else {
        Finding::ok(text)
    }
}

/// Returns the finding about the deliveries to an endpoint of webhooks.
pub(super) fn webhooks(status: &EndpointStatus) -> Finding {
    let remedy = "see whether the receiver runs, and try `ctl webhook test`";
    let dropped = match status.dropped {
        0 => String::new(),
        dropped => format!("; {dropped} were dropped since the start"),
    };
    if let Some((at, failure)) = &status.failure {
        return Finding::problem(
            format!("the last attempt, at {at:.0}, failed: {failure}{dropped}"),
            remedy,
        );
    }
    let text = status.delivered_at.map_or_else(
        || "nothing was sent since the start".to_owned(),
        |at| format!("the last delivery was at {at:.0}"),
    );
    if status.dropped > 0 { Finding::warning(text + &dropped, remedy) } else { Finding::ok(text) }
}

fn open_files(open: u64, limit: Option<u64>) -> Finding {
    let Some(limit) = limit else {
        return Finding::ok(format!("{open} files are open, and there is no limit"));
    };
    let text = format!("{open} of at most {limit} files are open");
    let remedy = "raise the limit: `LimitNOFILE=` in a systemd unit, `ulimit -n` in a shell";
    if limit < MIN_FILE_LIMIT || open.saturating_mul(10) > limit.saturating_mul(9) {
        Finding::problem(text, remedy)
    } else if limit < LOW_FILE_LIMIT || open.saturating_mul(2) > limit {
        Finding::warning(text, remedy)
    } else {
        Finding::ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity::{Ok, Problem, Warning};
    use super::*;

    #[test]
    fn an_unset_clock_is_a_problem() {
        let at = |text: &str| clock(text.parse().unwrap());
        assert_eq!(at("2026-11-20T10:00:00.5Z").text, "the clock says 2026-11-20T10:00:00Z");
        assert_eq!(at("2026-11-20T10:00:00Z").severity, Ok);
        assert_eq!(at("1970-01-01T00:10:00Z").severity, Problem);
    }

    #[test]
    fn disk_space_severity_depends_on_bytes_and_share() {
        const GIB: u64 = 1024 * MIB;
        for (free, whole, expected) in [
            (100 * GIB, 500 * GIB, Ok),
            (10 * GIB, 500 * GIB, Warning),
            (GIB, 2 * GIB, Warning),
            (100 * MIB, 2 * GIB, Problem),
            (0, 0, Problem),
        ] {
            assert_eq!(space(free, whole).severity, expected, "{free} of {whole}");
        }
    }

    #[test]
    fn metrics_without_scrapes_are_a_warning() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (last, expected) in [(None, Warning), (Some(100), Ok), (Some(-300), Warning)] {
            let found = metrics(last.map(at), at(105));
            assert_eq!(found.severity, expected, "{last:?}");
            assert_eq!(found.remedy.is_empty(), expected == Ok);
        }
    }

    #[test]
    fn webhooks_that_fail_are_a_problem_and_dropped_ones_a_warning() {
        let at = Timestamp::from_second(1_795_608_000).unwrap();
        let delivered = EndpointStatus { delivered_at: Some(at), ..EndpointStatus::default() };
        let dropped = EndpointStatus { dropped: 2, ..delivered.clone() };
        let failure = Some((at, "it answered HTTP 500".to_owned()));
        let failing = EndpointStatus { failure, ..dropped.clone() };
        for (status, severity, text) in [
            (EndpointStatus::default(), Ok, "nothing was sent since the start"),
            (delivered, Ok, "the last delivery was at 2026-11-25T12:00:00Z"),
            (dropped, Warning, "at 2026-11-25T12:00:00Z; 2 were dropped since the start"),
            (failing, Problem, "failed: it answered HTTP 500; 2 were dropped"),
        ] {
            let found = webhooks(&status);
            assert_eq!(found.severity, severity, "{found:?}");
            assert!(found.text.contains(text), "{found:?}");
        }
    }

    #[test]
    fn open_files_severity_depends_on_limit_and_use() {
        for (open, limit, expected) in [
            (10, None, Ok),
            (10, Some(65_536), Ok),
            (10, Some(1_024), Warning),
            (5_000, Some(8_192), Warning),
            (8_000, Some(8_192), Problem),
            (10, Some(64), Problem),
        ] {
            let found = open_files(open, limit);
            assert_eq!(found.severity, expected, "{open} of {limit:?}");
            assert_eq!(found.remedy.is_empty(), expected == Ok);
        }
    }
}
