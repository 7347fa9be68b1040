//! NDJSON over a stream of bytes: pipes, sockets, TLS.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use a2e_session::Transmit;
use a2e_wire::Framer;
use base::Class;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Link, Reader, Received};
use crate::auth::Source;
use crate::connections::LinkSlot;
use crate::slots::Holder;

/// Lines over a stream of bytes.
#[derive(Debug)]
pub(crate) struct Bytes<S> {
    stream: S,
    framer: Framer,
    slot: LinkSlot,
    output: Vec<u8>,
    /// How much of `output` is written.
    written: usize,
    /// Written, but not flushed.
    unflushed: bool,
}

/// How much is read at once.
const CHUNK: usize = 16 * 1024;

/// How much is gathered before it is written: what one read asked for should go in one write.
const GATHERED: usize = 64 * 1024;

impl<S> Bytes<S> {
    pub(crate) const fn new(stream: S, max_line: usize, slot: LinkSlot) -> Self {
        Self {
            stream,
            framer: Framer::new(max_line),
            slot,
            output: Vec::new(),
            written: 0,
            unflushed: false,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Link for Bytes<S> {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut dyn Reader,
    ) -> Poll<io::Result<Received>> {
        // On the stack, so that a silent connection has no buffer.
        let mut space = [MaybeUninit::<u8>::uninit(); CHUNK];
        let mut chunk = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut chunk))?;
        if chunk.filled().is_empty() {
            if let Some(line) = self.framer.finish() {
                reader.take_line(line);
            }
            return Poll::Ready(Ok(Received::End));
        }
        let mut lines = self.framer.feed(chunk.filled());
        while let Some(line) = lines.next() {
            reader.take_line(line);
        }
        Poll::Ready(Ok(Received::Lines))
    }

    fn bytes(&self) -> usize {
        self.output.len().saturating_add(self.framer.buffered())
    }

    fn queue(&mut self, message: Transmit<'_>) {
        if self.output.is_empty() {
            // Seldom more, and much less than to grow step by step: most answers are longer than what
            // they answer, but not twice as long.
            self.output
                .reserve((2 * CHUNK).saturating_add(message.line.len()));
        }
        self.output.extend_from_slice(message.line);
        self.output.push(b'\n');
    }

    fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.slot.poll_evicted(cx)
    }

    fn welcome(&mut self, (agent, class): (&Holder, Class), max_line: usize) {
        self.framer.set_max_line(max_line);
        self.slot.assign(agent, class);
    }

    fn transport(&self, source: Source) -> &'static str {
        match source {
            Source::Own => "own",
            Source::User(_) => "unix",
            Source::Address(_) => "tcp",
        }
    }

    fn has_room(&self) -> bool {
        self.output.len() < GATHERED
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self
            .output
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            let size = ready!(Pin::new(&mut self.stream).poll_write(cx, rest))?;
            if size == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written = self.written.saturating_add(size);
            self.unflushed = true;
        }
        if !self.output.is_empty() {
            // A connection that is silent again has no buffer.
            self.output = Vec::new();
            self.written = 0;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_flush(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
