//! Writes log lines to standard error on a thread, so that no request waits for a terminal, a pipe or a disk.
//!
//! The queue is bounded. While it is full, lines are dropped, and their number is written once there is room.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::journal;

/// The number of lines that may wait; most have a few hundred bytes.
const MAX_WAITING_LINES: usize = 8_192;
/// How long the end of the process waits for the rest of the log: what it is written to may be blocked.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Queues the lines of the log.
#[derive(Clone)]
pub(super) struct LineQueue(Arc<Queue>);

/// Queues the lines of the log, perhaps with their levels for journald.
pub(super) struct LineWriter {
    queue: LineQueue,
    has_levels: bool,
}

struct Queue {
    /// `None` once the log has ended.
    lines: Mutex<Option<SyncSender<Vec<u8>>>>,
    /// The lines that were dropped since the last one that was written.
    dropped: Arc<AtomicU64>,
}

/// Waits for the rest of the log on drop, for at most two seconds.
pub struct LogGuard {
    queue: LineQueue,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

/// Collects the line of one event, and queues it on drop.
pub(super) struct Line<'a> {
    queue: &'a LineQueue,
    bytes: Vec<u8>,
}

/// Starts a thread that writes queued lines to `out`. `report` returns the line about a number of dropped ones.
///
/// # Errors
/// The system has no resources for a thread.
pub(super) fn start(
    mut out: impl Write + Send + 'static,
    report: fn(u64) -> Vec<u8>,
) -> io::Result<(LineQueue, LogGuard)> {
    let (sender, lines) = sync_channel(MAX_WAITING_LINES);
    let dropped = Arc::<AtomicU64>::default();
    let queue = Queue { lines: Mutex::new(Some(sender)), dropped: dropped.clone() };
    let queue = LineQueue(Arc::new(queue));
    let (running, ended) = sync_channel(0);
    let write = move || {
        write_all(&mut out, &lines, &dropped, report);
        drop(running);
    };
    thread::Builder::new().name("log".to_owned()).spawn(write)?;
    Ok((queue.clone(), LogGuard { queue, ended }))
}

fn write_all(
    out: &mut impl Write,
    lines: &Receiver<Vec<u8>>,
    dropped: &AtomicU64,
    report: fn(u64) -> Vec<u8>,
) {
    for line in lines {
        // There is nowhere to report that the log cannot be written.
        _ = out.write_all(&line);
        let dropped = dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            _ = out.write_all(&report(dropped));
        }
    }
    _ = out.flush();
}

// === impl LineQueue ===

impl LineQueue {
    /// Returns the writer of lines, which begin with the prefix of their level if `has_levels` is set.
    pub(super) fn with_levels(self, has_levels: bool) -> LineWriter {
        LineWriter { queue: self, has_levels }
    }

    fn push(&self, line: Vec<u8>) {
        let lines = self.0.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_queued = lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !is_queued {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

// === impl LineWriter ===

impl<'a> MakeWriter<'a> for LineWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        Line { queue: &self.queue, bytes: Vec::new() }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        let mut line = self.make_writer();
        if self.has_levels {
            line.bytes.extend_from_slice(journal::prefix(*metadata.level()).as_bytes());
        }
        line
    }
}

// === impl LogGuard ===

impl Drop for LogGuard {
    fn drop(&mut self) {
        // The thread ends after the lines that are queued.
        drop(self.queue.0.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        _ = self.ended.recv_timeout(END_TIMEOUT);
    }
}

// === impl Line ===

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.bytes.is_empty() {
            self.queue.push(one_line(std::mem::take(&mut self.bytes)));
        }
    }
}

/// Returns the text of an event as one line: a name or a message from outside must not begin another one.
fn one_line(bytes: Vec<u8>) -> Vec<u8> {
    let text = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    if !text.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return bytes;
    }
    let mut line = Vec::with_capacity(bytes.len() + 8);
    for byte in text {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            byte => line.push(*byte),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// Passes on what is written, and waits for a permit before each write.
    struct Gate {
        permits: Receiver<()>,
        written: std::sync::mpsc::Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Without a sender, nothing waits.
            _ = self.permits.recv();
            _ = self.written.send(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_blocked_log_drops_lines_counts_them_and_ends_with_all_that_were_queued() {
        let ((permit, permits), (written, lines)) = (channel(), channel());
        let report = |dropped| format!("dropped {dropped}\n").into_bytes();
        let (queue, guard) = start(Gate { permits, written }, report).unwrap();
        let writer = queue.with_levels(false);
        let log = |text: &str| writer.make_writer().write_all(text.as_bytes()).unwrap();
        log("first\n");
        // The thread may have taken one line out of the queue.
        for _ in 0..MAX_WAITING_LINES + 10 {
            log("line\n");
        }
        drop(permit);
        drop(guard);
        let lines: Vec<_> = lines.into_iter().collect();
        assert_eq!(lines[0], "first\n");
        let dropped: usize = lines[1].trim().strip_prefix("dropped ").unwrap().parse().unwrap();
        assert!((10..=11).contains(&dropped), "{dropped}");
        assert_eq!(
            lines.iter().filter(|line| *line == "line\n").count() + dropped,
            MAX_WAITING_LINES + 10
        );
    }

    #[test]
    fn a_name_with_line_ends_stays_on_its_line() {
        let line = |text: &str| String::from_utf8(one_line(text.into())).unwrap();
        assert_eq!(line("INFO model=a\n"), "INFO model=a\n");
        assert_eq!(line("INFO model=a\r\nERROR forged\n"), "INFO model=a\\r\\nERROR forged\n");
    }
}
