//! The progress line: one line of stderr, rewritten in place, only on a terminal.

use std::future::Future;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Output, chart};

/// The width of the progress bar, in cells.
const BAR_WIDTH: usize = 24;

impl Output<'_> {
    /// Shows the progress: a bar if the `total` is known, else the amount done.
    pub(crate) fn progress(&mut self, done: u64, total: Option<u64>, unit: &str) {
        let text = match total {
            Some(total) => {
                let bar = chart::bar(chart::ratio(done, total), BAR_WIDTH, self.unicode());
                let rest = " ".repeat(BAR_WIDTH - bar.chars().count().min(BAR_WIDTH));
                format!("[{bar}{rest}] {done} of {total} {unit}")
            }
            None => format!("{done} {unit}"),
        };
        self.set_progress_line(text);
    }

    /// Clears the progress line.
    pub(crate) fn end_progress(&mut self) {
        self.set_progress_line(String::new());
    }

    /// Drives a future without progress information, and shows the elapsed seconds.
    pub(crate) async fn with_timer<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut seconds = 0;
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.end_progress();
                    return done;
                }
                _ = ticks.tick() => {
                    self.set_progress_line(format!("{what}: {seconds} s"));
                    seconds += 1;
                }
            }
        }
    }

    fn set_progress_line(&mut self, text: String) {
        let is_visible = self.environment.interactive && !self.quiet;
        if is_visible && self.progress != text {
            // A closed stderr does not fail the command.
            let _ = write!(self.err, "\r{text}\u{1b}[K");
            let _ = self.err.flush();
            self.progress = text;
        }
    }
}
