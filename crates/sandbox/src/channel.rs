//! Messages with descriptors over a Unix socket: a length, then as many bytes.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
};

/// The longest message: more than the arguments and the environment of a program can be.
const LONGEST: usize = 8 << 20;
/// Bytes of the length.
pub(crate) const HEADER: usize = 4;

/// Sends a message, with a descriptor if there is one.
pub(crate) fn send_message(
    socket: impl AsFd,
    message: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let framed = frame(message)?;
    let sent = send_some(&socket, &framed, descriptor)?;
    let mut rest = framed.get(sent..).unwrap_or_default();
    while !rest.is_empty() {
        match send(&socket, rest, SendFlags::NOSIGNAL) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sends the beginning of a message, with its descriptor. How much of it that was.
pub(crate) fn send_some(
    socket: impl AsFd,
    framed: &[u8],
    descriptor: Option<BorrowedFd<'_>>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|it| [it]);
    if let Some(it) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(it));
    }
    let bytes = [IoSlice::new(framed)];
    Ok(sendmsg(
        &socket,
        &bytes,
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?)
}

/// A message as it is sent.
pub(crate) fn frame(message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(message.len())
        .ok()
        .filter(|_| message.len() <= LONGEST);
    let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut framed = Vec::with_capacity(HEADER.saturating_add(message.len()));
    framed.extend_from_slice(&length.to_le_bytes());
    framed.extend_from_slice(message);
    Ok(framed)
}

/// How long the message after this header is.
pub(crate) fn length(header: [u8; HEADER]) -> io::Result<usize> {
    let length = usize::try_from(u32::from_le_bytes(header)).ok();
    length
        .filter(|length| *length <= LONGEST)
        .ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))
}

/// The next message and its descriptor, or nothing when the other end has closed.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Option<OwnedFd>)>> {
    let mut header = [0; HEADER];
    let mut descriptor = None;
    if !fill(&socket, &mut header, &mut descriptor)? {
        return Ok(None);
    }
    let mut message = vec![0; length(header)?];
    if !fill(&socket, &mut message, &mut descriptor)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((message, descriptor)))
}

/// Whether the other end had this much to say.
fn fill(
    socket: impl AsFd,
    mut rest: &mut [u8],
    descriptor: &mut Option<OwnedFd>,
) -> io::Result<bool> {
    while !rest.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let got = match recvmsg(
            &socket,
            &mut [IoSliceMut::new(rest)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Ok(got) => got,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        if got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                *descriptor = descriptors.next();
            }
        }
        if got.bytes == 0 {
            return Ok(false);
        }
        rest = rest.get_mut(got.bytes..).unwrap_or_default();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_message_takes_its_descriptor_along() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        send_message(&ours, b"first", Some(reader.as_fd())).unwrap();
        send_message(&ours, b"", None).unwrap();
        drop(ours);
        let (message, descriptor) = receive(&theirs).unwrap().unwrap();
        assert_eq!(message, b"first");
        writer.write_all(b"x").unwrap();
        drop(writer);
        let mut text = String::new();
        std::fs::File::from(descriptor.unwrap())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "x");
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        assert_eq!(receive(&theirs).unwrap().unwrap().0, b"");
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn messages_have_a_largest_size() {
        assert!(frame(&vec![0; LONGEST]).is_ok());
        assert!(frame(&vec![0; LONGEST + 1]).is_err());
        let size = |size: usize| u32::try_from(size).unwrap().to_le_bytes();
        assert!(length(size(LONGEST)).is_ok());
        assert!(length(size(LONGEST + 1)).is_err());
    }

    #[test]
    fn half_a_message_is_an_error() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[5, 0, 0, 0, b'a']).unwrap();
        drop(ours);
        assert!(receive(&theirs).is_err());
    }
}
