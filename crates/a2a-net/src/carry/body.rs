//! Bodies: reading one that may be large or slow, and what an answer's is made of.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::limits::Limits;
use super::message_budget::MessageCharge;
use super::refusal::Refusal;
use super::watch::{Busy, Offer};

/// Bytes that are kept ready for a body which says that it has more.
const FIRST: usize = 64 * 1024;

/// What a body is.
pub(super) enum Read {
    /// A message.
    Whole(Bytes, MessageCharge),
    /// Too large to be one.
    TooLarge(TooLarge),
}

/// A body with more bytes than a message may have.
pub(super) struct TooLarge {
    /// Bytes that it has, if it said so.
    pub(super) size: Option<usize>,
    /// What was read of it.
    pub(super) begun: BytesMut,
}

/// Reads a body: not at all if it says that it is too large, no further if it gets so, given up if it comes too slowly or there is no room for more.
pub(super) async fn read(
    body: &mut Incoming,
    limit: usize,
    limits: &Limits,
    mut charge: MessageCharge,
) -> Result<Read, Refusal> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Ok(Read::TooLarge(TooLarge {
            size: Some(declared),
            begun: BytesMut::new(),
        }));
    }
    let mut slow = Slow {
        limits,
        began: None,
        received: 0,
    };
    let mut whole = BytesMut::new();
    loop {
        let frame = tokio::select! {
            // What is there is taken first, so that a body that is whole needs no timer.
            biased;
            frame = body.frame() => frame,
            () = slow.wait() => return Err(Refusal::Late),
        };
        let data = match frame {
            None => return Ok(Read::Whole(whole.freeze(), charge)),
            Some(Err(_)) => return Err(Refusal::Cut),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => data,
                Err(_) => continue,
            },
        };
        slow.received = slow.received.saturating_add(data.len());
        if slow.received > limit {
            whole.extend_from_slice(&data);
            return Ok(Read::TooLarge(TooLarge {
                size: None,
                begun: whole,
            }));
        }
        let is_all = whole.is_empty() && body.is_end_stream();
        let kept = match is_all {
            true => slow.received,
            false => slow.received.max(declared.min(FIRST)),
        };
        charge.resize(kept).map_err(|_| Refusal::Crowded)?;
        if is_all {
            return Ok(Read::Whole(data, charge));
        }
        if whole.is_empty() {
            whole.reserve(kept);
        }
        whole.extend_from_slice(&data);
    }
}

/// How slowly a body comes.
struct Slow<'a> {
    limits: &'a Limits,
    began: Option<Instant>,
    received: usize,
}

impl Slow<'_> {
    /// Waits until the body is too late.
    async fn wait(&mut self) {
        let began = *self.began.get_or_insert_with(Instant::now);
        sleep_until(self.limits.message_deadline(began, self.received)).await;
    }
}

/// The body of an answer, and that its request is not over before it is.
pub(super) struct Answered {
    body: Body,
    offer: Offer,
    _busy: Busy,
}

/// What an answer's body is made of.
pub(super) enum Body {
    /// Nothing, or all of it; taken when sent.
    Whole(Option<Bytes>),
    /// One message a line.
    Lines(mpsc::Receiver<Bytes>),
    /// One frame of gRPC, and how it went.
    Framed(Option<Bytes>, Option<HeaderMap>),
    /// A frame of gRPC for each message, and how it went.
    Frames(mpsc::Receiver<Bytes>, Option<HeaderMap>),
}

/// Messages that are ready go out together, up to about this many bytes.
const TOGETHER: usize = 16 * 1024;

impl Answered {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self {
            body,
            offer: busy.offer(),
            _busy: busy,
        }
    }
}

impl hyper::body::Body for Answered {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        // Whoever asks for more has room for it.
        let frame = this.body.poll_next(cx);
        match &frame {
            Poll::Ready(Some(_)) => this.offer.is_there(),
            Poll::Ready(None) | Poll::Pending => this.offer.is_not_there(),
        }
        frame.map(|frame| frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.body, Body::Whole(None) | Body::Framed(None, None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Body::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Body::Lines(_) | Body::Framed(..) | Body::Frames(..) => SizeHint::default(),
        }
    }
}

impl Body {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        Poll::Ready(match self {
            Self::Whole(bytes) => bytes.take().map(Frame::data),
            Self::Lines(messages) => ready!(gather(messages, cx, put_line)).map(Frame::data),
            Self::Framed(bytes, trailers) => {
                let data = bytes.take().map(Frame::data);
                data.or_else(|| trailers.take().map(Frame::trailers))
            }
            Self::Frames(messages, trailers) => {
                let data = ready!(gather(messages, cx, super::grpc::put)).map(Frame::data);
                data.or_else(|| trailers.take().map(Frame::trailers))
            }
        })
    }
}

/// The messages that are ready, in one piece.
fn gather(
    messages: &mut mpsc::Receiver<Bytes>,
    cx: &mut Context<'_>,
    put: fn(&mut BytesMut, &[u8]),
) -> Poll<Option<Bytes>> {
    let Some(first) = ready!(messages.poll_recv(cx)) else {
        return Poll::Ready(None);
    };
    let mut together = BytesMut::with_capacity(first.len().saturating_add(16));
    put(&mut together, &first);
    while together.len() < TOGETHER
        && let Ok(next) = messages.try_recv()
    {
        put(&mut together, &next);
    }
    Poll::Ready(Some(together.freeze()))
}

fn put_line(out: &mut BytesMut, message: &[u8]) {
    out.extend_from_slice(message);
    out.put_u8(b'\n');
}
