//! Writes log lines to standard error on a thread, so that no request waits for a terminal, a pipe or a disk.
//!
//! The lines that wait are in one buffer, which the thread takes as a whole. The buffer is bounded: while it is full, lines
//! are dropped, and their number is written once there is room.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::journal;

/// The length of the lines that may wait, in bytes: about ten thousand.
const MAX_WAITING_BYTES: usize = 4 * 1024 * 1024;
/// The memory of a buffer that is kept while nothing waits, in bytes: more than a batch of the access log takes.
pub(super) const KEPT_BYTES: usize = 512 * 1024;
/// The most that is written at once, in bytes, unless a line is longer. A pipe takes as much as a whole (`PIPE_BUF`), so
/// that no line of another process, such as the one that is replaced, comes in between.
const WRITE_BYTES: usize = 4_096;
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

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whole lines.
    lines: Vec<u8>,
    /// The number of lines that were dropped since the last report.
    dropped: u64,
    has_ended: bool,
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
    let queue = LineQueue(Arc::default());
    let (running, ended) = sync_channel(0);
    let written = queue.0.clone();
    let write = move || {
        write_all(&mut out, &written, report);
        drop(running);
    };
    thread::Builder::new().name("log".to_owned()).spawn(write)?;
    Ok((queue.clone(), LogGuard { queue, ended }))
}

fn write_all(out: &mut impl Write, queue: &Queue, report: fn(u64) -> Vec<u8>) {
    let mut lines = Vec::new();
    while let Some(dropped) = queue.take(&mut lines) {
        // There is nowhere to report that the log cannot be written.
        pieces(&lines).for_each(|piece| _ = out.write_all(piece));
        if dropped > 0 {
            _ = out.write_all(&report(dropped));
        }
        lines.clear();
        lines.shrink_to(KEPT_BYTES);
    }
    _ = out.flush();
}

/// Returns what is written at once: as many lines as fit into [`WRITE_BYTES`], or one longer line.
fn pieces(mut lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let fitting = &lines[..lines.len().min(WRITE_BYTES)];
        let end = memchr::memrchr(b'\n', fitting).or_else(|| memchr::memchr(b'\n', lines));
        let (piece, rest) = lines.split_at(end.map_or(lines.len(), |end| end + 1));
        lines = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

// === impl Queue ===

impl Queue {
    /// Waits for lines, moves them to `lines`, which is empty, and returns the number of those that were dropped behind
    /// them; `None` at the end.
    fn take(&self, lines: &mut Vec<u8>) -> Option<u64> {
        let is_idle =
            |state: &mut State| state.lines.is_empty() && state.dropped == 0 && !state.has_ended;
        let waited = self.changed.wait_while(self.lock(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.lines, lines);
        let dropped = std::mem::take(&mut state.dropped);
        (!lines.is_empty() || dropped > 0).then_some(dropped)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl LineQueue ===

impl LineQueue {
    /// Returns the writer of lines, which begin with the prefix of their level if `has_levels` is set.
    pub(super) fn with_levels(self, has_levels: bool) -> LineWriter {
        LineWriter { queue: self, has_levels }
    }

    /// Queues lines, each of which has its end. Those for which there is no room are dropped.
    pub(super) fn push(&self, lines: &[u8]) {
        let mut state = self.0.lock();
        let room = MAX_WAITING_BYTES.saturating_sub(state.lines.len());
        let fitting = if state.has_ended {
            0
        } else if lines.len() <= room {
            lines.len()
        } else {
            memchr::memrchr(b'\n', &lines[..room]).map_or(0, |end| end + 1)
        };
        let (fitting, rest) = lines.split_at(fitting);
        state.lines.extend_from_slice(fitting);
        state.dropped += memchr::memchr_iter(b'\n', rest).count() as u64;
        drop(state);
        self.0.changed.notify_one();
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
        self.queue.0.lock().has_ended = true;
        self.queue.0.changed.notify_one();
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
            self.queue.push(&one_line(std::mem::take(&mut self.bytes)));
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
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// Passes on what is written. Before each write, it reports that, and waits for a permit.
    struct Gate {
        asked: Sender<()>,
        permits: Receiver<()>,
        written: Sender<String>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            _ = self.asked.send(());
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
        let ((asked, asking), (permit, permits), (written, pieces)) =
            (channel(), channel(), channel());
        let report = |dropped| format!("dropped {dropped}\n").into_bytes();
        let (queue, guard) = start(Gate { asked, permits, written }, report).unwrap();
        let line = format!("{}\n", "x".repeat(1_000));
        let log = |lines: usize| queue.push(line.repeat(lines).as_bytes());
        log(1);
        asking.recv().unwrap();
        // The thread has the first line, and is blocked.
        let room = MAX_WAITING_BYTES / line.len();
        log(room - 1);
        log(11);
        drop(permit);
        drop(guard);
        let pieces: Vec<_> = pieces.into_iter().collect();
        let all = pieces.concat();
        assert!(pieces.iter().all(|piece| piece.len() <= WRITE_BYTES));
        assert_eq!(all.strip_suffix("dropped 10\n").unwrap(), line.repeat(1 + room));
    }

    #[test]
    fn lines_are_written_together_as_far_as_a_pipe_takes_them_as_a_whole() {
        let long = format!("{}\n", "x".repeat(5_000));
        let lines = format!("{}{long}last\nunended", "12345\n".repeat(1_000));
        let written: Vec<_> = pieces(lines.as_bytes()).collect();
        assert_eq!(written.concat(), lines.as_bytes());
        let lengths: Vec<_> = written.iter().map(|piece| piece.len()).collect();
        assert_eq!(lengths, [4_092, 1_908, 5_001, 5, 7]);
    }

    #[test]
    fn a_name_with_line_ends_stays_on_its_line() {
        let line = |text: &str| String::from_utf8(one_line(text.into())).unwrap();
        assert_eq!(line("INFO model=a\n"), "INFO model=a\n");
        assert_eq!(line("INFO model=a\r\nERROR forged\n"), "INFO model=a\\r\\nERROR forged\n");
    }
}
