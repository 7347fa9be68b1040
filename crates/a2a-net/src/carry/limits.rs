//! What a peer can take of a server before anybody knows who it is.

use std::time::Duration;

use net::DiscardLimits;
use tokio::time::Instant;

/// The limits of a server's connections (profile §7).
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a header block.
    pub header_bytes: u32,
    /// Time for a header block, from its first byte.
    pub header_time: Duration,
    /// Bytes of a message of a handshake.
    pub handshake_bytes: usize,
    /// Time for a whole message.
    pub body_time: Duration,
    /// Bytes of a message that must come in each second, after [`Limits::body_grace`].
    pub body_rate: u32,
    /// Time in which a message may come as slowly as it likes: connections begin slowly.
    pub body_grace: Duration,
    /// Bytes of all messages that have begun to come, wait, or are worked on.
    pub buffered_bytes: usize,
    /// The same of one source.
    pub buffered_bytes_per_source: usize,
    /// Bytes of such messages that each connection has for itself, beside those.
    pub buffered_bytes_per_connection: usize,
    /// What is read and dropped of what a peer sends after it was refused, so that it reads the refusal
    /// before the connection or stream is reset.
    pub discard: DiscardLimits,
    /// How long a connection may be without a request, or not take what is written to it.
    pub idle: Duration,
    /// HTTP/2 streams of one connection at once.
    pub streams: u32,
    /// Connections in all.
    pub connections: usize,
    /// Connections of one source: an IPv4 address, or a /64 of IPv6.
    pub connections_per_source: usize,
    /// Time to shake hands for TLS.
    pub tls_time: Duration,
    /// How often a WebSocket is pinged.
    pub ping: Duration,
    /// How long a WebSocket may be silent, pongs included.
    pub websocket_idle: Duration,
    /// Requests in flight over one WebSocket.
    pub websocket_requests: usize,
    /// Handshake messages that wait over one WebSocket for the one before them.
    pub websocket_handshakes: usize,
    /// Web pages that may open a WebSocket, by their origins.
    pub origins: Vec<String>,
    /// How long requests may go on when the server stops.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 16 * 1024,
            header_time: Duration::from_secs(10),
            handshake_bytes: a2a_wire::limits::HANDSHAKE,
            body_time: Duration::from_secs(15),
            body_rate: 1024,
            body_grace: Duration::from_secs(2),
            buffered_bytes: 256 * 1024 * 1024,
            buffered_bytes_per_source: 32 * 1024 * 1024,
            buffered_bytes_per_connection: a2a_wire::limits::HANDSHAKE,
            discard: DiscardLimits::default(),
            idle: Duration::from_secs(60),
            streams: 100,
            connections: 1000,
            connections_per_source: 50,
            tls_time: Duration::from_secs(10),
            ping: Duration::from_secs(30),
            websocket_idle: Duration::from_secs(90),
            websocket_requests: 32,
            websocket_handshakes: 8,
            origins: Vec::new(),
            drain: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// When a message is too late of which this many bytes have come.
    pub(super) fn message_deadline(&self, began: Instant, received: usize) -> Instant {
        let received = u32::try_from(received).unwrap_or(u32::MAX);
        let earned = Duration::from_secs(1).saturating_mul(received) / self.body_rate.max(1);
        let allowed = self.body_grace.saturating_add(earned);
        began + allowed.min(self.body_time)
    }
}
