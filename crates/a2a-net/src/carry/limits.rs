//! What a peer can take of a server before anybody knows who it is.

use std::time::Duration;

/// The limits of a server's connections (profile §7).
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a header block.
    pub header_bytes: u32,
    /// Time for a header block, from its first byte.
    pub header_time: Duration,
    /// Bytes of a message to the handshake endpoint.
    pub handshake_bytes: usize,
    /// Bytes of any other message. What a session has agreed on is for whoever knows the session.
    pub message_bytes: usize,
    /// Time for a whole body.
    pub body_time: Duration,
    /// Bytes of a body that must come in each second, after [`Limits::body_grace`].
    pub body_rate: u32,
    /// Time in which a body may come as slowly as it likes: connections begin slowly.
    pub body_grace: Duration,
    /// Bytes of all bodies that have begun to come and are not whole.
    pub unfinished_bytes: usize,
    /// The same of one source.
    pub unfinished_bytes_per_source: usize,
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
            message_bytes: 1024 * 1024,
            body_time: Duration::from_secs(15),
            body_rate: 1024,
            body_grace: Duration::from_secs(2),
            unfinished_bytes: 256 * 1024 * 1024,
            unfinished_bytes_per_source: 32 * 1024 * 1024,
            idle: Duration::from_secs(60),
            streams: 100,
            connections: 1000,
            connections_per_source: 50,
            tls_time: Duration::from_secs(10),
            ping: Duration::from_secs(30),
            websocket_idle: Duration::from_secs(90),
            websocket_requests: 32,
            origins: Vec::new(),
            drain: Duration::from_secs(30),
        }
    }
}
