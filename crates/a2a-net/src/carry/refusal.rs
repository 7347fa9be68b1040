//! What a transport says by itself: before a message is read, nobody else could.

use a2a_wire::{ErrorCode, ErrorMessage, Message, Reason};
use bytes::Bytes;
use canonical::{Number, Object, Value};
use hyper::StatusCode;

/// What a client of another protocol is told that asks for a path of its own, such as an agent card.
const NOT_HERE: &str = "Nothing is at this path. This port speaks the A2A trust protocol (DID and JWS): \
    POST /a2a/handshake, POST /a2a/request, GET /a2a/ws, GET /.well-known/agent-manifest.json. It does not \
    speak the Agent2Agent protocol of agent cards and JSON-RPC.";

/// What a client that sends JSON-RPC is told.
const JSON_RPC: &str = "The message is JSON-RPC. This port speaks the A2A trust protocol (DID and JWS), \
    not the Agent2Agent protocol of agent cards and JSON-RPC.";

/// A refusal with the status of HTTP that says it best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is nothing at this path.
    NoSuchPath,
    /// A message of JSON-RPC.
    JsonRpc,
    /// The path takes another method.
    Method(&'static str),
    /// A body of another type, or one that is compressed.
    MediaType,
    /// A header that must be there once is there twice, or is no text.
    Header,
    /// The head can be read in two ways.
    Ambiguous,
    /// A frame of gRPC that is none.
    Malformed,
    /// The body did not come in time.
    Late,
    /// The body ended before it was whole.
    Cut,
    /// There is no room for more bodies.
    Crowded,
    /// A web page that is not on the list.
    Origin,
    /// No WebSocket of A2A was asked for.
    Subprotocol,
    /// Too many requests in flight.
    TooMany { limit: usize },
    /// A stream would be the answer, and was not asked for in a way that can carry one.
    NoStream,
    /// The caller's time is over.
    Timeout,
}

impl Refusal {
    pub(super) const fn code(self) -> ErrorCode {
        match self {
            Self::NoSuchPath
            | Self::JsonRpc
            | Self::Method(_)
            | Self::MediaType
            | Self::Header
            | Self::Ambiguous
            | Self::Malformed
            | Self::Cut
            | Self::NoStream
            | Self::Subprotocol => ErrorCode::InvalidMessage,
            Self::Late | Self::Timeout => ErrorCode::Timeout,
            Self::Origin => ErrorCode::PolicyViolation,
            Self::TooMany { .. } => ErrorCode::RateLimitExceeded,
            Self::Crowded => ErrorCode::ServiceUnavailable,
        }
    }

    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::JsonRpc
            | Self::Header
            | Self::Ambiguous
            | Self::Malformed
            | Self::Cut
            | Self::NoStream
            | Self::Subprotocol => StatusCode::BAD_REQUEST,
            Self::Late => StatusCode::REQUEST_TIMEOUT,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn reason(self) -> Option<Reason> {
        match self {
            Self::JsonRpc => Some(Reason::UnknownType),
            Self::MediaType => Some(Reason::MediaType),
            Self::Header => Some(Reason::HeaderMismatch),
            Self::Ambiguous | Self::Malformed | Self::Cut => Some(Reason::Malformed),
            Self::NoSuchPath
            | Self::Method(_)
            | Self::Late
            | Self::Crowded
            | Self::Origin
            | Self::Subprotocol
            | Self::TooMany { .. }
            | Self::NoStream
            | Self::Timeout => None,
        }
    }

    /// Whether the rest of the request was not read, so that nothing can follow it on its connection.
    pub(super) const fn leaves_rest(self) -> bool {
        !matches!(
            self,
            Self::JsonRpc | Self::Malformed | Self::Timeout | Self::NoStream
        )
    }

    /// The error message, for the request of this id.
    pub(super) fn message(self, request_id: Option<&str>) -> Bytes {
        let code = self.code();
        let text = if self == Self::NoSuchPath {
            NOT_HERE
        } else if self == Self::JsonRpc {
            JSON_RPC
        } else {
            code.text()
        };
        let error = Message::Error(ErrorMessage {
            session_id: None,
            request_id: None,
            error_message: text.parse().ok(),
            error_code: code,
            details: self.details(),
            stream: None,
            error_jws: None,
            extensions: None,
            enc: None,
        });
        let mut object = error.to_object();
        if let Some(id) = request_id {
            object.insert("request_id", Value::String(id.to_owned().into()));
        }
        Value::Object(object).to_canonical().into()
    }

    fn details(self) -> Option<Object<'static>> {
        let mut details = Object::default();
        if let Some(reason) = self.reason() {
            details.insert("reason", Value::String(reason.as_str().into()));
        }
        let limit = match self {
            Self::TooMany { limit } => Some(limit),
            Self::NoSuchPath
            | Self::JsonRpc
            | Self::Method(_)
            | Self::MediaType
            | Self::Header
            | Self::Ambiguous
            | Self::Malformed
            | Self::Late
            | Self::Cut
            | Self::Crowded
            | Self::Origin
            | Self::Subprotocol
            | Self::NoStream
            | Self::Timeout => None,
        };
        if let Some(number) = limit.and_then(number) {
            details.insert("limit", number);
        }
        let is_empty = details.iter().len() == 0;
        (!is_empty).then_some(details)
    }
}

fn number(figure: usize) -> Option<Value<'static>> {
    let figure = i64::try_from(figure).ok()?;
    Number::integer(figure).map(Value::Number)
}
