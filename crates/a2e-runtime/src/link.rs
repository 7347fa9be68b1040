//! How a session reaches its peer: any way to receive lines and to send them.

mod bytes;
mod local;

use std::io;
use std::task::{Context, Poll};

use a2e_session::Transmit;
use a2e_wire::LineTooLong;
use base::Class;

use crate::auth::Source;
use crate::slots::Holder;

pub(crate) use bytes::Bytes;
pub(crate) use local::Local;

/// A way to a peer. A session has one at a time, and may be given another.
pub(crate) trait Link: Send {
    /// Waits for input and hands each line to `reader`.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut dyn Reader,
    ) -> Poll<io::Result<Received>>;

    /// Waits for what happens beside lines, whether more lines are wanted or not.
    fn poll_change(&mut self, _cx: &mut Context<'_>) -> Poll<Received> {
        Poll::Pending
    }

    /// Whether the peer has a connection at the moment.
    fn is_connected(&self) -> bool {
        true
    }

    /// Bytes of memory, about, that wait here: to be sent, or to become lines.
    fn bytes(&self) -> usize;

    /// What it is called on record, coming from there.
    fn transport(&self, source: Source) -> &'static str;

    /// Takes a message to send. Ask [`Link::has_room`] first.
    fn queue(&mut self, message: Transmit<'_>);

    /// Whether it takes more messages now.
    fn has_room(&self) -> bool;

    /// Waits until its connection has to give way to another.
    fn poll_evicted(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// The peer has shaken hands as this agent: its lines may be so long from now on.
    fn welcome(&mut self, agent: (&Holder, Class), max_line: usize);

    /// Sends what was taken; ready when all of it is sent.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends what was taken and closes.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Who reads the lines of a link.
pub(crate) trait Reader {
    fn take_line(&mut self, line: Result<&[u8], LineTooLong>);

    /// Takes the lines of a body or a frame.
    fn take_lines(&mut self, text: &[u8], limit: usize) {
        for line in lines_of(text) {
            self.take_line(match line.len() <= limit {
                true => Ok(line),
                false => Err(LineTooLong { limit }),
            });
        }
    }
}

/// The lines of a body or a frame: each is a message, and blank ones are passed over.
pub(crate) fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty())
}

/// What came over a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Some lines, which were handed over.
    Lines,
    /// The peer reads anew, and has everything up to this number.
    Rewind(u64),
    /// The end of input; the peer may still be reading.
    End,
}
