//! Messages that are ready together leave together.
//!
//! HTTP/2 has one connection for many requests, and its library writes each message by itself: a call
//! into the kernel and a TLS record for each, and one more to read it. So what is written while other
//! requests are under way, or behind another message of the same turn, waits until some messages are
//! there, or nothing else is ready to run. A message that is alone does not wait.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::yield_now;

/// Bytes that wait at most: some messages. Who waited for more would let the peer wait for nothing.
const MOST: usize = 8 * 1024;

/// Memory that a connection keeps for what waits.
const KEPT: usize = 4 * 1024;

/// Whose turn it is, told to a [`Corked`] stream by the task that polls its connection.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU8);

/// Nothing waits.
const IDLE: u8 = 0;
/// What was written waits.
const HELD: u8 = 1;
/// What waits is to be written.
const DUE: u8 = 2;
/// Nothing waits, and something was written in this turn.
const SPENT: u8 = 3;

/// Wakes the task of a connection when nothing else is ready.
struct Reminder {
    turns: Arc<Turns>,
    task: Waker,
}

/// A stream whose bytes may wait until nothing else is ready.
#[derive(Debug)]
pub(crate) struct Corked<S, M> {
    stream: S,
    turns: Arc<Turns>,
    /// Whether more messages may come soon.
    has_more: M,
    waiting: BytesMut,
}

impl Turns {
    /// To be called at the start of each poll of the connection.
    pub(crate) fn next(&self) {
        let _ = self.0.compare_exchange(SPENT, IDLE, Relaxed, Relaxed);
    }
}

impl Wake for Reminder {
    fn wake(self: Arc<Self>) {
        let held = &self.turns.0;
        if held.compare_exchange(HELD, DUE, Relaxed, Relaxed).is_ok() {
            self.task.wake_by_ref();
        }
    }
}

impl<S, M: Fn() -> bool> Corked<S, M> {
    /// A stream, and the turns that its task must count.
    pub(crate) fn new(stream: S, has_more: M) -> (Self, Arc<Turns>) {
        let turns = Arc::<Turns>::default();
        let corked = Self {
            stream,
            turns: Arc::clone(&turns),
            has_more,
            waiting: BytesMut::new(),
        };
        (corked, turns)
    }

    fn is_due(&self) -> bool {
        self.turns.0.load(Relaxed) == DUE
    }

    /// Lets what was written wait. The runtime wakes whoever yields when nothing else is ready; the task
    /// itself can be polled before, by messages that follow.
    fn hold(&self, task: &Waker) {
        if self.turns.0.swap(HELD, Relaxed) == HELD {
            return;
        }
        let reminder = Waker::from(Arc::new(Reminder {
            turns: Arc::clone(&self.turns),
            task: task.clone(),
        }));
        let _ = pin!(yield_now()).poll(&mut Context::from_waker(&reminder));
    }

    /// Whether what waits had better go with what may follow.
    fn can_wait(&self) -> bool {
        match self.turns.0.load(Relaxed) {
            HELD | SPENT => true,
            DUE => false,
            _ => (self.has_more)(),
        }
    }
}

impl<S: AsyncWrite + Unpin, M: Unpin> Corked<S, M> {
    /// Hands on what waits.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.waiting))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(written);
        }
        // What was handed on counts as room only if it is asked for.
        if self.waiting.try_reclaim(KEPT + 1) {
            self.waiting = BytesMut::new();
        }
        self.turns.0.store(SPENT, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin, M: Fn() -> bool + Unpin> AsyncWrite for Corked<S, M> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let size: usize = slices.iter().map(|slice| slice.len()).sum();
        if this.waiting.len().saturating_add(size) > MOST {
            ready!(this.poll_drain(cx))?;
        }
        if size > MOST {
            return Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        }
        for slice in slices {
            this.waiting.extend_from_slice(slice);
        }
        Poll::Ready(Ok(size))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Says that all is written also of what waits for its turn: that comes by itself.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.waiting.is_empty() {
            return Pin::new(&mut this.stream).poll_flush(cx);
        }
        if this.can_wait() {
            this.hold(cx.waker());
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

impl<S, M> AsyncRead for Corked<S, M>
where
    S: AsyncRead + AsyncWrite + Unpin,
    M: Fn() -> bool + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // Every turn of a connection reads, whether or not there is anything new to write. If it cannot
        // be written there may still be something to read; the next flush says so.
        if this.is_due() && this.poll_drain(cx).is_ready() {
            let _ = Pin::new(&mut this.stream).poll_flush(cx);
        }
        Pin::new(&mut this.stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// What was written, write by write.
    #[derive(Debug, Default)]
    struct Writes {
        all: Vec<Vec<u8>>,
        is_full: bool,
        is_shut: bool,
    }

    impl AsyncWrite for Writes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.is_full {
                return Poll::Pending;
            }
            self.all.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.is_shut = true;
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncRead for Writes {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A task with a connection that messages are written to.
    struct Task<M> {
        corked: Corked<Writes, M>,
        turns: Arc<Turns>,
        woken: Arc<Woken>,
    }

    impl<M: Fn() -> bool + Unpin> Task<M> {
        fn new(has_more: M) -> Self {
            let (corked, turns) = Corked::new(Writes::default(), has_more);
            Self {
                corked,
                turns,
                woken: Arc::default(),
            }
        }

        /// Writes a message, and flushes.
        fn send(&mut self, message: &[u8]) -> Poll<io::Result<()>> {
            let waker = Waker::from(Arc::clone(&self.woken));
            let cx = &mut Context::from_waker(&waker);
            let written = ready!(Pin::new(&mut self.corked).poll_write(cx, message))?;
            assert_eq!(written, message.len());
            Pin::new(&mut self.corked).poll_flush(cx)
        }

        /// Lets everything else have its turn.
        async fn rest(&mut self) {
            yield_now().await;
            self.turn();
        }

        /// The next turn, in which there is nothing new.
        fn turn(&mut self) {
            let waker = Waker::from(Arc::clone(&self.woken));
            let cx = &mut Context::from_waker(&waker);
            self.turns.next();
            let read = Pin::new(&mut self.corked).poll_read(cx, &mut ReadBuf::new(&mut []));
            assert!(read.is_pending());
        }

        fn shut(&mut self) -> Poll<io::Result<()>> {
            let cx = &mut Context::from_waker(Waker::noop());
            Pin::new(&mut self.corked).poll_shutdown(cx)
        }

        fn writes(&self) -> Vec<&[u8]> {
            self.corked.stream.all.iter().map(Vec::as_slice).collect()
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Relaxed)
        }
    }

    #[test]
    fn a_message_that_is_alone_does_not_wait() {
        let mut task = Task::new(|| false);
        assert!(task.send(b"one").is_ready());
        task.turn();
        assert!(task.send(b"two").is_ready());
        assert_eq!(task.writes(), [b"one", b"two"]);
        assert_eq!(task.woken(), 0);
    }

    #[tokio::test]
    async fn what_follows_a_message_in_the_same_turn_leaves_together() {
        let mut task = Task::new(|| false);
        for message in [b"one", b"two", b"six"] {
            assert!(task.send(message).is_ready());
        }
        assert_eq!(task.writes(), [b"one"]);
        task.rest().await;
        assert_eq!(task.writes(), [b"one".as_slice(), b"twosix"]);
        // So does what follows them.
        assert!(task.send(b"ten").is_ready());
        assert_eq!((task.writes().len(), task.woken()), (2, 1));
        task.rest().await;
        assert_eq!((task.writes().len(), task.woken()), (3, 2));
    }

    #[tokio::test]
    async fn messages_leave_together_when_nothing_else_is_ready() {
        let mut task = Task::new(|| true);
        task.turns.next();
        assert!(task.send(b"one").is_ready());
        // Neither reading changes anything, nor a turn that something else has given.
        task.turn();
        assert!(task.send(b"two").is_ready());
        assert_eq!((task.writes().len(), task.woken()), (0, 0));
        task.rest().await;
        assert_eq!(task.writes(), [b"onetwo"]);
        task.rest().await;
        assert_eq!((task.writes().len(), task.woken()), (1, 1));
        assert!(task.send(b"three").is_ready());
        task.rest().await;
        assert_eq!(task.writes(), [b"onetwo".as_slice(), b"three"]);
    }

    #[tokio::test]
    async fn no_more_waits_than_may() {
        let mut task = Task::new(|| true);
        assert!(task.send(&[1; MOST]).is_ready());
        assert!(task.writes().is_empty());
        assert!(task.send(&[2]).is_ready());
        assert_eq!(task.writes(), [[1; MOST]]);
        // What is larger does not wait at all, nor does what stands before it.
        assert!(task.send(&[3; MOST + 1]).is_ready());
        assert_eq!(task.writes().len(), 3);
        assert!(!task.corked.waiting.try_reclaim(KEPT + 1));
        // Whoever was to be reminded of what has left is not.
        task.rest().await;
        assert_eq!((task.writes().len(), task.woken()), (3, 0));
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_noticed() {
        let mut task = Task::new(|| true);
        assert!(task.send(b"one").is_ready());
        task.corked.stream.is_full = true;
        task.rest().await;
        assert!(task.send(b"two").is_pending());
        assert!(task.shut().is_pending());
        task.corked.stream.is_full = false;
        task.turn();
        assert_eq!(task.writes(), [b"onetwo"]);
    }

    #[tokio::test]
    async fn what_waits_leaves_before_the_end() {
        let mut task = Task::new(|| true);
        assert!(task.send(b"one").is_ready());
        assert!(task.shut().is_ready());
        assert_eq!(task.writes(), [b"one"]);
        assert!(task.corked.stream.is_shut);
    }
}
