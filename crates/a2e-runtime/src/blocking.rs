//! The client for code that is not async: every call waits where it is made.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use a2e_wire::messages::base::AcceptedCapability;
use a2e_wire::{Body, DecodeError, Message, MessageKind, Request, SessionId};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

use crate::client::{
    CallOptions, Client as AsyncClient, ClientError, Connector, Handler, HandlerId, Reply,
};

/// A connected agent. Its connection runs on a thread of its own, which ends when the client is
/// dropped; handlers are called on that thread.
///
/// Calls wait by parking the thread, so they can be made anywhere, by several threads at once. In a
/// handler they would wait for themselves: there, use [`Client::inner`].
#[derive(Debug)]
pub struct Client {
    client: AsyncClient,
    runtime: Handle,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Client {
    /// Connects and shakes hands.
    ///
    /// # Errors
    /// If the thread cannot be started, and as [`Connector::connect`].
    pub fn connect(connector: Connector) -> Result<Self, ClientError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ClientError::Io)?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let (told, outcome) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("a2e-client".into())
            .spawn(move || {
                runtime.block_on(async {
                    let connected = connector.connect().await;
                    let failed = connected.is_err();
                    // Nobody waits if the caller's thread is gone.
                    if told.send(connected).is_ok() && !failed {
                        stopped.cancelled().await;
                    }
                });
            })
            .map_err(ClientError::Io)?;
        let client = outcome.recv().map_err(|_| ClientError::Closed)??;
        Ok(Self {
            client,
            runtime: handle,
            stop,
            thread: Some(thread),
        })
    }

    /// As [`AsyncClient::rpc`].
    ///
    /// # Errors
    /// As there.
    pub fn rpc(
        &self,
        body: impl Into<Body<'static>>,
        options: CallOptions,
    ) -> Result<Message<'static>, ClientError> {
        self.wait(self.client.rpc(body, options))
    }

    /// As [`AsyncClient::request`], made at once.
    ///
    /// # Errors
    /// As there.
    pub fn request<R: Request + Into<Body<'static>>>(
        &self,
        request: R,
    ) -> Result<R::Response, ClientError> {
        self.wait(self.client.request(request).into_future())
    }

    /// As [`AsyncClient::ping`].
    ///
    /// # Errors
    /// As there.
    pub fn ping(&self) -> Result<Duration, ClientError> {
        self.wait(self.client.ping())
    }

    /// As [`AsyncClient::notify`].
    ///
    /// # Errors
    /// As there.
    pub fn notify(&self, body: impl Into<Body<'static>>) -> Result<(), ClientError> {
        self.wait(self.client.notify(body))
    }

    /// As [`AsyncClient::register_push_handler`].
    pub fn register_push_handler(
        &self,
        type_name: impl Into<String>,
        handler: Handler,
    ) -> HandlerId {
        self.client.register_push_handler(type_name, handler)
    }

    /// As [`AsyncClient::unregister_push_handler`].
    pub fn unregister_push_handler(&self, id: HandlerId) {
        self.client.unregister_push_handler(id);
    }

    /// As [`AsyncClient::on_any`].
    pub fn on_any(&self, handler: Handler) -> HandlerId {
        self.client.on_any(handler)
    }

    /// As [`AsyncClient::update_msg_types`].
    pub fn update_msg_types<T: Into<String>>(
        &self,
        types: impl IntoIterator<Item = (T, MessageKind)>,
    ) {
        self.client.update_msg_types(types);
    }

    /// As [`AsyncClient::encode`].
    #[must_use]
    pub fn encode(message: &Message<'_>) -> Vec<u8> {
        AsyncClient::encode(message)
    }

    /// As [`AsyncClient::decode`].
    ///
    /// # Errors
    /// As there.
    pub fn decode(line: &[u8]) -> Result<Message<'static>, DecodeError> {
        AsyncClient::decode(line)
    }

    /// As [`AsyncClient::capability`].
    #[must_use]
    pub fn capability(&self, name: &str) -> Option<AcceptedCapability<'static>> {
        self.client.capability(name)
    }

    /// As [`AsyncClient::on_request`].
    pub fn on_request(
        &self,
        type_name: impl Into<String>,
        handler: impl FnMut(Message<'static>, Reply) + Send + 'static,
    ) {
        self.client.on_request(type_name, handler);
    }

    /// As [`AsyncClient::capabilities`].
    #[must_use]
    pub fn capabilities(&self) -> Vec<AcceptedCapability<'static>> {
        self.client.capabilities()
    }

    /// As [`AsyncClient::session_id`].
    #[must_use]
    pub fn session_id(&self) -> SessionId<'static> {
        self.client.session_id()
    }

    /// As [`AsyncClient::disconnect`].
    pub fn disconnect(&self, grace: Duration) {
        self.wait(self.client.disconnect(grace));
    }

    /// The client that this one drives, for what has no method here; [`Client::wait`] runs it.
    #[must_use]
    pub const fn inner(&self) -> &AsyncClient {
        &self.client
    }

    /// Waits for a future of [`Client::inner`].
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        // Timers of the future belong to our runtime, wherever we are.
        let _context = self.runtime.enter();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(outcome) = future.as_mut().poll(&mut context) {
                return outcome;
            }
            std::thread::park();
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        // A handler that drops the client cannot wait for its own thread.
        let elsewhere = thread.thread().id() != std::thread::current().id();
        if elsewhere {
            self.disconnect(Duration::from_secs(2));
        }
        self.stop.cancel();
        if elsewhere {
            // It has nothing to report.
            let _ = thread.join();
        }
    }
}

/// Wakes a thread that waits.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
