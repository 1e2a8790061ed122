//! The settings of scheduled backups.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::backups::BackupSettings;

const DEFAULT_KEEP: usize = 7;
const MIN_INTERVAL: Duration = Duration::from_mins(1);

/// Validates the settings; `None` without scheduled backups.
///
/// # Errors
/// The interval is not a time, or shorter than a minute; no backup would be kept.
pub(super) fn resolve(
    every: Option<&str>,
    keep: Option<usize>,
    dir: PathBuf,
) -> Result<Option<BackupSettings>> {
    let Some(text) = every.filter(|text| !matches!(*text, "" | "0")) else { return Ok(None) };
    let every = interval(text).with_context(|| {
        format!("`backup_every` is `{text}`; set a time such as `30m`, `6h` or `1d`")
    })?;
    ensure!(every >= MIN_INTERVAL, "`backup_every` is `{text}`; the minimum is `1m`");
    let keep = NonZeroUsize::new(keep.unwrap_or(DEFAULT_KEEP))
        .context("`backup_keep` is 0; set at least 1, or `backup_every = \"0\"` for no backups")?;
    Ok(Some(BackupSettings { every, keep, dir }))
}

/// Parses a number with a unit: `m`, `h` or `d`.
fn interval(text: &str) -> Option<Duration> {
    let (number, seconds) = match text.split_at_checked(text.len().checked_sub(1)?)? {
        (number, "m") => (number, 60),
        (number, "h") => (number, 60 * 60),
        (number, "d") => (number, 24 * 60 * 60),
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u32>().ok().map(u64::from)? * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_has_a_unit() {
        let every = |text| resolve(Some(text), None, "b".into());
        for (text, minutes) in [("30m", 30), ("6h", 360), ("1d", 1_440)] {
            assert_eq!(every(text).unwrap().unwrap().every, Duration::from_mins(minutes));
        }
        assert_eq!((every("").unwrap(), every("0").unwrap()), (None, None));
        for wrong in ["30", "h", "-1h", "0m", "1w", "1é", "99999999999d"] {
            assert!(every(wrong).unwrap_err().to_string().contains("`backup_every`"), "{wrong}");
        }
        let error = resolve(Some("1h"), Some(0), "b".into()).unwrap_err().to_string();
        assert!(error.contains("`backup_keep`"), "{error}");
    }
}
