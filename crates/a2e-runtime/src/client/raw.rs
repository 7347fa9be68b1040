//! Lines over a link as they are, for tools that look at the protocol itself.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use a2e_wire::LineTooLong;

use super::link::{Lines, Link, Output};

/// A connection without a session: what is sent and what comes is up to the user.
#[derive(Debug)]
pub struct RawLink {
    link: Link,
    output: Output,
    input: Received,
}

#[derive(Debug, Default)]
struct Received(VecDeque<Vec<u8>>);

impl Lines for Received {
    fn line(&mut self, line: Result<&[u8], LineTooLong>) {
        // What is too long to be a message is not kept.
        self.0.extend(line.ok().map(<[u8]>::to_vec));
    }
}

impl RawLink {
    /// Speaks over this link.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            link,
            output: Output::default(),
            input: Received::default(),
        }
    }

    /// Puts a line in line to be sent, which [`RawLink::next`] does.
    pub fn push(&mut self, line: &[u8]) {
        self.output.push_line(line);
    }

    /// Sends what there is to send until a line comes; `None` at the end.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Sends what there is to send, and ends the connection in good order.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn close(mut self) -> io::Result<()> {
        poll_fn(|context| self.link.0.poll_write(context, &mut self.output)).await?;
        poll_fn(|context| self.link.0.poll_close(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Vec<u8>>>> {
        loop {
            if let Poll::Ready(Err(error)) = self.link.0.poll_write(context, &mut self.output) {
                return Poll::Ready(Err(error));
            }
            if let Some(line) = self.input.0.pop_front() {
                return Poll::Ready(Ok(Some(line)));
            }
            match self.link.0.poll_read(context, &mut self.input) {
                Poll::Ready(Ok(true)) => {}
                Poll::Ready(Ok(false)) => return Poll::Ready(Ok(self.input.0.pop_front())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
