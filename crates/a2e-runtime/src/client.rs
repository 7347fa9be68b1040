//! The agent's end (seed 003).
//!
//! Reading order: [`Client`], `shared` (what a call is), `driver` (the connection's task),
//! [`link`](Link), [`reconnect`](Reconnect), [`address`](Address).

mod address;
mod backpressure;
mod child;
mod custom;
mod driver;
mod error;
mod facades;
mod handlers;
mod http;
mod http1;
mod in_process;
mod link;
mod net;
mod raw;
mod reconnect;
mod shared;
mod sse;
mod typed;
mod ws;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use a2e_session::{AgentConfig, AgentSession};
use a2e_wire::messages::base::{AcceptedCapability, Ping};
use a2e_wire::{
    Body, Capability, Charset, DecodeError, Decoder, Message, MessageId, MessageKind, Sender,
    SessionId,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

pub use self::address::{Address, AddressError, Roots};
pub use self::custom::{CustomMessage, CustomRequest, custom_body, read_custom};
pub use self::error::{A2eError, ClientError};
pub use self::facades::{Calling, Episode, Memory, Skills, Tools};
pub use self::handlers::{Handler, HandlerId, Reply};
pub use self::link::Link;
pub use self::raw::RawLink;
pub use self::reconnect::{Dial, Reconnect};
pub use self::typed::Asking;

pub(crate) use self::backpressure::PausedReading;

use self::driver::Driver;
use self::handlers::{Handlers, RequestHandler};
use self::shared::Shared;
use crate::clock::{Clock, system_random};
use crate::plugin::BoxFuture;

/// A connected agent. Cheap to clone; all clones are one session. When the last one is dropped the
/// session is ended politely, in the background; [`Client::disconnect`] waits for that.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.shared);
        // A handler may hold the last handle, and is dropped under the lock that closing takes.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move { shared.close(AFTER_DROP) })),
            Err(_) => shared.close(AFTER_DROP),
        }
    }
}

/// How to make a call.
#[derive(Debug)]
pub struct CallOptions {
    /// How long to wait for the response; to a tool call, for the next event or the response, up to
    /// [`AgentConfig::progress`] in all.
    pub timeout: Duration,
    /// Called with each of the call's events, in order, before the response is returned. Output of
    /// a process comes after it too.
    pub event_callback: Handler,
}

/// Prepares a connection.
pub struct Connector {
    dial: Arc<dyn Dial>,
    config: AgentConfig,
    reconnect: Option<Reconnect>,
    handlers: Handlers,
}

/// What the host may take to finish when the last client is dropped.
const AFTER_DROP: Duration = Duration::from_secs(2);

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            event_callback: Handler::none(),
        }
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector")
            .field("config", &self.config)
            .field("reconnect", &self.reconnect)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// A connection to what `dial` reaches. It comes back when it breaks, if that can help.
    pub fn new(dial: impl Dial) -> Self {
        Self {
            reconnect: dial.can_redial().then(Reconnect::default),
            dial: Arc::new(dial),
            config: AgentConfig::default(),
            handlers: Handlers::default(),
        }
    }

    /// Says who connects and what for.
    #[must_use]
    pub fn agent(mut self, config: AgentConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets how to come back when the connection breaks; `None` for not at all.
    #[must_use]
    pub const fn reconnect(mut self, policy: Option<Reconnect>) -> Self {
        self.reconnect = policy;
        self
    }

    /// As [`Client::register_push_handler`], in time for the first message.
    #[must_use]
    pub fn register_push_handler(mut self, type_name: impl Into<String>, handler: Handler) -> Self {
        self.handlers.register(type_name.into(), handler);
        self
    }

    /// As [`Client::on_any`], in time for the first message.
    #[must_use]
    pub fn on_any(mut self, handler: Handler) -> Self {
        self.handlers.on_any(handler);
        self
    }

    /// As [`Client::on_request`], in time for the first message.
    #[must_use]
    pub fn on_request(
        mut self,
        type_name: impl Into<String>,
        handler: impl FnMut(Message<'static>, Reply) + Send + 'static,
    ) -> Self {
        self.handlers
            .on_request(type_name.into(), RequestHandler::new(handler));
        self
    }

    /// Connects and shakes hands.
    ///
    /// # Errors
    /// If the host cannot be reached, refuses, or does not answer.
    pub async fn connect(self) -> Result<Client, ClientError> {
        let dialed = Arc::clone(&self.dial).dial_in_time().await;
        let link = dialed.map_err(ClientError::Unreachable)?;
        let clock = Clock::start();
        let config = AgentConfig {
            resumable: self.reconnect.is_some(),
            ..self.config
        };
        let mut random = system_random();
        let session = AgentSession::connect(clock.now(), config, &mut *random);
        let shared = Arc::new(Shared::new(session, self.handlers, clock));
        let (connected, outcome) = oneshot::channel();
        let dial = self.reconnect.map(|policy| (self.dial, policy));
        let driver = Driver::new(Arc::clone(&shared), link, dial, random, connected);
        let client = Client {
            handle: Arc::new(Handle { shared }),
        };
        tokio::spawn(driver.run());
        outcome.await.map_err(|_| ClientError::Closed)??;
        Ok(client)
    }
}

/// One stream, once.
struct Once(std::sync::Mutex<Option<Link>>);

impl Dial for Once {
    fn dial(self: Arc<Self>) -> BoxFuture<'static, io::Result<Link>> {
        let taken = match self.0.lock() {
            Ok(mut link) => link.take(),
            Err(_) => None,
        };
        Box::pin(async { taken.ok_or_else(|| io::ErrorKind::NotConnected.into()) })
    }

    fn can_redial(&self) -> bool {
        false
    }
}

impl Client {
    /// Shakes hands over a stream. `on_push` is called with what nobody asked for.
    ///
    /// # Errors
    /// If the host refuses, does not answer, or the connection fails.
    pub async fn connect(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        config: AgentConfig,
        on_push: Handler,
    ) -> Result<Self, ClientError> {
        let once = Once(std::sync::Mutex::new(Some(Link::new(stream))));
        let mut connector = Connector::new(once).agent(config);
        if !on_push.is_none() {
            connector = connector.on_any(on_push);
        }
        connector.connect().await
    }

    /// Sends a request and waits for its response. Dropping the future withdraws the call: a host of
    /// this kind stops working on it.
    ///
    /// # Errors
    /// What the host answered, a timeout, or the end of the connection.
    pub async fn rpc(
        &self,
        body: impl Into<Body<'static>>,
        options: CallOptions,
    ) -> Result<Message<'static>, ClientError> {
        self.rpc_noted(body.into(), options, |_| ()).await
    }

    /// The same; `on_sent` is called with the id of the request before anything can come back, and must
    /// not use the client.
    pub(crate) async fn rpc_noted(
        &self,
        body: Body<'static>,
        options: CallOptions,
        on_sent: impl FnOnce(MessageId<'static>),
    ) -> Result<Message<'static>, ClientError> {
        let shared = &self.handle.shared;
        shared.call(body, options, on_sent).await?.await
    }

    /// Asks whether the host is there; returns how long the answer took.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        let start = tokio::time::Instant::now();
        let options = CallOptions {
            timeout: Duration::from_secs(5),
            ..CallOptions::default()
        };
        self.rpc(Ping::new(), options).await?;
        Ok(start.elapsed())
    }

    /// Sends a message that gets no answer. Over a connection that breaks it may be lost.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn notify(&self, body: impl Into<Body<'static>>) -> Result<(), ClientError> {
        self.handle.shared.notify(body.into()).await
    }

    /// Calls a handler with each push of a type, beside those there are. The catalogue's spelling
    /// of a type stands for its other spellings too.
    pub fn register_push_handler(
        &self,
        type_name: impl Into<String>,
        handler: Handler,
    ) -> HandlerId {
        let mut state = self.handle.shared.lock();
        state.handlers.register(type_name.into(), handler)
    }

    /// Removes a handler of pushes.
    pub fn unregister_push_handler(&self, id: HandlerId) {
        self.handle.shared.lock().handlers.unregister(id);
    }

    /// Calls a handler, beside those there are, with each push that no handler of its type takes.
    pub fn on_any(&self, handler: Handler) -> HandlerId {
        self.handle.shared.lock().handlers.on_any(handler)
    }

    /// Calls a handler with each request of the host's of a type (`mcp/sample/req`, …), with what
    /// answers it. A request without a handler is answered with an error.
    pub fn on_request(
        &self,
        type_name: impl Into<String>,
        handler: impl FnMut(Message<'static>, Reply) + Send + 'static,
    ) {
        let handler = RequestHandler::new(handler);
        let mut state = self.handle.shared.lock();
        state.handlers.on_request(type_name.into(), handler);
    }

    /// Ends the session; the host may finish what it runs within `grace`. Calls that are open fail.
    pub async fn disconnect(&self, grace: Duration) {
        self.handle.shared.close(grace);
        self.closed().await;
    }

    /// Waits until the session has ended and will not come back.
    pub async fn closed(&self) {
        self.handle.shared.ended.cancelled().await;
    }

    /// Whether the session has ended and will not come back.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.handle.shared.ended.is_cancelled()
    }

    /// Says what messages of types beside the catalogue are, as [`AgentConfig::type_registry`] does at the
    /// start. Their bodies are [`Body::Unknown`], which [`read_custom`] reads as a type of yours; those of a
    /// registered event reach the `event_callback` of their call.
    pub fn update_msg_types<T: Into<String>>(
        &self,
        types: impl IntoIterator<Item = (T, MessageKind)>,
    ) {
        let types = types.into_iter().map(|(name, kind)| (name.into(), kind));
        let mut state = self.handle.shared.lock();
        state.session.update_msg_types(types);
    }

    /// A message as it is sent: compact JSON, without a newline.
    #[must_use]
    pub fn encode(message: &Message<'_>) -> Vec<u8> {
        let mut line = Vec::new();
        message.encode_to(&mut line, Charset::Utf8);
        line
    }

    /// Reads a line as a message from a host; a type beside the catalogue is
    /// [`Body::Unknown`].
    ///
    /// # Errors
    /// If it is no message.
    pub fn decode(line: &[u8]) -> Result<Message<'static>, DecodeError> {
        let now = Clock::start().now();
        let message = Decoder::default().decode(line, Sender::Host, now.unix)?;
        Ok(message.into_owned())
    }

    /// What the host said of one capability, by its name or another spelling of it; nothing if it was not
    /// asked for.
    #[must_use]
    pub fn capability(&self, name: &str) -> Option<AcceptedCapability<'static>> {
        let wanted = Capability::from_name(name)?;
        let state = self.handle.shared.lock();
        let mut known = state.connected.as_deref()?.capabilities.iter();
        known.find(|known| known.capability == wanted).cloned()
    }

    /// What the host said of the capabilities asked for.
    #[must_use]
    pub fn capabilities(&self) -> Vec<AcceptedCapability<'static>> {
        let state = self.handle.shared.lock();
        let connected = state.connected.as_deref();
        connected.map_or_else(Vec::new, |connected| connected.capabilities.clone())
    }

    /// The session's id. It changes if the host forgets the session.
    #[must_use]
    pub fn session_id(&self) -> SessionId<'static> {
        let state = self.handle.shared.lock();
        let connected = state.connected.as_deref();
        connected.map_or_else(SessionId::default, |connected| connected.session_id.clone())
    }

    /// How many calls the host runs at once.
    #[must_use]
    pub fn max_parallel(&self) -> i64 {
        let state = self.handle.shared.lock();
        state
            .connected
            .as_deref()
            .map_or(0, |connected| connected.max_parallel)
    }
}
