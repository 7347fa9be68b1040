//! Counting what has come of a message before it is whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base::Exceeded;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::super::message_budget::{MessageBudget, MessageCharge};

/// A stream of frames, of which all that was read counts until its message is taken.
///
/// The library shows whole messages only and reads a little ahead (`READ`); what it read ahead of
/// the message that was taken last is not counted.
#[derive(Debug)]
pub(super) struct CountedStream<T> {
    stream: T,
    budget: MessageBudget,
    charge: MessageCharge,
    /// Since when there is a part of a message.
    began: Option<Instant>,
}

/// Bytes of a control frame beside its payload: two of its head, and its mask.
const AROUND: usize = 6;

impl<T> CountedStream<T> {
    pub(super) fn new(stream: T, budget: MessageBudget) -> Self {
        Self {
            stream,
            charge: budget.begin(),
            budget,
            began: None,
        }
    }

    /// The stream itself, past the counting.
    pub(super) fn uncounted(&mut self) -> &mut T {
        &mut self.stream
    }

    /// The charge of a message that is whole. With the next byte another begins.
    pub(super) fn take_message(&mut self, bytes: usize) -> Result<MessageCharge, Exceeded> {
        self.began = None;
        let mut charge = std::mem::replace(&mut self.charge, self.budget.begin());
        charge.resize(bytes)?;
        Ok(charge)
    }

    /// A control frame has come, perhaps between the parts of a message.
    pub(super) fn take_control(&mut self, payload: &[u8]) {
        let frame = payload.len().saturating_add(AROUND);
        let left = self.charge.bytes().saturating_sub(frame);
        // Fewer than before are never too many.
        let _ = self.charge.resize(left);
        if left == 0 {
            self.began = None;
        }
    }

    /// Since when a message has been coming, and how many bytes of it there are.
    pub(super) fn partial(&self) -> Option<(Instant, usize)> {
        self.began.map(|began| (began, self.charge.bytes()))
    }

    /// The time in which nothing was read does not count.
    pub(super) fn pause(&mut self) {
        if self.began.is_some() {
            self.began = Some(Instant::now());
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for CountedStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let read = buffer.filled().len().saturating_sub(before);
        if read > 0 {
            let bytes = self.charge.bytes().saturating_add(read);
            let counted = self.charge.resize(bytes);
            counted.map_err(|error| io::Error::new(io::ErrorKind::QuotaExceeded, error))?;
            self.began.get_or_insert_with(Instant::now);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for CountedStream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
