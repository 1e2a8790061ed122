//! The levels of journald, and whether standard error is its stream.

use tracing::Level;

/// Returns what journald takes for the level of a line at its beginning (`sd-daemon(3)`).
pub(super) const fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    }
}

/// Returns whether standard error is the stream that `text`, the value of `JOURNAL_STREAM`, names by device and inode
/// (`systemd.exec(5)`). A process that was started by a service with another standard error inherits the variable.
pub(super) fn is_standard_error(text: &str) -> bool {
    let Ok(stat) = rustix::fs::fstat(std::io::stderr()) else { return false };
    names(text, stat.st_dev, stat.st_ino)
}

fn names(text: &str, device: u64, inode: u64) -> bool {
    text.split_once(':').is_some_and(|(named_device, named_inode)| {
        named_device.parse() == Ok(device) && named_inode.parse() == Ok(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_named_by_device_and_inode() {
        assert!(names("9:4711", 9, 4711));
        for text in ["9:4712", "8:4711", "4711", "", ":", "x:4711"] {
            assert!(!names(text, 9, 4711), "{text}");
        }
        assert!(!is_standard_error("0:0"));
    }

    #[test]
    fn levels_are_those_of_syslog() {
        let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
        assert_eq!(levels.map(prefix), ["<3>", "<4>", "<6>", "<7>", "<7>"]);
    }
}
