//! `GET /stream`: messages from the host.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use super::{Site, read_body, refused};
use crate::client::http1::Body;
use crate::client::link::Lines;
use crate::client::net::Stream;
use crate::client::sse::Events;
use crate::plugin::BoxFuture;

/// The stream of a session. When it breaks it is opened again where it was, as often as
/// [`ATTEMPTS`] says; the session itself is not touched by that.
pub(super) struct EventStream {
    site: Site,
    state: State,
    events: Events,
    /// Attempts to open it since the last event.
    attempts: u32,
}

enum State {
    Open(Opened),
    Opening(BoxFuture<'static, io::Result<Opened>>),
}

struct Opened {
    stream: Box<dyn Stream>,
    body: Body,
    /// Bytes that came and are not used up.
    input: Vec<u8>,
}

/// Attempts in a row before the connection counts as broken.
const ATTEMPTS: u32 = 4;

impl EventStream {
    pub(super) async fn open(site: Site) -> io::Result<Self> {
        let opened = open(site.clone(), String::new(), Duration::ZERO).await?;
        Ok(Self {
            site,
            state: State::Open(opened),
            events: Events::default(),
            attempts: 0,
        })
    }

    pub(super) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        loop {
            let outcome = match &mut self.state {
                State::Opening(opening) => match ready!(opening.as_mut().poll(context)) {
                    Ok(opened) => {
                        self.state = State::Open(opened);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                State::Open(opened) => {
                    ready!(opened.poll_read(context, &mut self.events, lines))
                }
            };
            match outcome {
                Ok(true) => {
                    self.attempts = 0;
                    return Poll::Ready(Ok(true));
                }
                // The session is gone: opening its stream again cannot help.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Poll::Ready(Err(error));
                }
                Err(error) if self.attempts >= ATTEMPTS => return Poll::Ready(Err(error)),
                Ok(false) if self.attempts >= ATTEMPTS => return Poll::Ready(Ok(false)),
                Ok(false) | Err(_) => self.open_again(),
            }
        }
    }

    fn open_again(&mut self) {
        self.events.restart();
        // At once, then after 1, 2, 4 seconds.
        let wait = match self.attempts {
            0 => Duration::ZERO,
            attempt => Duration::from_secs(1 << (attempt.min(5).saturating_sub(1))),
        };
        self.attempts = self.attempts.saturating_add(1);
        let last_id = self.events.last_id().to_owned();
        self.state = State::Opening(Box::pin(open(self.site.clone(), last_id, wait)));
    }
}

async fn open(site: Site, last_id: String, wait: Duration) -> io::Result<Opened> {
    tokio::time::sleep(wait).await;
    let mut headers = "accept: text/event-stream\r\n".to_owned();
    if !last_id.is_empty() {
        headers += &format!("last-event-id: {last_id}\r\n");
    }
    let (mut stream, head, mut input) = site.ask("GET", "/stream", &headers).await?;
    if head.status != 200 {
        read_body(&mut stream, head, &mut input).await?;
        return Err(refused(head.status, &input));
    }
    Ok(Opened {
        stream,
        body: head.body,
        input,
    })
}

impl Opened {
    /// Ready with `false` when the stream has ended.
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        events: &mut Events,
        lines: &mut dyn Lines,
    ) -> Poll<io::Result<bool>> {
        if self.input.is_empty() {
            let mut chunk = [MaybeUninit::uninit(); 16 * 1024];
            let mut chunk = ReadBuf::uninit(&mut chunk);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            let used = self.take(chunk.filled(), events, lines)?;
            let rest = chunk.filled().get(used..).unwrap_or_default();
            self.input.extend_from_slice(rest);
            return Poll::Ready(Ok(!self.body.is_done()));
        }
        let input = std::mem::take(&mut self.input);
        let used = self.take(&input, events, lines)?;
        self.input = input.get(used..).unwrap_or_default().to_vec();
        if self.body.is_done() {
            return Poll::Ready(Ok(false));
        }
        if used == 0 {
            // Part of a line between chunks: the rest of it must come first.
            let mut chunk = [0; 1024];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(false));
            }
            self.input.extend_from_slice(chunk.filled());
        }
        Poll::Ready(Ok(true))
    }

    /// Hands out what the bytes complete; returns how many were used up.
    fn take(
        &mut self,
        bytes: &[u8],
        events: &mut Events,
        lines: &mut dyn Lines,
    ) -> io::Result<usize> {
        let mut total = 0_usize;
        while !self.body.is_done() {
            let rest = bytes.get(total..).unwrap_or_default();
            let (used, data) = self.body.take(rest)?;
            events.feed(data, lines);
            if used == 0 {
                break;
            }
            total = total.saturating_add(used);
        }
        Ok(total)
    }
}
