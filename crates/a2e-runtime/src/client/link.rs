//! One connection to a host, whatever carries it.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use a2e_wire::{Framer, LineTooLong, MAX_LINE};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that can carry a session. Made of any byte stream, or by an
/// [`Address`](super::Address).
pub struct Link(pub(super) Box<dyn Transport>);

/// Carries lines in both directions.
pub(super) trait Transport: Send {
    /// Writes what it can. Ready when all is on its way.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<()>>;

    /// Reads what is there and hands out its lines. Ready with `true` if there may be more, with
    /// `false` if the host has closed the connection.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>>;

    /// Ends the connection in good order, after everything is written.
    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// What takes the lines that were read.
pub(super) trait Lines {
    fn line(&mut self, line: Result<&[u8], LineTooLong>);
}

/// Lines to be written, each with its newline.
#[derive(Debug, Default)]
pub(super) struct Output {
    bytes: Vec<u8>,
    written: usize,
}

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// Space of this size is kept while there is nothing to write.
const KEPT: usize = 4 * 1024;

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

impl Link {
    /// A connection over a stream of bytes: one message on each line.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Self {
        Self(Box::new(StreamLink::new(stream)))
    }
}

impl Output {
    pub(super) fn push_line(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.push(b'\n');
    }

    pub(super) fn clear(&mut self) {
        self.written = self.bytes.len();
        self.tidy();
    }

    /// What has not been written.
    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.written..).unwrap_or_default()
    }

    /// The next whole line that has not been written, without its newline.
    pub(super) fn line(&self) -> Option<&[u8]> {
        let rest = self.rest();
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        rest.get(..end)
    }

    /// So much of the rest is written now.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(bytes);
        self.tidy();
    }

    /// The next whole line is written now.
    pub(super) fn advance_line(&mut self) {
        let length = self.line().map_or(0, <[u8]>::len);
        self.advance(length.saturating_add(1));
    }

    fn tidy(&mut self) {
        if self.written >= self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT);
            self.written = 0;
        }
    }
}

/// A stream of bytes.
pub(super) struct StreamLink<S> {
    stream: Pin<Box<S>>,
    framer: Framer,
    flushed: bool,
}

impl<S> StreamLink<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream: Box::pin(stream),
            framer: Framer::new(MAX_LINE),
            flushed: true,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send> Transport for StreamLink<S> {
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<()>> {
        while !output.rest().is_empty() {
            let written = ready!(self.stream.as_mut().poll_write(context, output.rest()))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            output.advance(written);
            self.flushed = false;
        }
        if !self.flushed {
            ready!(self.stream.as_mut().poll_flush(context))?;
            self.flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        // On the stack: an idle connection keeps no buffer.
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        let mut chunk = ReadBuf::uninit(&mut chunk);
        ready!(self.stream.as_mut().poll_read(context, &mut chunk))?;
        if chunk.filled().is_empty() {
            if let Some(line) = self.framer.finish() {
                lines.line(line);
            }
            return Poll::Ready(Ok(false));
        }
        let mut found = self.framer.feed(chunk.filled());
        while let Some(line) = found.next() {
            lines.line(line);
        }
        Poll::Ready(Ok(true))
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
