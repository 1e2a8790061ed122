//! Finds out whether a client has closed its connection while nothing is read from it.
//!
//! hyper reads during a request only while it has nothing of the next one. If the client has sent some of that, its end
//! would stay unnoticed behind these bytes until an answer is written, and the upstream would go on in vain.
//!
//! Only Linux reports a client that has closed its sending side; other systems report one that has reset the connection
//! or whose both directions are closed.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The end of the client's direction, besides errors and the end of both, which are always reported.
#[cfg(target_os = "linux")]
const CLOSED: PollFlags = PollFlags::RDHUP;
#[cfg(not(target_os = "linux"))]
const CLOSED: PollFlags = PollFlags::HUP;

/// Returns whether the peer of a socket has closed or reset the connection, whatever is still to be read. Does not wait.
pub(super) fn has_hung_up(socket: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(socket, CLOSED)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_closed_connection_is_noticed_behind_unread_bytes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let connect = || {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"unread").unwrap();
            (client, listener.accept().unwrap().0)
        };
        let (client, server) = connect();
        assert!(!has_hung_up(&server));
        client.shutdown(Shutdown::Write).unwrap();
        #[cfg(target_os = "linux")]
        assert!(has_hung_up(&server));
        let (client, server) = connect();
        rustix::net::sockopt::set_socket_linger(&client, Some(std::time::Duration::ZERO)).unwrap();
        drop(client);
        assert!(has_hung_up(&server));
    }
}
