//! Listening sockets that another process has bound.
//!
//! systemd keeps the sockets of a socket unit while the service restarts, and the kernel queues their connections; a
//! gateway passes its sockets to the one that replaces it (`take_over`).
//! The addresses of inherited sockets take precedence over the settings, which are validated with them.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use listenfd::ListenFd;
use tokio::net::{TcpListener as TokioTcpListener, UnixListener};

use super::{AdminListener, SocketFile, UnixSocket};
use crate::config::{AdminAddress, Settings};

/// The name of the API's socket in a socket unit (`FileDescriptorName=`).
const API_NAME: &str = "api";
/// The name of the admin plane's socket.
const ADMIN_NAME: &str = "admin";

/// The sockets that this process has from another one; by default none.
#[derive(Debug, Default)]
pub struct InheritedSockets {
    /// The API's socket.
    pub(super) http: Option<TcpListener>,
    /// The admin plane's socket.
    pub(super) admin: Option<InheritedAdmin>,
}

/// An inherited socket of the admin plane.
#[derive(Debug)]
pub(super) enum InheritedAdmin {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket at this path.
    Unix(StdUnixListener, Arc<SocketFile>),
}

// === impl InheritedSockets ===

impl InheritedSockets {
    /// Takes the sockets that systemd passed to this process (`sd_listen_fds(3)`). `names` is `LISTEN_FDNAMES`: the
    /// names of the sockets, separated by colons. Sockets that are not named `api` and `admin` are the API's and the
    /// admin plane's in this order. Must be called before there are other threads, because it changes the environment.
    ///
    /// # Errors
    /// A socket has the wrong type, or there are others than these two.
    pub fn from_service_manager(names: Option<&str>) -> Result<Self> {
        let mut passed = ListenFd::from_env();
        let names: Vec<&str> = names.unwrap_or_default().split(':').collect();
        let is_named = names.iter().any(|name| [API_NAME, ADMIN_NAME].contains(name));
        let mut sockets = Self::default();
        for index in 0..passed.len() {
            let name = match (is_named, index) {
                (true, _) => names.get(index).copied().unwrap_or_default(),
                (false, 0) => API_NAME,
                (false, 1) => ADMIN_NAME,
                (false, _) => "",
            };
            let using = || format!("using socket {index} of the service manager as `{name}`");
            match name {
                API_NAME if sockets.http.is_none() => {
                    sockets.http = passed.take_tcp_listener(index).with_context(using)?;
                }
                ADMIN_NAME if sockets.admin.is_none() => {
                    sockets.admin = InheritedAdmin::take(&mut passed, index).with_context(using)?;
                }
                _ => bail!(
                    "socket {index} of the service manager is neither the API's nor the admin plane's; pass one with \
                     `FileDescriptorName={API_NAME}` and at most one with `FileDescriptorName={ADMIN_NAME}`"
                ),
            }
        }
        Ok(sockets)
    }

    /// Returns the sockets of a gateway that this one replaces. `admin` is a Unix socket if it has a path. Its file
    /// belongs to this process as soon as the other one has ended.
    pub(crate) fn from_gateway(http: OwnedFd, admin: OwnedFd, admin_path: Option<PathBuf>) -> Self {
        let admin = match admin_path {
            None => InheritedAdmin::Tcp(admin.into()),
            Some(path) => {
                InheritedAdmin::Unix(admin.into(), Arc::new(SocketFile::new(path, false)))
            }
        };
        Self { http: Some(http.into()), admin: Some(admin) }
    }

    /// Sets the addresses of the sockets in `settings`, which must have the highest precedence.
    ///
    /// # Errors
    /// A socket has no address.
    pub fn set_addresses(&self, settings: &mut Settings) -> io::Result<()> {
        if let Some(http) = &self.http {
            settings.listen = Some(http.local_addr()?);
        }
        match &self.admin {
            Some(InheritedAdmin::Tcp(listener)) => {
                settings.admin_listen = Some(AdminAddress::Tcp(listener.local_addr()?));
            }
            Some(InheritedAdmin::Unix(_, file)) => {
                settings.admin_listen = Some(AdminAddress::Unix(file.path().to_owned()));
            }
            None => {}
        }
        Ok(())
    }
}

// === impl InheritedAdmin ===

impl InheritedAdmin {
    fn take(passed: &mut ListenFd, index: usize) -> Result<Option<Self>> {
        if let Ok(listener) = passed.take_tcp_listener(index) {
            return Ok(listener.map(Self::Tcp));
        }
        let Some(listener) = passed.take_unix_listener(index)? else { return Ok(None) };
        let address = listener.local_addr()?;
        let path = address.as_pathname().context("the Unix socket has no path")?.to_owned();
        ensure!(path.is_absolute(), "the path of the Unix socket is relative");
        Ok(Some(Self::Unix(listener, Arc::new(SocketFile::new(path, false)))))
    }

    /// Registers the socket with the current runtime.
    pub(super) fn listen(self) -> io::Result<AdminListener> {
        Ok(match self {
            Self::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                AdminListener::Tcp(TokioTcpListener::from_std(listener)?)
            }
            Self::Unix(listener, file) => {
                listener.set_nonblocking(true)?;
                AdminListener::Unix(UnixSocket {
                    listener: UnixListener::from_std(listener)?,
                    file,
                })
            }
        })
    }
}
