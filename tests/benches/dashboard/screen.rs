//! Presses keys in a dashboard, and measures when it answers.

use std::time::{Duration, Instant};

use tests::Terminal;

/// A running dashboard.
pub(crate) struct Dashboard {
    terminal: Terminal,
    /// The start of the program.
    begun: Instant,
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Dashboard {
    pub(crate) fn new(terminal: Terminal, begun: Instant) -> Self {
        Self { terminal, begun }
    }

    /// Waits for what the dashboard shows by itself, and prints the time since its start.
    #[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
    pub(crate) async fn loaded(&mut self, name: &str, is_done: impl Fn(&str) -> bool) {
        self.terminal.wait_until(name, is_done).await;
        println!("{name:42} {:31.0} ms", millis(self.begun.elapsed()));
    }

    /// Presses keys, then opens and closes the help, and waits until the screen shows the result.
    #[expect(clippy::print_stdout, reason = "the benchmark prints its results")]
    #[expect(clippy::disallowed_methods, reason = "measures time")]
    pub(crate) async fn press(&mut self, name: &str, keys: &str, is_done: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        self.terminal.press(keys);
        self.terminal.press("?");
        self.terminal.wait_for_text("Help · ").await;
        let answered = begun.elapsed();
        self.terminal.press("q");
        self.terminal.wait_until_hidden("Help · ").await;
        self.terminal.wait_until(name, is_done).await;
        let done = begun.elapsed();
        println!("{name:42} next key {:6.0} ms, result {:6.0} ms", millis(answered), millis(done));
    }
}
