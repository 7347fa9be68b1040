//! Attempts to reach others.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{self, UnixStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::{Outcome, all, must_fail, text};

/// How long to wait for an answer that must not come.
const PATIENCE: Duration = Duration::from_secs(2);

/// Connecting to these addresses over TCP.
pub(super) fn tcp(addresses: &[OsString]) -> Outcome {
    all(addresses.iter().map(|address| {
        let address = address.to_string_lossy();
        must_fail(
            format!("TCP to {address}"),
            address
                .parse::<SocketAddr>()
                .map_err(|why| why.to_string())
                .and_then(|address| {
                    TcpStream::connect_timeout(&address, PATIENCE).map_err(|why| why.to_string())
                }),
        )
    }))
}

/// Getting an answer from these addresses over UDP; whoever is there answers everybody.
pub(super) fn udp(addresses: &[OsString]) -> Outcome {
    all(addresses.iter().map(|address| {
        let address = address.to_string_lossy();
        let answer = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.send_to(b"?", &*address)?;
            socket.recv(&mut [0])
        });
        must_fail(format!("UDP to {address}"), answer)
    }))
}

/// Connecting to Unix sockets at these paths.
pub(super) fn unix_socket(paths: &[OsString]) -> Outcome {
    all(paths.iter().map(|path| {
        let what = format!("connecting to {}", path.display());
        must_fail(what, UnixStream::connect(path))
    }))
}

/// Connecting to the abstract Unix socket of this name.
pub(super) fn abstract_socket(arguments: &[OsString]) -> Outcome {
    let name = text(arguments, 0);
    must_fail(
        format!("connecting to @{}", name.display()),
        net::SocketAddr::from_abstract_name(name.as_bytes())
            .and_then(|address| UnixStream::connect_addr(&address)),
    )
}

/// Making sockets of kinds that nobody needs.
pub(super) fn sockets(_: &[OsString]) -> Outcome {
    let kinds = [
        ("unix", AddressFamily::UNIX, SocketType::STREAM),
        ("packet", AddressFamily::PACKET, SocketType::RAW),
        ("raw", AddressFamily::INET, SocketType::RAW),
        ("vsock", AddressFamily::from_raw(40), SocketType::STREAM),
        ("key", AddressFamily::KEY, SocketType::RAW),
        ("alg", AddressFamily::from_raw(38), SocketType::SEQPACKET),
        ("bluetooth", AddressFamily::BLUETOOTH, SocketType::RAW),
    ];
    all(kinds.map(|(name, family, kind)| {
        must_fail(
            format!("a socket of kind {name}"),
            socket(family, kind, None),
        )
    }))
}

/// Whether there is a loopback device of its own: the one thing that is to work.
pub(super) fn own_loopback(_: &[OsString]) -> Outcome {
    let connected = TcpListener::bind("127.0.0.1:0").and_then(|listener| {
        TcpStream::connect(listener.local_addr()?)?;
        listener.accept()
    });
    match connected {
        Ok(_) => Outcome::Held("the loopback device works".into()),
        Err(why) => Outcome::Broken(format!("the loopback device does not work: {why}")),
    }
}
