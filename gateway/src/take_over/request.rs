//! The side of the new process: receives the sockets of the running gateway, has it stop, and waits for its end.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::{CHECK_TIMEOUT, GO, GO_ADOPTING, Hello, MAX_HELLO_BYTES, STOPPING, socket_path};
use crate::listeners::InheritedSockets;

/// How long the old process may take to end after its requests have: it writes records and closes the store.
const CLOSE_TIMEOUT: Duration = Duration::from_mins(1);

/// A running gateway that has sent its sockets and waits for the word to stop.
pub(crate) struct RunningGateway {
    connection: UnixStream,
    hello: Hello,
}

// === impl RunningGateway ===

impl RunningGateway {
    /// Connects to the gateway that uses `dir`, and receives its sockets. Returns `None` if there is no gateway.
    ///
    /// # Errors
    /// The path of the socket is too long, the connection fails, or the gateway speaks another protocol.
    pub(crate) async fn find(dir: &Path) -> Result<Option<(Self, InheritedSockets)>> {
        let path = socket_path(dir)?;
        let connection = match UnixStream::connect(&path).await {
            Ok(connection) => connection,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("connecting to `{}`", path.display()));
            }
        };
        let received = timeout(CHECK_TIMEOUT, receive(&connection)).await;
        let (hello, sockets) =
            received.context("the running gateway does not send its sockets")??;
        let [http, admin] = <[OwnedFd; 2]>::try_from(sockets)
            .map_err(|_| anyhow::anyhow!("the running gateway has not sent two sockets"))?;
        let sockets = InheritedSockets::from_gateway(http, admin, hello.admin_path.clone());
        Ok(Some((Self { connection, hello }, sockets)))
    }

    /// Has the gateway stop, and waits until it has released the data directory: at its end or, if this process
    /// `adopts_requests`, perhaps before. Returns whether the file of the admin plane's socket belongs to this
    /// process now.
    ///
    /// # Errors
    /// It serves on, because this process took too long, or it has not ended in time.
    pub(crate) async fn stop(mut self, adopts_requests: bool) -> Result<bool> {
        let adopts_requests = adopts_requests && self.hello.hands_over_requests;
        let asked = async {
            self.connection.write_u8(if adopts_requests { GO_ADOPTING } else { GO }).await?;
            self.connection.read_u8().await
        };
        if !matches!(timeout(CHECK_TIMEOUT, asked).await, Ok(Ok(STOPPING))) {
            bail!("the running gateway did not wait for this one, and serves as before; try again");
        }
        let drain = Duration::from_millis(self.hello.drain_ms);
        tracing::info!(
            drain_ms = drain.as_millis(),
            "taking over: waiting until the running gateway releases the data directory"
        );
        // It ends the connection by closing it; an error says the same.
        let ended = timeout(drain.saturating_add(CLOSE_TIMEOUT), self.connection.read_u8()).await;
        ended.context("the running gateway stops, but has not ended in time; kill it")?.ok();
        Ok(self.hello.owns_admin_file)
    }
}

/// Returns whether an error says that no process listens.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Receives the one message with sockets.
async fn receive(connection: &UnixStream) -> Result<(Hello, Vec<OwnedFd>)> {
    let mut text = vec![0; MAX_HELLO_BYTES];
    let mut sockets = Vec::new();
    let receive = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let into = &mut [IoSliceMut::new(&mut text)];
        let received = recvmsg(connection, into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = message {
                sockets.extend(passed);
            }
        }
        Ok(received.bytes)
    };
    let length = connection.async_io(Interest::READABLE, receive).await?;
    let hello = serde_json::from_slice(&text[..length]);
    Ok((hello.context("the running gateway speaks another protocol")?, sockets))
}
