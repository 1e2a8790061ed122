//! Reads terminal events and detects a hang-up.
//!
//! One thread blocks in crossterm's `read`. Crossterm treats a hung-up terminal as readable soon,
//! so its blocking reader retries forever. Its `EventStream` would block the event loop in the same
//! way, and signals would no longer be handled. Therefore a second thread detects the hang-up with
//! `poll`. Both threads run until the process ends.

use anyhow::{Context, Result};
use crossterm::event::{Event, read};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use std::io::{self, IsTerminal, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

/// The capacity of the event channel. While it is full, further input waits in the terminal.
const EVENT_QUEUE_CAPACITY: usize = 64;

/// Key, mouse, paste and resize events.
#[derive(Debug)]
pub struct Events {
    /// The channel of events. `None` means that the terminal is gone.
    events: mpsc::Receiver<Option<io::Result<Event>>>,
}

impl Events {
    /// Starts reading events. The reader threads run until the process ends.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub fn listen() -> Result<Self> {
        let (sender, events) = mpsc::channel(EVENT_QUEUE_CAPACITY);
        let hangup = sender.clone();
        spawn_thread("events", move || {
            loop {
                let event = match read() {
                    // `EIO` also means that the terminal is gone.
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => None,
                    event => Some(event),
                };
                let last = !matches!(event, Some(Ok(_)));
                if sender.blocking_send(event).is_err() || last {
                    return;
                }
            }
        })?;
        spawn_thread("hangup", move || {
            wait_for_hangup();
            // Fails only during shutdown.
            let _ = hangup.blocking_send(None);
        })?;
        Ok(Self { events })
    }

    /// Returns the next event, or `None` if the terminal is gone.
    ///
    /// # Cancel safety
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await.flatten()
    }
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(work).context("starting a thread")?;
    Ok(())
}

/// Blocks until the terminal hangs up.
fn wait_for_hangup() {
    let (input, output) = (stdin(), stdout());
    // If standard input is not a terminal, crossterm reads the controlling terminal, most likely
    // the one that standard output writes to.
    let terminal: BorrowedFd<'_> = if input.is_terminal() { input.as_fd() } else { output.as_fd() };
    // No events are requested, so input does not wake this thread; a hang-up is always reported.
    let mut fds = [PollFd::from_borrowed_fd(terminal, PollFlags::empty())];
    while poll(&mut fds, None) == Err(Errno::INTR) {}
}
