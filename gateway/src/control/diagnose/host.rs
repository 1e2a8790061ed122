//! The host: its clock, its disk, and how many files it lets us open.

use std::path::PathBuf;

use jiff::Timestamp;
use rustix::process::{Resource, getrlimit};

use super::{Finding, blocking};

/// No clock that is right says less: 1 January 2026, in seconds since 1970.
const EARLIEST: i64 = 1_767_225_600;
const MIB: u64 = 1024 * 1024;
/// Below these, in bytes and in hundredths of the disk, space is short, and below that it is gone.
const LITTLE_SPACE: u64 = 2 * 1024 * MIB;
const LITTLE_SHARE: u64 = 5;
const NO_SPACE: u64 = 128 * MIB;
/// A request under way takes two files: its client's connection and its upstream's.
const FEW_FILES: u64 = 4_096;
const TOO_FEW_FILES: u64 = 256;

pub(super) fn clock(now: Timestamp) -> Finding {
    if now.as_second() < EARLIEST {
        let remedy = "set the clock of the gateway's host, and keep it right with NTP";
        return Finding::problem(format!("the clock says {now:.0}, which is over"), remedy);
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
            let text = format!("the disk cannot be asked for its space: {error}");
            Finding::problem(text, "see whether the disk of the data directory is there")
        })]
    })
    .await
}

fn space(free: u64, whole: u64) -> Finding {
    let share = (free / MIB).saturating_mul(100) / (whole / MIB).max(1);
    let text = format!("{} MiB are free, {share} % of the disk", free / MIB);
    let remedy = "make room on the disk, move the data directory, or keep records for a shorter time \
        (`records_keep_days`)";
    if free < NO_SPACE {
        Finding::problem(text, remedy)
    } else if free < LITTLE_SPACE || share < LITTLE_SHARE {
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

fn open_files(open: u64, most: Option<u64>) -> Finding {
    let Some(most) = most else {
        return Finding::ok(format!("{open} files are open, and there is no limit"));
    };
    let text = format!("{open} files are open of {most} that may be");
    let remedy = "raise the limit: `LimitNOFILE=` in a systemd unit, `ulimit -n` in a shell";
    if most < TOO_FEW_FILES || open.saturating_mul(10) > most.saturating_mul(9) {
        Finding::problem(text, remedy)
    } else if most < FEW_FILES || open.saturating_mul(2) > most {
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
    fn a_clock_that_was_never_set_is_a_problem() {
        let at = |text: &str| clock(text.parse().unwrap());
        assert_eq!(at("2026-11-20T10:00:00.5Z").text, "the clock says 2026-11-20T10:00:00Z");
        assert_eq!(at("2026-11-20T10:00:00Z").severity, Ok);
        assert_eq!(at("1970-01-01T00:10:00Z").severity, Problem);
    }

    #[test]
    fn space_is_judged_by_bytes_and_by_share() {
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
    fn files_are_judged_by_their_limit_and_by_what_is_left() {
        for (open, most, expected) in [
            (10, None, Ok),
            (10, Some(65_536), Ok),
            (10, Some(1_024), Warning),
            (5_000, Some(8_192), Warning),
            (8_000, Some(8_192), Problem),
            (10, Some(64), Problem),
        ] {
            let found = open_files(open, most);
            assert_eq!(found.severity, expected, "{open} of {most:?}");
            assert_eq!(found.remedy.is_empty(), expected == Ok);
        }
    }
}
