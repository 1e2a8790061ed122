//! Bound sockets: binding is the caller's, so that tests can ask for port 0.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use crate::config::AdminAddress;
use crate::connections::Listen;

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
        // what is no socket refuses connections, too, and is not ours to remove
        let is_socket =
            std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        if is_socket
            && std::os::unix::net::UnixStream::connect(path)
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

impl Listen for UnixSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, None))
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // what is left of it is taken over by the next start
        _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_socket_of_a_process_that_died_is_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let socket = UnixSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(UnixSocket::bind(&path).is_err(), "somebody listens on it");
        drop(socket);
        assert!(!path.exists());

        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a process that dies leaves it behind");
        UnixSocket::bind(&path).unwrap();

        std::fs::write(&path, "notes").unwrap();
        assert!(UnixSocket::bind(&path).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes");
    }
}
