//! A Unix socket that is watched for what there is to read, and for nothing else.
//!
//! Whenever a peer reads from a Unix socket, the kernel wakes whoever waits until it may be written to.
//! A host that has just answered would be woken for that each time, only to find that the next request
//! is not there yet. So this one waits for room only after it was told that there is none.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::io::retry_on_intr;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{Sleep, sleep};

use crate::listen::is_too_many;

/// A connection over a Unix socket.
#[derive(Debug)]
pub(crate) struct Local {
    /// Of tokio's streams the end of a pipe alone is watched for reading only. A socket is read in the
    /// same way.
    input: pipe::Receiver,
    /// The same socket, watched for room as well, while it has none.
    full: Option<UnixStream>,
    /// When to try again, if this process has no descriptor left to watch it with.
    again: Option<Pin<Box<Sleep>>>,
}

/// How long to wait for a descriptor.
const AGAIN: Duration = Duration::from_millis(50);

impl Local {
    pub(crate) fn new(stream: UnixStream) -> io::Result<Self> {
        let socket = OwnedFd::from(stream.into_std()?);
        Ok(Self {
            input: pipe::Receiver::from_file_unchecked(File::from(socket))?,
            full: None,
            again: None,
        })
    }

    fn same_socket(&self) -> io::Result<Socket> {
        self.input.as_fd().try_clone_to_owned().map(Socket::from)
    }
}

impl AsyncRead for Local {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Local {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let full = loop {
            if let Some(again) = &mut this.again {
                ready!(again.as_mut().poll(cx));
                this.again = None;
            }
            if let Some(full) = this.full.take() {
                break full;
            }
            match write(&this.input, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
            match this.same_socket().and_then(UnixStream::from_std) {
                Err(error) if is_too_many(&error) => this.again = Some(Box::pin(sleep(AGAIN))),
                full => break full?,
            }
        };
        let full = this.full.insert(full);
        let written = ready!(Pin::new(full).poll_write(cx, bytes))?;
        // One that took only some has no room for the rest either.
        if written == bytes.len() {
            this.full = None;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(shutdown(&self.input, Shutdown::Write)?))
    }
}

/// Writes without waiting. A peer that is gone is an error, and no signal.
fn write(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(retry_on_intr(|| send(&socket, bytes, SendFlags::NOSIGNAL))?)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn pair() -> (Local, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Local::new(ours).unwrap(), theirs)
    }

    /// A full socket that nothing is left to be watched with waits, and goes on.
    #[tokio::test]
    async fn no_descriptor_is_left() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        use std::os::fd::AsRawFd;
        let (mut ours, mut theirs) = pair();
        while write(&ours.input, &[1; 4096]).is_ok() {}
        let before = getrlimit(Resource::Nofile);
        // None from the next one on.
        let next = u64::try_from(ours.same_socket().unwrap().as_raw_fd()).unwrap();
        let current = Some(next);
        setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
        let waits = std::future::poll_fn(|cx| {
            let polled = Pin::new(&mut ours).poll_write(cx, b"last");
            Poll::Ready(polled.is_pending())
        });
        assert!(waits.await);
        setrlimit(Resource::Nofile, before).unwrap();
        assert!(ours.again.is_some());
        let read = async {
            let mut read = Vec::new();
            while !read.ends_with(b"last") {
                theirs.read_buf(&mut read).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(b"last"), read);
        written.unwrap();
    }

    #[tokio::test]
    async fn what_is_written_is_read_at_the_other_end() {
        let (mut ours, mut theirs) = pair();
        ours.write_all(b"one").await.unwrap();
        theirs.write_all(b"two").await.unwrap();
        let mut read = [0; 3];
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"one");
        ours.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"two");
        assert!(ours.full.is_none());
    }

    #[tokio::test]
    async fn more_than_there_is_room_for_waits_until_it_is_read() {
        const MUCH: usize = 4 * 1024 * 1024;
        let (mut ours, mut theirs) = pair();
        let writes = tokio::spawn(async move {
            ours.write_all(&vec![7; MUCH]).await.unwrap();
            ours
        });
        // It can only be full: nobody has read.
        while !writes.is_finished() {
            let mut chunk = vec![0; 64 * 1024];
            let size = theirs.read(&mut chunk).await.unwrap();
            assert!(chunk.iter().take(size).all(|byte| *byte == 7));
            if size == 0 {
                break;
            }
        }
        let mut ours = writes.await.unwrap();
        ours.shutdown().await.unwrap();
        // What was last written fitted, so nothing is watched any more.
        assert!(ours.full.is_none());
    }

    #[tokio::test]
    async fn the_end_is_seen_from_both_sides() {
        let (mut ours, mut theirs) = pair();
        ours.shutdown().await.unwrap();
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.unwrap();
        drop(theirs);
        ours.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_error() {
        let (mut ours, theirs) = pair();
        drop(theirs);
        let error = ours.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
