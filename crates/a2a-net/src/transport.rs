//! What carries messages, and what they are carried to: bytes on both sides, no meaning.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use a2a_wire::ErrorCode;
use bytes::Bytes;
use tokio::sync::mpsc;

/// The ways a message can come. The name is the one on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// HTTP/1.1, a POST for each message.
    Http1,
    /// HTTP/2, a stream for each message.
    Http2,
    /// gRPC, the same JSON in frames.
    Grpc,
    /// One WebSocket for many messages.
    WebSocket,
}

impl Carrier {
    /// Every one, in the order in which a client prefers them.
    pub const ALL: [Self; 4] = [Self::Http2, Self::Http1, Self::Grpc, Self::WebSocket];

    /// Its name, on record and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Grpc => "grpc",
            Self::WebSocket => "websocket",
        }
    }
}

/// Where a message is sent to. Only HTTP has two places: elsewhere the message itself says what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The handshake endpoint.
    Handshake,
    /// The request endpoint.
    Request,
    /// A transport with one place for all.
    Any,
}

/// One message that came in.
#[derive(Debug)]
pub struct Arrived {
    /// The message, as it came.
    pub message: Bytes,
    /// What carried it.
    pub carrier: Carrier,
    /// Where it was sent to.
    pub place: Place,
    /// Who sent it.
    pub source: SocketAddr,
    /// `X-Session-ID`, or gRPC's `x-session-id`: a hint that must equal the body's.
    pub session_hint: Option<Box<str>>,
    /// How long the caller waits, if its transport says so (gRPC's deadline).
    pub patience: Option<Duration>,
}

/// A message that is too large to be read.
#[derive(Debug)]
pub struct Oversized {
    /// What carried it.
    pub carrier: Carrier,
    /// Where it was sent to.
    pub place: Place,
    /// Who sent it.
    pub source: SocketAddr,
    /// `X-Session-ID`, or gRPC's `x-session-id`.
    pub session_hint: Option<Box<str>>,
    /// The ids it has, if it has come to its end.
    pub ids: Option<Ids>,
    /// Bytes that it may have.
    pub limit: usize,
    /// Bytes that it has, if it said so.
    pub size: Option<usize>,
}

/// What a message says it belongs to. It proves nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The session.
    pub session_id: Option<String>,
    /// The attempt.
    pub request_id: Option<String>,
}

/// What is answered.
#[derive(Debug)]
pub enum Answer {
    /// A message that is no error.
    Message(Bytes),
    /// An error message. The transport has its own way to say so.
    Error {
        /// The code, for the status.
        code: ErrorCode,
        /// The message.
        message: Bytes,
        /// When to come again, in seconds.
        retry_after: Option<u64>,
    },
    /// Nothing is to be said (the client gave up).
    Nothing,
    /// Several messages, the last of them the answer. Bounded, so that a slow reader slows the writer down.
    Stream(mpsc::Receiver<Bytes>),
}

/// What a server does with messages, whatever carried them.
///
/// A future that is dropped is a caller that has gone.
pub trait Service: Send + Sync + 'static {
    /// Handles one message.
    fn handle(&self, arrived: Arrived) -> impl Future<Output = Answer> + Send;

    /// Refuses a message of more bytes than are read.
    fn refuse_oversized(&self, oversized: Oversized) -> impl Future<Output = Answer> + Send;

    /// Bytes that a message of a session may have. What the session itself has agreed on may be less.
    fn request_bytes(&self) -> usize;

    /// A document of the node: `agent-manifest.json` or `did.json` of `/.well-known/`.
    fn document(&self, name: &str) -> Option<Bytes>;
}

/// What a peer answered, to a client.
#[derive(Debug)]
pub enum Reply {
    /// One message, an error or not: it must be read to know. `status` is what the transport said of it, as an HTTP status; it proves
    /// nothing.
    Message {
        /// The message.
        message: Bytes,
        /// The HTTP status, or what stands for it.
        status: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u64>,
    },
    /// Nothing (204).
    Nothing,
    /// Messages in order, the last of them the answer; an error ends them.
    Stream(mpsc::Receiver<Result<Bytes, CarryError>>),
}

/// Why a message could not be carried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// Nobody could be reached: the message did not leave.
    #[error("cannot connect to {0}")]
    Connect(String),
    /// Whoever answers there is not who the certificate must name, or speaks an older TLS.
    #[error("no trusted connection to {0}")]
    Tls(String),
    /// Whoever answers there does not speak what was asked for, and may speak something else: the message did not leave.
    #[error("{0}")]
    NotSpoken(String),
    /// The connection broke after the message may have left.
    #[error("the connection broke before the answer")]
    Broken,
    /// What came back is not what this transport sends: too large, another media type, a redirect.
    #[error("the answer is not A2A: {0}")]
    Foreign(String),
}

impl CarryError {
    /// Whether the message surely did not arrive, so that sending it again repeats nothing.
    #[must_use]
    pub const fn never_left(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Tls(_) | Self::NotSpoken(_))
    }
}

/// What sends messages to one peer. Connections are kept and shared; each message may take another.
pub trait Courier: Send + Sync + 'static {
    /// Sends a message and waits for what comes back. The deadline is the caller's: a dropped future gives the message up.
    fn send(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> impl Future<Output = Result<Reply, CarryError>> + Send;
}
