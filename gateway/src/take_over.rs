//! Passes the listening sockets from a running gateway to the process that replaces it (`gateway serve --take-over`).
//!
//! The running process offers its sockets on a Unix socket in the data directory:
//!
//! 1. The new process connects. It is sent a [`Hello`] with the listening sockets (`SCM_RIGHTS`).
//! 2. It validates its settings with them, reads its certificate, and checks that it supports the database.
//! 3. It sends [`GO`], or [`GO_ADOPTING`] if it accounts for requests that the old process continues. The old process
//!    answers [`STOPPING`] and shuts down as on SIGTERM: it stops accepting, and its requests finish. New connections
//!    wait in the queues of the sockets, which stay open in the new process.
//! 4. The old process has closed the store and released the lock of the data directory. The end of the connection says
//!    so, and the new process opens the store. Requests that take longer than others end in the old process afterwards,
//!    if the new one adopts them: see `hand_over`.
//!
//! Until step 3, the old process serves as before, whatever happens to the new one. The store and each journal always
//! have one writer.

mod request;

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

pub(crate) use self::request::RunningGateway;
use crate::connections::Listen;
use crate::listeners::{Listeners, SocketFile, UnixSocket};

/// The name of the Unix socket in the data directory.
const SOCKET: &str = "take-over.sock";
/// The maximum length of the path of a Unix socket.
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Sent by the new process when it can start.
const GO: u8 = b'g';
/// Sent instead of [`GO`] if the new process accounts for the requests in progress.
const GO_ADOPTING: u8 = b'a';
/// The answer of the old process, which stops now.
const STOPPING: u8 = b's';
/// How long the new process may take for its checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of an encoded [`Hello`], which contains one path.
const MAX_HELLO_BYTES: usize = 8 * 1024;

/// What the old process says with the sockets, as JSON. The first socket is the API's, the second the admin plane's.
#[derive(Debug, Deserialize, Serialize)]
struct Hello {
    /// How long the requests of the old process may take to finish, in milliseconds.
    drain_ms: u64,
    /// The path of the admin plane's socket, if it is a Unix socket.
    admin_path: Option<PathBuf>,
    /// Whether the file at this path belongs to the gateway, which removes it at its end.
    owns_admin_file: bool,
    /// Whether the gateway understands [`GO_ADOPTING`]. Earlier versions do not say it.
    #[serde(default)]
    hands_over_requests: bool,
}

/// Returns the path of the Unix socket in the data directory `dir`.
///
/// # Errors
/// It is longer than a socket's path can be.
fn socket_path(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join(SOCKET);
    if path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        return Ok(path);
    }
    let message = format!(
        "the path `{}` of the socket for `--take-over` has more than {MAX_SOCKET_PATH_BYTES} bytes; use a data directory \
         with a shorter path",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// The offer of a running gateway to pass on its listening sockets. While it exists, the queues of the sockets stay
/// open, so it must be dropped when a shutdown begins.
pub(crate) struct Offer {
    socket: UnixSocket,
    listening: [OwnedFd; 2],
    admin_file: Option<Arc<SocketFile>>,
    settings: OfferSettings,
}

/// What the process that takes over must know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OfferSettings {
    /// How long a shutdown takes at most.
    pub(crate) drain: Duration,
    /// Whether requests in progress can be handed over.
    pub(crate) hands_over_requests: bool,
}

/// How a process takes over.
pub(crate) struct TakeOver {
    /// The connection to it, which must be closed after the lock of the data directory was released.
    pub(crate) connection: UnixStream,
    /// Whether it accounts for the requests in progress.
    pub(crate) adopts_requests: bool,
}

// === impl Offer ===

impl Offer {
    /// Offers the sockets of `listeners` to a process with access to the data directory `dir`, which must be locked.
    ///
    /// # Errors
    /// The Unix socket cannot be bound, or its path is too long.
    pub(crate) fn new(
        dir: &Path,
        listeners: &Listeners,
        settings: OfferSettings,
    ) -> io::Result<Self> {
        Ok(Self {
            socket: UnixSocket::bind(&socket_path(dir)?)?,
            listening: listeners.duplicate()?,
            admin_file: listeners.admin.file(),
            settings,
        })
    }

    /// Waits until a new process takes over. The caller must stop accepting.
    pub(crate) async fn taken(self) -> TakeOver {
        loop {
            let Ok((mut connection, _)) = self.socket.accept().await else {
                // Without descriptors, for example. The listener stays usable.
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            };
            let passing = timeout(CHECK_TIMEOUT, self.pass_to(&mut connection)).await;
            match passing.unwrap_or_else(|elapsed| Err(elapsed.into())) {
                Ok(adopts_requests) => {
                    if let Some(file) = &self.admin_file {
                        file.set_ours(false);
                    }
                    tracing::info!("another process takes over: shutting down");
                    return TakeOver { connection, adopts_requests };
                }
                Err(error) => tracing::warn!(%error, "another process did not take over"),
            }
        }
    }

    /// Sends the sockets over `connection` and waits until the new process can start. Returns whether it accounts for
    /// the requests in progress.
    async fn pass_to(&self, connection: &mut UnixStream) -> io::Result<bool> {
        let (peer, own) = (connection.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
        if peer != own && peer != 0 {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it has another user"));
        }
        let hello = Hello {
            drain_ms: self.settings.drain.as_millis().try_into().unwrap_or(u64::MAX),
            admin_path: self.admin_file.as_ref().map(|file| file.path().to_owned()),
            owns_admin_file: self.admin_file.as_ref().is_some_and(|file| file.is_ours()),
            hands_over_requests: self.settings.hands_over_requests,
        };
        let hello = serde_json::to_vec(&hello)?;
        let sockets = self.listening.each_ref().map(AsFd::as_fd);
        let send = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&sockets));
            Ok(sendmsg(&*connection, &[IoSlice::new(&hello)], &mut control, SendFlags::NOSIGNAL)?)
        };
        // One message: it is far smaller than the buffer of a socket.
        if connection.async_io(Interest::WRITABLE, send).await? != hello.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let adopts_requests = match connection.read_u8().await? {
            GO => false,
            GO_ADOPTING if self.settings.hands_over_requests => true,
            _ => {
                let message = "it speaks another protocol";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        };
        connection.write_u8(STOPPING).await?;
        Ok(adopts_requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_too_long_for_a_socket_is_named() {
        let fitting = "d".repeat(MAX_SOCKET_PATH_BYTES - SOCKET.len() - 1);
        assert!(socket_path(Path::new(&fitting)).is_ok());
        let error = socket_path(Path::new(&format!("{fitting}d"))).unwrap_err().to_string();
        assert!(error.contains("107 bytes") && error.contains("take-over.sock"), "{error}");
    }
}
