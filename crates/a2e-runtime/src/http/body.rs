//! The body of an answer: a text, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use super::sse::Stream;

/// The body of an answer.
pub(super) enum Answer {
    /// All of it; taken when sent.
    Whole(Option<Bytes>),
    /// Events as they happen.
    Stream(Stream),
}

impl Answer {
    pub(super) fn whole(text: String) -> Self {
        Self::Whole(Some(text.into()).filter(|bytes: &Bytes| !bytes.is_empty()))
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(stream) => {
                let events = stream.poll_events(cx);
                events.map(|events| events.map(|events| Ok(Frame::data(events))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
