//! Switching on the loopback device of a new network namespace.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// The loopback device is the first of every namespace.
const LOOPBACK: i32 = 1;

/// Asks the kernel over netlink, as `ip link set lo up` does.
pub(super) fn up() -> rustix::io::Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // the protocol of routes and devices
    )?;
    sendto(
        &socket,
        &request(),
        SendFlags::empty(),
        &SocketAddrNetlink::new(0, 0),
    )?;
    let mut answer = [0; 64];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // A header of 16 bytes, then the negative of an error number or zero.
    let code = answer
        .get(16..20)
        .filter(|_| length >= 20)
        .and_then(|code| code.try_into().ok())
        .map(i32::from_ne_bytes);
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(Errno::from_raw_os_error(code.saturating_neg())),
        None => Err(Errno::IO),
    }
}

/// A message that sets one flag of the device and wants an answer.
fn request() -> Vec<u8> {
    use nix::libc::{IFF_UP, NLM_F_ACK, NLM_F_REQUEST, RTM_NEWLINK};
    let up = IFF_UP.cast_unsigned();
    let mut bytes = Vec::with_capacity(32);
    bytes.extend_from_slice(&32_u32.to_ne_bytes()); // length of all
    bytes.extend_from_slice(&RTM_NEWLINK.to_ne_bytes());
    let flags = u16::try_from(NLM_F_REQUEST | NLM_F_ACK).unwrap_or_default();
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]); // number of the message, sender
    bytes.extend_from_slice(&[0; 4]); // any family, any kind of device
    bytes.extend_from_slice(&LOOPBACK.to_ne_bytes());
    bytes.extend_from_slice(&up.to_ne_bytes()); // flags
    bytes.extend_from_slice(&up.to_ne_bytes()); // which of them change
    bytes
}
