//! A session over `POST /send` and `GET /stream`. Between two streams its messages wait.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use a2e_session::Transmit;
use a2e_wire::LineTooLong;
use base::Class;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep};

use super::Mailboxes;
use super::visit::Visit;
use crate::auth::Source;
use crate::link::{Link, Reader, Received};
use crate::slots::Holder;

/// What HTTP requests and the session's task share.
#[derive(Debug)]
pub(super) struct Mailbox {
    inbound: mpsc::Sender<Posted>,
    /// Bytes of lines that are on their way to the session.
    inbound_bytes: AtomicUsize,
    outbound: Mutex<Outbound>,
    /// The longest line that is taken.
    max_line: AtomicUsize,
    /// The agent, when it is known; set under the lock of `outbound`.
    agent: OnceLock<(Holder, Class)>,
}

/// Lines on their way to the session.
#[derive(Debug)]
struct Posted {
    lines: Result<Bytes, LineTooLong>,
    _bytes: InboundBytes,
}

/// Bytes of a line on its way to the session, counted until this is dropped.
#[derive(Debug)]
pub(super) struct InboundBytes {
    mailbox: Arc<Mailbox>,
    bytes: usize,
}

/// What goes out over the stream.
#[derive(Debug, Default)]
struct Outbound {
    events: Vec<u8>,
    /// The number of the stream that is read, counted from 1.
    stream: Option<u64>,
    streams: u64,
    /// A stream was opened, and the session does not know yet.
    is_new: bool,
    /// Its reader has everything up to this event. Until the session has gone back there, what it
    /// writes must not come first.
    rewind: Option<u64>,
    is_closed: bool,
    /// The connections that serve the session, as long as its agent is not known.
    visits: Vec<Visit>,
    /// Who waits for events.
    reader: Option<Waker>,
    /// Who waits for room, or for a change of streams.
    writer: Option<Waker>,
}

/// The session's end.
pub(super) struct SseLink {
    id: String,
    mailboxes: Mailboxes,
    mailbox: Arc<Mailbox>,
    inbound: mpsc::Receiver<Posted>,
    /// Whether those had their turn that may have lines too.
    gathered: bool,
    /// Events that the stream has not taken yet.
    queued: Vec<u8>,
    /// The last event without a number: a reader cannot say whether it has it.
    unnumbered: Vec<u8>,
    /// How long the session waits for its first stream, and then for each next one.
    first: Duration,
    next: Duration,
    /// When it will have waited that long.
    alone: Option<Pin<Box<Sleep>>>,
}

/// The stream's end: the body of the answer to `GET /stream`.
#[derive(Debug)]
pub(super) struct Stream {
    mailbox: Arc<Mailbox>,
    number: u64,
    heartbeat: Pin<Box<Sleep>>,
    last: Instant,
}

/// Lines that wait for the session; who sends more waits too.
const INBOX: usize = 64;

/// Events that wait for a slow reader, in bytes; the others wait in the session.
const WAITING: usize = 64 * 1024;

/// Bytes that arrive at once and are worth counting at once.
const MANY: usize = 4 * 1024;

/// Connections of a session that are remembered until its agent is known: nobody needs more for a
/// handshake.
const VISITS: usize = 8;

/// A silent stream says at least this often that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);

impl Mailboxes {
    /// A new session, which ends when it has no first stream for so long, or no next one.
    pub(super) fn add(
        &self,
        id: String,
        max_line: usize,
        first: Duration,
        next: Duration,
    ) -> SseLink {
        let (sender, inbound) = mpsc::channel(INBOX);
        let mailbox = Arc::new(Mailbox {
            inbound: sender,
            inbound_bytes: AtomicUsize::new(0),
            outbound: Mutex::default(),
            max_line: AtomicUsize::new(max_line),
            agent: OnceLock::new(),
        });
        self.lock().insert(id.clone(), Arc::clone(&mailbox));
        SseLink {
            id,
            mailboxes: self.clone(),
            mailbox,
            inbound,
            gathered: false,
            queued: Vec::new(),
            unnumbered: Vec::new(),
            first,
            next,
            alone: None,
        }
    }
}

impl Mailbox {
    /// A line begins to arrive.
    pub(super) const fn receive(self: Arc<Self>) -> InboundBytes {
        InboundBytes {
            mailbox: self,
            bytes: 0,
        }
    }

    /// The longest line that is taken now.
    pub(super) fn max_line(&self) -> usize {
        self.max_line.load(Ordering::Relaxed)
    }

    /// A connection serves the session, and is a newcomer's no longer than that is.
    pub(super) fn visited(&self, visit: &Visit) {
        match self.agent.get() {
            Some((agent, class)) => visit.assign(agent, *class),
            None => self.count(&mut self.lock(), visit),
        }
    }

    fn count(&self, outbound: &mut Outbound, visit: &Visit) {
        if let Some((agent, class)) = self.agent.get() {
            visit.assign(agent, *class);
        } else if outbound.visits.len() < VISITS && !outbound.visits.contains(visit) {
            outbound.visits.push(visit.clone());
        }
    }

    /// Opens a stream over a connection; an earlier one ends.
    pub(super) fn attach(self: Arc<Self>, last: Option<u64>, visit: &Visit) -> Stream {
        let mut outbound = self.lock();
        self.count(&mut outbound, visit);
        outbound.streams = outbound.streams.saturating_add(1);
        let number = outbound.streams;
        outbound.stream = Some(number);
        wake(&mut outbound.reader);
        wake(&mut outbound.writer);
        if last.is_some() {
            // The session sends these again.
            outbound.events = Vec::new();
        }
        outbound.is_new = true;
        outbound.rewind = last.or(outbound.rewind);
        // The first thing to be read: it makes proxies and clients see that the stream is open.
        let mut events = b":\n\n".to_vec();
        events.append(&mut outbound.events);
        outbound.events = events;
        drop(outbound);
        let last = Instant::now();
        Stream {
            mailbox: self,
            number,
            heartbeat: Box::pin(tokio::time::sleep_until(last + HEARTBEAT)),
            last,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Outbound> {
        self.outbound.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InboundBytes {
    /// More of the line has arrived.
    pub(super) fn add(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.mailbox
            .inbound_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        if bytes >= MANY {
            // The session counts them, also while it reads nothing.
            wake(&mut self.mailbox.lock().writer);
        }
    }

    /// Gives the lines of a body to the session; says whether there still is one.
    pub(super) async fn send(self, lines: Result<Bytes, LineTooLong>) -> bool {
        let inbound = self.mailbox.inbound.clone();
        let posted = Posted {
            lines,
            _bytes: self,
        };
        inbound.send(posted).await.is_ok()
    }
}

impl Drop for InboundBytes {
    fn drop(&mut self) {
        self.mailbox
            .inbound_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Link for SseLink {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut dyn Reader,
    ) -> Poll<io::Result<Received>> {
        // Posts that came together are served together, so that what comes of them is put on record and
        // sent in one go: the connections that have one are waiting for their turn.
        if !self.gathered && !self.inbound.is_empty() {
            self.gathered = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.gathered = false;
        let mut received = false;
        loop {
            match self.inbound.poll_recv(cx) {
                Poll::Ready(Some(posted)) => match &posted.lines {
                    Ok(lines) => reader.take_lines(lines, self.mailbox.max_line()),
                    Err(too_long) => reader.take_line(Err(*too_long)),
                },
                Poll::Ready(None) => return Poll::Ready(Ok(Received::End)),
                Poll::Pending if received => return Poll::Ready(Ok(Received::Lines)),
                Poll::Pending => return Poll::Pending,
            }
            received = true;
        }
    }

    fn poll_change(&mut self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut outbound = self.mailbox.lock();
        outbound.writer = Some(cx.waker().clone());
        let is_new = std::mem::take(&mut outbound.is_new);
        if let Some(last) = outbound.rewind.take() {
            self.queued.clone_from(&self.unnumbered);
            return Poll::Ready(Received::Rewind(last));
        }
        if is_new {
            return Poll::Ready(Received::Lines);
        }
        if outbound.stream.is_some() {
            self.alone = None;
            return Poll::Pending;
        }
        // Without a stream for too long, the agent is gone.
        let patience = match outbound.streams {
            0 => self.first,
            _ => self.next,
        };
        drop(outbound);
        let alone = self
            .alone
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        alone.as_mut().poll(cx).map(|()| Received::End)
    }

    fn queue(&mut self, message: Transmit<'_>) {
        let start = self.queued.len();
        if let Some(eid) = message.eid {
            self.queued
                .extend_from_slice(format!("id: {eid}\n").as_bytes());
        }
        self.queued.extend_from_slice(b"data: ");
        push_ascii(&mut self.queued, message.line);
        self.queued.extend_from_slice(b"\n\n");
        if message.eid.is_none() {
            self.unnumbered = self.queued.get(start..).unwrap_or_default().to_vec();
        }
    }

    fn welcome(&mut self, (agent, class): (&Holder, Class), max_line: usize) {
        self.mailbox.max_line.store(max_line, Ordering::Relaxed);
        let mut outbound = self.mailbox.lock();
        for visit in std::mem::take(&mut outbound.visits) {
            visit.assign(agent, class);
        }
        let _ = self.mailbox.agent.set((agent.clone(), class));
    }

    fn bytes(&self) -> usize {
        let queued = self.queued.len().saturating_add(self.unnumbered.len());
        queued
            .saturating_add(self.mailbox.lock().events.len())
            .saturating_add(self.mailbox.inbound_bytes.load(Ordering::Relaxed))
    }

    fn is_connected(&self) -> bool {
        self.mailbox.lock().stream.is_some()
    }

    fn transport(&self, _source: Source) -> &'static str {
        "http"
    }

    fn has_room(&self) -> bool {
        self.queued.len() < WAITING && self.mailbox.lock().stream.is_some()
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.queued.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut outbound = self.mailbox.lock();
        let waits = outbound.stream.is_none() || outbound.rewind.is_some();
        if waits || outbound.events.len() >= WAITING {
            outbound.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match outbound.events.is_empty() {
            true => outbound.events = std::mem::take(&mut self.queued),
            false => outbound.events.append(&mut self.queued),
        }
        wake(&mut outbound.reader);
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.poll_flush(cx);
        if flushed.is_ready() {
            let mut outbound = self.mailbox.lock();
            outbound.is_closed = true;
            wake(&mut outbound.reader);
        }
        flushed
    }
}

impl Drop for SseLink {
    fn drop(&mut self) {
        self.mailboxes.lock().remove(&self.id);
        let mut outbound = self.mailbox.lock();
        outbound.is_closed = true;
        wake(&mut outbound.reader);
    }
}

impl Stream {
    /// The next events; none at the end.
    pub(super) fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut outbound = self.mailbox.lock();
        if outbound.stream != Some(self.number) {
            return Poll::Ready(None);
        }
        if !outbound.events.is_empty() {
            let events = std::mem::take(&mut outbound.events);
            wake(&mut outbound.writer);
            self.last = Instant::now();
            return Poll::Ready(Some(events.into()));
        }
        if outbound.is_closed {
            return Poll::Ready(None);
        }
        outbound.reader = Some(cx.waker().clone());
        drop(outbound);
        while self.heartbeat.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let is_due = self.last + HEARTBEAT <= now;
            if is_due {
                self.last = now;
            }
            self.heartbeat.as_mut().reset(self.last + HEARTBEAT);
            if is_due {
                return Poll::Ready(Some(Bytes::from_static(b":\n\n")));
            }
        }
        Poll::Pending
    }
}

impl Drop for Stream {
    /// The reader is gone; the session keeps its messages.
    fn drop(&mut self) {
        let mut outbound = self.mailbox.lock();
        if outbound.stream == Some(self.number) {
            outbound.stream = None;
            wake(&mut outbound.writer);
        }
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// Adds JSON with everything beyond ASCII escaped: some clients end lines at U+2028 and its like.
fn push_ascii(out: &mut Vec<u8>, json: &[u8]) {
    if json.is_ascii() {
        return out.extend_from_slice(json);
    }
    for character in String::from_utf8_lossy(json).chars() {
        match u8::try_from(character) {
            Ok(byte) if byte.is_ascii() => out.push(byte),
            // Beyond ASCII there is nothing outside of strings, where this means the same.
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that wants no more lines, because nobody reads, still sees that somebody does again;
    /// and what has no number is sent again.
    #[tokio::test]
    async fn a_new_stream_is_noticed_whatever_waits() {
        let mailboxes = Mailboxes::default();
        let minute = Duration::from_secs(60);
        let mut link = mailboxes.add("id".into(), 100, minute, minute);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(link.poll_change(&mut cx), Poll::Pending);
        let mailbox = mailboxes.get("id").unwrap();
        let first = Arc::clone(&mailbox).attach(None, &Visit::default());
        assert_eq!(link.poll_change(&mut cx), Poll::Ready(Received::Lines));
        link.queue(Transmit {
            eid: None,
            line: b"hello",
        });
        drop(first);
        let _second = mailbox.attach(Some(5), &Visit::default());
        assert!(link.poll_flush(&mut cx).is_pending(), "it goes back first");
        assert_eq!(link.poll_change(&mut cx), Poll::Ready(Received::Rewind(5)));
        assert_eq!(link.queued, b"data: hello\n\n");
        assert!(link.poll_flush(&mut cx).is_ready());
        assert_eq!(link.poll_change(&mut cx), Poll::Pending);
    }

    #[test]
    fn everything_is_ascii() {
        let mut out = Vec::new();
        push_ascii(&mut out, "{\"a\":\"é\u{2028}\u{85}𝄞\"}".as_bytes());
        assert_eq!(out, br#"{"a":"\u00e9\u2028\u0085\ud834\udd1e"}"#);
    }
}
