//! The end that sends: connections to one peer, kept and shared by all who have something to say to it.
//!
//! The address is the caller's, who resolved and judged it; nothing here looks a name up. The name is what the certificate must say.
//! Nothing is followed (no redirects), asked on the way (no proxies) or sent twice.

mod dial;
mod grpc;
mod http;
mod http1;
mod http2;
mod ws;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::carry;
use crate::tls::ClientTls;
use crate::transport::{Carrier, CarryError, Courier, Place, Reply};

use dial::Dialer;
use http::Targets;

/// Where a peer is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remote {
    /// What to connect to: resolved and judged by whoever calls.
    pub address: SocketAddr,
    /// The host of the URL: a DNS name, or an address without brackets. The certificate must name it.
    pub host: String,
    /// The path that handshake messages are posted to.
    pub handshake: String,
    /// The path that requests are posted to.
    pub request: String,
    /// The path of the WebSocket.
    pub websocket: String,
}

/// What is taken of a peer.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Time to connect, TLS included.
    pub connect: Duration,
    /// Bytes of an answer, or of one message of a stream.
    pub answer_bytes: usize,
    /// HTTP/1.1 connections at once. Whoever finds none free waits for one.
    pub connections: usize,
    /// How long a connection is kept for the next request: less than servers keep theirs.
    pub keep: Duration,
    /// Requests in flight over one WebSocket.
    pub websocket_requests: usize,
    /// How often a WebSocket is pinged.
    pub ping: Duration,
    /// How long a WebSocket may be silent.
    pub websocket_idle: Duration,
}

/// All connections to one peer. Cheap to clone.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    dialer: Dialer,
    targets: Targets,
    http1: http1::Pool,
    http2: http2::Shared,
    sockets: ws::Sockets,
}

/// Sends over one kind of transport, by the connections of a [`Pool`].
#[derive(Debug, Clone)]
pub struct Post {
    pool: Pool,
    carrier: Carrier,
}

impl Remote {
    /// A peer whose manifest names no paths, or is not known yet.
    #[must_use]
    pub fn new(host: impl Into<String>, address: SocketAddr) -> Self {
        Self {
            address,
            host: host.into(),
            handshake: carry::HANDSHAKE.into(),
            request: carry::REQUEST.into(),
            websocket: carry::WEBSOCKET.into(),
        }
    }

    /// What names it in a URL.
    pub(crate) fn authority(&self) -> String {
        let port = self.address.port();
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match port {
            443 => host,
            port => format!("{host}:{port}"),
        }
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer_bytes: 16 * 1024 * 1024,
            connections: 32,
            keep: Duration::from_secs(50),
            websocket_requests: 32,
            ping: Duration::from_secs(30),
            websocket_idle: Duration::from_secs(90),
        }
    }
}

impl Pool {
    /// Connections to a peer, none of them open yet.
    ///
    /// # Errors
    /// If the host is no name, or a path is none.
    pub fn new(tls: ClientTls, remote: &Remote, reach: Reach) -> Result<Self, CarryError> {
        let targets = Targets::new(remote)?;
        let reach = Arc::new(reach);
        Ok(Self(Arc::new(Inner {
            dialer: Dialer::new(tls, remote, Arc::clone(&reach))?,
            targets,
            http1: http1::Pool::new(&reach),
            http2: http2::Shared::default(),
            sockets: ws::Sockets::default(),
        })))
    }

    /// What sends over this kind of transport.
    #[must_use]
    pub fn courier(&self, carrier: Carrier) -> Post {
        Post {
            pool: self.clone(),
            carrier,
        }
    }
}

impl Post {
    /// What it sends over.
    #[must_use]
    pub const fn carrier(&self) -> Carrier {
        self.carrier
    }
}

impl Courier for Post {
    async fn send(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        let Inner {
            dialer,
            targets,
            http1,
            http2,
            sockets,
        } = &*self.pool.0;
        match self.carrier {
            Carrier::Http1 => {
                let request = targets.http1(place, session_id, message)?;
                http1.send(dialer, request).await
            }
            Carrier::Http2 => {
                let head = || targets.http2(place, session_id);
                let response = http2.send(dialer, head, message).await?;
                http::reply(response, dialer.answer_bytes()).await
            }
            Carrier::Grpc => {
                let head = || targets.grpc(place, session_id);
                let message = carry::grpc::framed(&message);
                let response = http2.send(dialer, head, message).await?;
                grpc::reply(response, dialer.answer_bytes()).await
            }
            Carrier::WebSocket => sockets.send(dialer, targets, message).await,
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pool").field(&self.0.targets).finish()
    }
}
