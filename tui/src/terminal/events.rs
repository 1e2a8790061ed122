//! What the terminal reports, and that it is gone.
//!
//! A thread of its own waits for keys. A terminal that has hung up is to crossterm one that will have
//! something to read in a moment, so it tries again for ever in whoever waits; its `EventStream` lets
//! the event loop wait, which then learns of no signal either. Here a second thread learns from the
//! system that the terminal is gone. Both end with the process.

use anyhow::{Context, Result};
use crossterm::event::{Event, read};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use std::io::{self, IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

/// How many events may wait to be taken in; more wait in the terminal.
const EVENT_QUEUE_CAPACITY: usize = 64;

/// Keys, mouse and size of the terminal, as they come.
#[derive(Debug)]
pub struct Events {
    /// Events; nothing, when the terminal is gone.
    events: mpsc::Receiver<Option<io::Result<Event>>>,
}

impl Events {
    /// Begins to listen, for as long as the process runs.
    ///
    /// # Errors
    /// The system gives no thread for it.
    pub fn listen() -> Result<Self> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
        let line = sender.clone();
        spawn_thread("events", move || {
            loop {
                let event = match read() {
                    // so it says, too, that the terminal is gone
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => None,
                    event => Some(event),
                };
                let last = !matches!(event, Some(Ok(_)));
                if sender.blocking_send(event).is_err() || last {
                    return;
                }
            }
        })?;
        spawn_thread("line", move || {
            wait_for_hangup();
            // fails only when the program is ending
            let _ = line.blocking_send(None);
        })?;
        Ok(Self { events })
    }

    /// Waits for the next one; `None` when the terminal is gone. Cancel safe.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await.flatten()
    }
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).context("starting a thread")?;
    Ok(())
}

/// Waits until nothing can come from the terminal any more.
fn wait_for_hangup() {
    let (input, output) = (stdin(), stdout());
    // if standard input is none, crossterm reads that of the process: most likely the screen's
    let line: BorrowedFd<'_> = if input.is_terminal() { input.as_fd() } else { output.as_fd() };
    // nothing is asked for, so keys wake nobody here; that it has hung up is told all the same
    let mut lines = [PollFd::from_borrowed_fd(line, PollFlags::empty())];
    while poll(&mut lines, None) == Err(Errno::INTR) {}
}
