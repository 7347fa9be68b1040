//! The body of an answer: a text, or a stream of events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use super::sse::Stream;

/// The body of an answer.
pub(super) enum Answer {
    /// All of it; taken when sent.
    Whole(Option<Bytes>),
    /// Events as they happen.
    Stream(Stream),
    /// What somebody else has written.
    Other(BoxBody<Bytes, Infallible>),
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
            Self::Other(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Stream(_) => false,
            Self::Other(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) => SizeHint::default(),
            Self::Other(body) => body.size_hint(),
        }
    }
}
