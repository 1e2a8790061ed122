//! Bound sockets: binding is the caller's, so that tests can ask for port 0.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use futures_util::{Stream, stream};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::AdminAddress;

/// Bound sockets: binding is the caller's, so that tests can ask for port 0.
pub struct Listeners {
    /// Of the API.
    pub http: TcpListener,
    /// Of the admin plane.
    pub admin: AdminListener,
}

/// The admin plane's socket.
pub enum AdminListener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixSocket),
}

/// A Unix socket, whose file is removed when this is dropped.
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl Listeners {
    /// Binds both addresses.
    ///
    /// # Errors
    /// An address is in use, or not ours.
    pub async fn bind(http: SocketAddr, admin: impl Into<AdminAddress>) -> Result<Self> {
        let tcp = async |address: SocketAddr, flag: &str| {
            TcpListener::bind(address).await.with_context(|| {
                format!("listening on {address}; choose another address with {flag}")
            })
        };
        let http = tcp(http, "--listen").await?;
        let admin = match admin.into() {
            AdminAddress::Tcp(address) => AdminListener::Tcp(tcp(address, "--admin-listen").await?),
            AdminAddress::Unix(path) => {
                AdminListener::Unix(UnixSocket::bind(&path).with_context(|| {
                    format!(
                        "listening on `{}`; choose another place with --admin-listen",
                        path.display()
                    )
                })?)
            }
        };
        Ok(Self { http, admin })
    }
}

impl AdminListener {
    /// Where it is; of a port that was left to the system, the one that it chose.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn address(&self) -> io::Result<AdminAddress> {
        match self {
            Self::Tcp(listener) => Ok(AdminAddress::Tcp(listener.local_addr()?)),
            Self::Unix(socket) => Ok(AdminAddress::Unix(socket.path.clone())),
        }
    }
}

impl UnixSocket {
    /// Binds a socket that only its owner may use. A file that a process which died has left is taken
    /// over; one that somebody listens on is not.
    fn bind(path: &Path) -> io::Result<Self> {
        if std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        let socket = Self { listener, path: path.to_owned() };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(socket)
    }
}

impl UnixSocket {
    /// Returns the connections that come.
    pub fn incoming(self) -> impl Stream<Item = io::Result<UnixStream>> {
        stream::unfold(self, async |socket| {
            let accepted = socket.listener.accept().await;
            Some((accepted.map(|(stream, _)| stream), socket))
        })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // what is left of it is taken over by the next start
        _ = std::fs::remove_file(&self.path);
    }
}
