//! The bound sockets of a gateway. They are bound before the start, so that tests can use port 0.

mod inherited;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};

pub use self::inherited::InheritedSockets;
use crate::config::AdminAddress;
use crate::connections::Listen;

/// The bound sockets of a gateway.
pub struct Listeners {
    /// The API's socket.
    pub http: TcpListener,
    /// The admin plane's socket.
    pub admin: AdminListener,
    /// The socket of the metrics, if they are served.
    pub metrics: Option<TcpListener>,
}

/// The admin plane's socket.
pub enum AdminListener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixSocket),
}

/// A Unix socket.
pub struct UnixSocket {
    listener: UnixListener,
    file: Arc<SocketFile>,
}

/// The file of a Unix socket. It is removed on drop, unless it belongs to another process.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    is_ours: AtomicBool,
}

/// The longest queue of connections that are not accepted yet; the system may allow less. The kernel drops the
/// handshakes of a burst that exceeds it, and their clients repeat them after a second or are reset.
const BACKLOG: u32 = 4_096;

/// Listens on `address`.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Listens on `address`, which `flag` changes.
fn listen_tcp(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    listen(address)
        .with_context(|| format!("listening on {address}; choose another address with {flag}"))
}

impl Listeners {
    /// Binds both addresses. Must be called within a runtime.
    ///
    /// # Errors
    /// An address is in use or not local.
    pub fn bind(http: SocketAddr, admin: impl Into<AdminAddress>) -> Result<Self> {
        Self::bind_rest(InheritedSockets::default(), http, admin)
    }

    /// Uses the `inherited` sockets, and binds the addresses of those that are missing.
    ///
    /// # Errors
    /// An address is in use or not local, or an inherited socket is not usable.
    pub fn bind_rest(
        inherited: InheritedSockets,
        http: SocketAddr,
        admin: impl Into<AdminAddress>,
    ) -> Result<Self> {
        let InheritedSockets { http: inherited_http, admin: inherited_admin } = inherited;
        let http = match inherited_http {
            Some(listener) => {
                let used =
                    listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
                used.context("using the socket of the API")?
            }
            None => listen_tcp(http, "--listen")?,
        };
        if let Some(admin) = inherited_admin {
            let admin = admin.listen().context("using the socket of the admin plane")?;
            return Ok(Self { http, admin, metrics: None });
        }
        let admin = match admin.into() {
            AdminAddress::Tcp(address) => {
                AdminListener::Tcp(listen_tcp(address, "--admin-listen")?)
            }
            AdminAddress::Unix(path) => {
                AdminListener::Unix(UnixSocket::bind(&path).with_context(|| {
                    format!(
                        "listening on `{}`; choose another path with --admin-listen",
                        path.display()
                    )
                })?)
            }
        };
        Ok(Self { http, admin, metrics: None })
    }

    /// Binds the address of the metrics, if there is one.
    ///
    /// # Errors
    /// It is in use or not local.
    pub fn with_metrics(self, address: Option<SocketAddr>) -> Result<Self> {
        Ok(Self { metrics: Self::bind_metrics(address)?, ..self })
    }

    /// Binds the address of the metrics for [`Self::metrics`].
    ///
    /// # Errors
    /// It is in use or not local.
    pub(crate) fn bind_metrics(address: Option<SocketAddr>) -> Result<Option<TcpListener>> {
        address.map(|address| listen_tcp(address, "--metrics-listen")).transpose()
    }

    /// Returns descriptors of the same sockets, the API's and the admin plane's. A socket and its queue exist until the
    /// last of its descriptors is closed.
    ///
    /// # Errors
    /// There are too many open files.
    pub(crate) fn duplicate(&self) -> io::Result<[OwnedFd; 2]> {
        let admin = match &self.admin {
            AdminListener::Tcp(listener) => listener.as_fd(),
            AdminListener::Unix(socket) => socket.listener.as_fd(),
        };
        Ok([self.http.as_fd().try_clone_to_owned()?, admin.try_clone_to_owned()?])
    }
}

impl AdminListener {
    /// Returns the file of a Unix socket.
    pub(crate) fn file(&self) -> Option<Arc<SocketFile>> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(socket) => Some(socket.file.clone()),
        }
    }

    /// Returns the bound address; for port 0, with the port that the system assigned.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn address(&self) -> io::Result<AdminAddress> {
        match self {
            Self::Tcp(listener) => Ok(AdminAddress::Tcp(listener.local_addr()?)),
            Self::Unix(socket) => Ok(AdminAddress::Unix(socket.file.path.clone())),
        }
    }
}

impl UnixSocket {
    /// Binds a socket with file mode 0600. Replaces the socket file of a process that has ended, but not a socket
    /// that is in use.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        // A file that is not a socket refuses connections as well, but must not be removed.
        let is_socket =
            std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket
            && std::os::unix::net::UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let socket = Self { listener, file: Arc::new(SocketFile::new(path.to_owned(), true)) };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(socket)
    }
}

impl Listen for UnixSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, None))
    }
}

impl SocketFile {
    fn new(path: PathBuf, is_ours: bool) -> Self {
        Self { path, is_ours: AtomicBool::new(is_ours) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file belongs to this process.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed)
    }

    /// Records whether the file belongs to this process, which then removes it.
    pub(crate) fn set_ours(&self, is_ours: bool) {
        self.is_ours.store(is_ours, Ordering::Relaxed);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_ours() {
            // The next start replaces a file that remains.
            _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replaces_only_sockets_without_a_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let socket = UnixSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixSocket::bind(&path).is_err(), "the socket is in use");
        drop(socket);
        assert!(!path.exists());

        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "closing the listener does not remove the file");
        UnixSocket::bind(&path).unwrap();

        std::fs::write(&path, "notes").unwrap();
        assert!(UnixSocket::bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
    }
}
