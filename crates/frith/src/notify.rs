//! Tells the service manager how the node is, as `sd_notify(3)` describes: a datagram to the socket that
//! `NOTIFY_SOCKET` names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// What a service manager wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// All listeners take connections.
    Ready,
    /// No new sessions are taken.
    Stopping,
}

/// Tells it, if somebody wants to hear it. A manager that does not hear is no reason not to run.
pub(crate) fn tell(state: State) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        tracing::warn!(%error, "the service manager cannot be told: {state:?}");
    }
}

fn send(socket: &OsStr, state: State) -> io::Result<()> {
    // A name that begins with @ is none of a file.
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let text: &[u8] = match state {
        State::Ready => b"READY=1",
        State::Stopping => b"STOPPING=1",
    };
    let own = UnixDatagram::unbound()?;
    // A manager that does not read must not hold up the node.
    own.set_nonblocking(true)?;
    own.send_to_addr(text, &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        let size = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..size].to_vec()).unwrap()
    }

    #[test]
    fn files_and_abstract_names_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), State::Ready).unwrap();
        assert_eq!(heard(&socket), "READY=1");
        let name = format!("frith-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), State::Stopping).unwrap();
        assert_eq!(heard(&socket), "STOPPING=1");
        let gone = folder.path().join("gone");
        assert!(send(gone.as_os_str(), State::Ready).is_err());
    }
}
