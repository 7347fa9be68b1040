//! Watching a connection: how long it is idle, or takes for a head, or does not read, and whether its heads mean one thing only.
//!
//! The HTTP library knows one time for heads and idleness together, and lets pass what a proxy before us may have read otherwise.

mod frames;
mod heads;
mod offers;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::limits::Limits;
use frames::Frames;
use heads::Heads;
pub(super) use offers::Offer;
use offers::Offers;

/// What is known of a connection. Times are milliseconds since it began.
#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    header_time: u64,
    idle: u64,
    requests: AtomicUsize,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    stalled_since: AtomicU64,
    offers: Offers,
    is_ambiguous: AtomicBool,
}

/// A request that is being answered; dropped when the last byte of its answer is handed on.
#[derive(Debug)]
pub(super) struct Busy(Arc<Pace>);

/// A stream that is watched.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    pace: Arc<Pace>,
    scan: Scan,
}

#[derive(Debug)]
enum Scan {
    Http1(Heads),
    Http2(Frames),
    /// No longer HTTP.
    Off,
}

/// No such time.
const NEVER: u64 = u64::MAX;

impl Pace {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            header_time: millis(limits.header_time),
            idle: millis(limits.idle),
            requests: AtomicUsize::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(NEVER),
            stalled_since: AtomicU64::new(NEVER),
            offers: Offers::default(),
            is_ambiguous: AtomicBool::new(false),
        })
    }

    /// Begins a request.
    pub(super) fn busy(self: &Arc<Self>) -> Busy {
        self.requests.fetch_add(1, Relaxed);
        Busy(Arc::clone(self))
    }

    /// Whether a head was seen that others may read otherwise.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.is_ambiguous.load(Relaxed)
    }

    /// When the connection has taken too long, as it looks now.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let idle = match self.requests.load(Relaxed) {
            0 => self.idle_since.load(Relaxed).saturating_add(self.idle),
            _ => NEVER,
        };
        let head = self.head_since.load(Relaxed);
        let stalled = self.stalled_since.load(Relaxed);
        let untaken = self.offers.since();
        let first = idle
            .min(head.saturating_add(self.header_time))
            .min(stalled.saturating_add(self.idle))
            .min(untaken.saturating_add(self.idle));
        (first != NEVER).then(|| self.began + Duration::from_millis(first))
    }

    /// When to look again at a connection that is busy now.
    pub(super) fn idle_from(&self, now: Instant) -> Instant {
        now + Duration::from_millis(self.idle)
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }

    /// Notes when something began that is going on, or that it is over.
    fn note(&self, since: &AtomicU64, is_on: bool) {
        match (is_on, since.load(Relaxed)) {
            (true, NEVER) => since.store(self.now(), Relaxed),
            (false, known) if known != NEVER => since.store(NEVER, Relaxed),
            _ => {}
        }
    }

    fn stalled(&self, is_on: bool) {
        self.note(&self.stalled_since, is_on);
    }
}

impl Busy {
    /// Its answer is there.
    pub(super) fn offer(&self) -> Offer {
        Offer::new(&self.0)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // The time first: whoever sees no request must see since when.
        self.0.idle_since.store(self.0.now(), Relaxed);
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

impl<S> Watched<S> {
    pub(super) fn http1(stream: S, pace: &Arc<Pace>) -> Self {
        Self::new(stream, pace, Scan::Http1(Heads::default()))
    }

    pub(super) fn http2(stream: S, pace: &Arc<Pace>) -> Self {
        Self::new(stream, pace, Scan::Http2(Frames::default()))
    }

    fn new(stream: S, pace: &Arc<Pace>, scan: Scan) -> Self {
        Self {
            stream,
            pace: Arc::clone(pace),
            scan,
        }
    }

    /// Stops watching: something else than HTTP is spoken now.
    pub(super) fn release(&mut self) {
        self.scan = Scan::Off;
    }

    fn look_at(&mut self, bytes: &[u8]) {
        let in_head = match &mut self.scan {
            Scan::Http1(heads) => {
                heads.feed(bytes);
                if heads.is_ambiguous() {
                    self.pace.is_ambiguous.store(true, Relaxed);
                }
                heads.is_inside()
            }
            Scan::Http2(frames) => {
                frames.feed(bytes);
                frames.is_inside()
            }
            Scan::Off => return,
        };
        self.pace.note(&self.pace.head_since, in_head);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if let Some(read) = buffer.filled().get(before..)
            && !read.is_empty()
        {
            this.look_at(read);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.pace.stalled(polled.is_pending());
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.pace.stalled(polled.is_pending());
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.pace.stalled(polled.is_pending());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.pace.stalled(polled.is_pending());
        polled
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(NEVER)
}
