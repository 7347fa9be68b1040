//! What is between two nodes.

mod tls;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use a2a_net::transport::{Answer, Arrived, Carrier, CarryError, Courier, Place, Reply, Service};
use a2a_net::*;
use bytes::Bytes;
use tokio::sync::mpsc;

pub(crate) use self::tls::*;
use crate::support::Public;

/// What is between a client and a server. The same tests run over every one.
pub(crate) trait Link: Sized + 'static {
    type Couriers: Couriers;

    /// Makes a server reachable.
    fn open(server: &Server) -> impl Future<Output = Self>;

    /// The way for a client.
    fn couriers(&self) -> Self::Couriers;

    /// What the client may send over.
    fn carriers(&self) -> Vec<Carrier> {
        Carrier::ALL.to_vec()
    }

    /// Where a client may connect to.
    fn guard(&self) -> Guard {
        Guard::new(Reach::default(), Public)
    }
}

/// A link without a network: the service is called.
#[derive(Clone)]
pub(crate) struct InMemory {
    server: Server,
    pub(crate) hook: Hook,
    pub(crate) handshakes: Arc<AtomicUsize>,
    pub(crate) requests: Arc<AtomicUsize>,
}

/// What happens to a message in between: nothing, or something else is answered.
pub(crate) type Hook =
    Arc<Mutex<Option<Box<dyn Fn(Place, &[u8]) -> Option<Result<Reply, CarryError>> + Send>>>>;

impl Link for InMemory {
    type Couriers = Self;

    async fn open(server: &Server) -> Self {
        Self {
            server: server.clone(),
            hook: Arc::default(),
            handshakes: Arc::default(),
            requests: Arc::default(),
        }
    }

    fn couriers(&self) -> Self {
        self.clone()
    }
}

impl InMemory {
    pub(crate) fn intercept(
        &self,
        hook: impl Fn(Place, &[u8]) -> Option<Result<Reply, CarryError>> + Send + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

impl Couriers for InMemory {
    type Courier = Self;

    fn courier(&self, _: &Route) -> Result<Self, CarryError> {
        Ok(self.clone())
    }
}

impl Courier for InMemory {
    async fn send(
        &self,
        place: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        let count = match place {
            Place::Handshake => &self.handshakes,
            Place::Request | Place::Any => &self.requests,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let hooked = self
            .hook
            .lock()
            .unwrap()
            .as_ref()
            .and_then(|hook| hook(place, &message));
        if let Some(reply) = hooked {
            return reply;
        }
        Ok(reply(
            self.server
                .handle(arrived(place, session_id, message))
                .await,
        ))
    }
}

pub(crate) fn arrived(place: Place, session_id: Option<&str>, message: Bytes) -> Arrived {
    Arrived {
        message,
        carrier: Carrier::Http2,
        place,
        source: SocketAddr::from(([198, 51, 100, 7], 40_000)),
        session_hint: session_id.map(Into::into),
        patience: None,
    }
}

pub(crate) fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Message(message) => Reply::Message {
            message,
            status: 200,
            retry_after: None,
        },
        Answer::Error {
            code,
            message,
            retry_after,
        } => Reply::Message {
            message,
            status: code.http().unwrap_or(500),
            retry_after,
        },
        Answer::Nothing => Reply::Nothing,
        Answer::Stream(mut from) => {
            let (to, parts) = mpsc::channel(1);
            tokio::spawn(async move {
                while let Some(part) = from.recv().await {
                    if to.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            });
            Reply::Stream(parts)
        }
    }
}

/// A link with one place for all messages, as gRPC and WebSocket have.
#[derive(Clone)]
pub(crate) struct OnePlace(InMemory);

impl Link for OnePlace {
    type Couriers = Self;

    async fn open(server: &Server) -> Self {
        Self(InMemory::open(server).await)
    }

    fn couriers(&self) -> Self {
        self.clone()
    }
}

impl Couriers for OnePlace {
    type Courier = Self;

    fn courier(&self, _: &Route) -> Result<Self, CarryError> {
        Ok(self.clone())
    }
}

impl Courier for OnePlace {
    async fn send(
        &self,
        _: Place,
        session_id: Option<&str>,
        message: Bytes,
    ) -> Result<Reply, CarryError> {
        self.0.send(Place::Any, session_id, message).await
    }
}
