//! gRPC over the connections of HTTP/2: what a response means.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::{HeaderMap, Response, StatusCode};
use tokio::sync::mpsc;

use super::http::{PART, QUEUE, is_of_proxy, media_type, too_large, without_message};
use super::http2::Arriving;
use crate::carry::grpc::{self, Bad};
use crate::carry::peek::peek;
use crate::transport::{CarryError, Reply};

/// Binary trailers come with padding or without.
const BINARY: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads a response.
pub(super) async fn reply(response: Response<Arriving>, limit: usize) -> Result<Reply, CarryError> {
    let (head, body) = response.into_parts();
    let is_grpc = media_type(&head.headers).starts_with(grpc::MEDIA_TYPE);
    if is_of_proxy(head.status.as_u16()) {
        return Ok(without_message(head.status.as_u16(), &head.headers));
    }
    if head.status != StatusCode::OK || !is_grpc {
        let text = format!("status {}, which is not gRPC", head.status);
        return Err(CarryError::Foreign(text));
    }
    let mut frames = Frames {
        body,
        buffer: BytesMut::new(),
        limit,
        // An answer without a message has its trailers here.
        trailers: head.headers,
    };
    let Some(first) = frames.next().await? else {
        return match outcome(&frames.trailers)? {
            Some(error) => Ok(error),
            None => Err(CarryError::Foreign(
                "a call that ended without an answer".into(),
            )),
        };
    };
    let is_chunk = str::from_utf8(&first).is_ok_and(|text| peek(text).is_chunk());
    if is_chunk {
        return Ok(Reply::Stream(frames.stream(first)));
    }
    if frames.next().await?.is_some() {
        return Err(CarryError::Foreign("messages behind the answer".into()));
    }
    match outcome(&frames.trailers)? {
        Some(error) => Ok(error),
        None if first.is_empty() => Ok(Reply::Nothing),
        None => Ok(message(first, 200)),
    }
}

/// The messages of a response.
struct Frames {
    body: Arriving,
    buffer: BytesMut,
    limit: usize,
    trailers: HeaderMap,
}

impl Frames {
    /// The next message; `None` when there are no more, and the trailers are known.
    async fn next(&mut self) -> Result<Option<Bytes>, CarryError> {
        loop {
            match grpc::take(&mut self.buffer, self.limit) {
                Ok(Some(message)) => return Ok(Some(message)),
                Ok(None) => {}
                Err(Bad::TooLong) => return Err(too_large(self.limit)),
                Err(Bad::Malformed | Bad::Compressed) => {
                    return Err(CarryError::Foreign(
                        "not the messages of our protocol".into(),
                    ));
                }
            }
            let Some(frame) = self.body.frame().await else {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(CarryError::Broken),
                };
            };
            let frame = frame.map_err(|_| CarryError::Broken)?;
            match frame.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(frame) => self.trailers = frame.into_trailers().unwrap_or_default(),
            }
        }
    }

    /// The messages as they come. Whoever no longer reads them ends the call.
    fn stream(mut self, first: Bytes) -> mpsc::Receiver<Result<Bytes, CarryError>> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            let mut next = Ok(Some(first));
            loop {
                let (item, is_last) = match next {
                    Ok(Some(message)) => {
                        let is_last = message.len() > PART;
                        (Ok(message), is_last)
                    }
                    Ok(None) => match outcome(&self.trailers) {
                        Ok(Some(Reply::Message { message, .. })) => (Ok(message), true),
                        Ok(_) => return,
                        Err(error) => (Err(error), true),
                    },
                    Err(error) => (Err(error), true),
                };
                if sender.send(item).await.is_err() || is_last {
                    return;
                }
                next = tokio::select! {
                    next = self.next() => next,
                    () = sender.closed() => return,
                };
            }
        });
        receiver
    }
}

/// What trailers say: an error message, or nothing if all went well.
fn outcome(trailers: &HeaderMap) -> Result<Option<Reply>, CarryError> {
    let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
    let Some(status) = text("grpc-status") else {
        return Err(CarryError::Broken);
    };
    if status == "0" {
        return Ok(None);
    }
    let error = text(grpc::ERROR).and_then(|text| BINARY.decode(text).ok());
    match error {
        Some(error) => {
            let status = status.parse().unwrap_or(u8::MAX);
            Ok(Some(message(error.into(), grpc::http_status(status))))
        }
        None => match status_of_proxy(status) {
            Some(status) => Ok(Some(without_message(status, trailers))),
            None => {
                let status: String = status.chars().take(16).collect();
                Err(CarryError::Foreign(format!(
                    "gRPC status {status} without a message"
                )))
            }
        },
    }
}

/// The status of HTTP that a proxy means with one of gRPC.
fn status_of_proxy(status: &str) -> Option<u16> {
    let status = grpc::http_status(status.parse().ok()?);
    is_of_proxy(status).then_some(status)
}

const fn message(message: Bytes, status: u16) -> Reply {
    Reply::Message {
        message,
        status,
        retry_after: None,
    }
}
