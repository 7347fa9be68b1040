//! `POST /send`: messages to the host, in their order.

use std::collections::VecDeque;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{LONGEST_BODY, Site, refused};
use crate::client::http1::{self, Head};
use crate::client::link::Output;
use crate::client::net::Stream;
use crate::plugin::BoxFuture;

/// Posts messages. A connection that the host closes between requests is replaced, and what was not
/// answered on it is posted again: hosts close idle connections at any time.
pub(super) struct Sender {
    site: Site,
    /// Everything of a request before its length.
    head: String,
    connection: Connection,
    /// Requests without an answer, oldest first.
    open: VecDeque<Vec<u8>>,
    /// Bytes to be written.
    output: Vec<u8>,
    written: usize,
    /// Bytes read that are no whole answer.
    input: Vec<u8>,
    /// The answer that is being read, with the beginning of its body.
    answer: Option<(Head, Vec<u8>)>,
    /// Answers that came over this connection.
    answered: u64,
    /// Requests that may be under way at once.
    max_open: usize,
}

enum Connection {
    None,
    Connecting(BoxFuture<'static, io::Result<Box<dyn Stream>>>),
    Up(Box<dyn Stream>),
}

/// Requests that may be under way at once, at first.
const MAX_OPEN: usize = 64;

impl Sender {
    pub(super) fn new(site: Site, stream: Option<Box<dyn Stream>>) -> Self {
        let head = site.request("POST", "/send") + "content-type: text/plain\r\ncontent-length: ";
        Self {
            site,
            head,
            answered: u64::from(stream.is_some()),
            connection: stream.map_or(Connection::None, Connection::Up),
            open: VecDeque::new(),
            output: Vec::new(),
            written: 0,
            input: Vec::new(),
            answer: None,
            max_open: MAX_OPEN,
        }
    }

    /// Posts what there is. Ready when all is on its way.
    pub(super) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        messages: &mut Output,
    ) -> Poll<io::Result<()>> {
        loop {
            self.poll_answers(context)?;
            while self.open.len() < self.max_open
                && let Some(line) = messages.line()
            {
                let mut request = format!("{}{}\r\n\r\n", self.head, line.len()).into_bytes();
                request.extend_from_slice(line);
                self.output.extend_from_slice(&request);
                self.open.push_back(request);
                messages.advance_line();
            }
            if self.output.is_empty() {
                // What is left in `messages` waits for answers, which wake us.
                return match messages.line() {
                    Some(_) => Poll::Pending,
                    None => Poll::Ready(Ok(())),
                };
            }
            ready!(self.poll_output(context))?;
        }
    }

    /// Ready when every message has been answered for.
    pub(super) fn poll_answered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_answers(context)?;
        if self.open.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !self.output.is_empty() {
            ready!(self.poll_output(context))?;
        }
        Poll::Pending
    }

    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match &mut self.connection {
                Connection::None => {
                    let site = self.site.clone();
                    self.connection =
                        Connection::Connecting(Box::pin(async move { site.connect().await }));
                }
                Connection::Connecting(connecting) => {
                    self.connection = Connection::Up(ready!(connecting.as_mut().poll(context))?);
                }
                Connection::Up(stream) => {
                    let rest = self.output.get(self.written..).unwrap_or_default();
                    if rest.is_empty() {
                        ready!(Pin::new(stream).poll_flush(context))?;
                        self.output.clear();
                        self.output.shrink_to(4 * 1024);
                        self.written = 0;
                        return Poll::Ready(Ok(()));
                    }
                    match ready!(Pin::new(stream).poll_write(context, rest)) {
                        Ok(size) => self.written = self.written.saturating_add(size),
                        Err(error) => self.closed(Some(error))?,
                    }
                }
            }
        }
    }

    /// Reads the answers that are there.
    fn poll_answers(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while let Connection::Up(stream) = &mut self.connection {
            let mut chunk = [MaybeUninit::uninit(); 4096];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            match Pin::new(stream).poll_read(context, &mut chunk) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(())) if chunk.filled().is_empty() => self.closed(None)?,
                Poll::Ready(Ok(())) => {
                    self.input.extend_from_slice(chunk.filled());
                    self.take_answers()?;
                }
                Poll::Ready(Err(error)) => self.closed(Some(error))?,
            }
        }
        Ok(())
    }

    fn take_answers(&mut self) -> io::Result<()> {
        loop {
            let Some((head, body)) = &mut self.answer else {
                let Some((head, length)) = http1::head(&self.input)? else {
                    return Ok(());
                };
                self.input.drain(..length);
                self.answer = Some((head, Vec::new()));
                continue;
            };
            while !head.body.is_done() {
                let (used, data) = head.body.take(&self.input)?;
                body.extend_from_slice(data);
                if used == 0 {
                    break;
                }
                self.input.drain(..used);
            }
            if body.len() > LONGEST_BODY {
                return Err(io::Error::other("the host's answer is too long"));
            }
            if !head.body.is_done() {
                return Ok(());
            }
            let (head, body) = (*head, std::mem::take(body));
            self.answer = None;
            if head.status < 200 {
                continue;
            }
            if head.status >= 300 {
                return Err(refused(head.status, &body));
            }
            self.open.pop_front();
            self.answered = self.answered.saturating_add(1);
            if head.last {
                return self.closed(None);
            }
        }
    }

    /// The host closed the connection. What it has not answered goes over another one, unless this
    /// one was of no use at all.
    fn closed(&mut self, error: Option<io::Error>) -> io::Result<()> {
        if self.answered == 0 && !self.open.is_empty() {
            return Err(error.unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        }
        // Closing a connection with requests on it can destroy answers on their way, and the host hears
        // those requests twice. One that does so gets them one by one.
        if self.open.len() > 1 {
            self.max_open = 1;
        }
        self.connection = Connection::None;
        self.answered = 0;
        self.answer = None;
        self.input.clear();
        self.output.clear();
        self.written = 0;
        for request in &self.open {
            self.output.extend_from_slice(request);
        }
        Ok(())
    }
}
