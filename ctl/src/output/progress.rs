//! How far it is, on a line of stderr that is written over; only for somebody at a terminal.

use std::future::Future;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::{Output, chart};

/// How many cells the bar of a long work has.
const BAR: usize = 24;

impl Output<'_> {
    /// Says how much is done of how much, if that is known.
    pub(crate) fn progress(&mut self, done: u64, whole: Option<u64>, unit: &str) {
        let text = match whole {
            Some(whole) => {
                let bar = chart::bar(chart::ratio(done, whole), BAR, self.environment.unicode);
                let rest = " ".repeat(BAR - bar.chars().count().min(BAR));
                format!("[{bar}{rest}] {done} of {whole} {unit}")
            }
            None => format!("{done} {unit}"),
        };
        self.say(text);
    }

    /// Wipes out what was said of a work that is done.
    pub(crate) fn end_progress(&mut self) {
        self.say(String::new());
    }

    /// Waits for a work that does not say how far it is, and tells for how long it has been going on.
    pub(crate) async fn waiting<T>(&mut self, what: &str, work: impl Future<Output = T>) -> T {
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
                    self.say(format!("{what}: {seconds} s"));
                    seconds += 1;
                }
            }
        }
    }

    fn say(&mut self, text: String) {
        // Somebody waits at a terminal, and wants to know.
        let watched = self.environment.interactive && !self.quiet;
        if watched && self.progress != text {
            // Talk that nobody can hear is no failure.
            let _ = write!(self.err, "\r{text}\u{1b}[K");
            let _ = self.err.flush();
            self.progress = text;
        }
    }
}
