//! The input and output of a command, as the host has them.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::child::Control;
use crate::{Error, Input, Size};

/// Both ends of the streams of a command that is to be started.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The command's end of its input.
    pub(crate) input: Option<OwnedFd>,
    pub(crate) streams: Streams,
}

/// The host's ends.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<Stdin>,
    pub(crate) stdout: Option<pipe::Receiver>,
    pub(crate) stderr: Option<pipe::Receiver>,
    /// A terminal, seen from the side of the person in front of it.
    pub(crate) terminal: Option<OwnedFd>,
}

/// The input of a command. Dropping it ends the input, unless it is a terminal.
#[derive(Debug)]
pub struct Stdin(pipe::Sender);

/// Output of a command. It ends when the command has closed it, or has written more than
/// [`Limits::output_bytes`](crate::Limits); in that case the command is killed.
#[derive(Debug)]
pub struct Output {
    source: pipe::Receiver,
    control: Arc<Control>,
}

impl Ends {
    /// Needs a tokio runtime around it.
    pub(crate) fn open(input: Input) -> Result<Self, Error> {
        let failed = |why: io::Error| Error::io("open the input of a command", why);
        let mut ends = Self {
            input: None,
            streams: Streams {
                stdin: None,
                stdout: None,
                stderr: None,
                terminal: None,
            },
        };
        match input {
            Input::Null => {}
            Input::Pipe => {
                let (theirs, ours) =
                    pipe_with(PipeFlags::CLOEXEC).map_err(|why| failed(why.into()))?;
                let ours = pipe::Sender::from_owned_fd(ours).map_err(failed)?;
                ends.input = Some(theirs);
                ends.streams.stdin = Some(Stdin(ours));
            }
            Input::Terminal(size) => {
                let (ours, theirs) = terminal(size).map_err(|why| failed(why.into()))?;
                let source = ours.try_clone().map_err(failed)?;
                let sink = ours.try_clone().map_err(failed)?;
                // To the runtime anything that can be waited for is as good as a pipe.
                let source = pipe::Receiver::from_owned_fd_unchecked(source).map_err(failed)?;
                let sink = pipe::Sender::from_owned_fd_unchecked(sink).map_err(failed)?;
                ends.input = Some(theirs);
                ends.streams.stdin = Some(Stdin(sink));
                ends.streams.stdout = Some(source);
                ends.streams.terminal = Some(ours);
            }
        }
        Ok(ends)
    }
}

impl Streams {
    /// With the pipes that the supervisor was started with.
    pub(crate) fn with(
        mut self,
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
    ) -> io::Result<Self> {
        self.stdout = stdout.map(pipe::Receiver::from_owned_fd).transpose()?;
        self.stderr = stderr.map(pipe::Receiver::from_owned_fd).transpose()?;
        Ok(self)
    }
}

fn terminal(size: Size) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let theirs = ioctl_tiocgptpeer(&ours, flags)?;
    resize(&theirs, size)?;
    let mode = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, mode | OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}

/// Tells the programs on a terminal its size.
pub(crate) fn resize(terminal: &OwnedFd, size: Size) -> rustix::io::Result<()> {
    tcsetwinsize(
        terminal,
        Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
}

impl Output {
    pub(crate) const fn new(source: pipe::Receiver, control: Arc<Control>) -> Self {
        Self { source, control }
    }
}

impl AsyncRead for Output {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.control.is_flooded() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.source).poll_read(context, buffer));
        match read {
            // A terminal that nobody has any more.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {}
            read => read?,
        }
        let got = buffer.filled().len().saturating_sub(before);
        let allowed = self.control.count_output(got);
        buffer.set_filled(before.saturating_add(allowed));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stdin {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
