//! The agent's end over any byte stream (seed 003).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use a2e_session::{AgentConfig, AgentEvent, AgentSession, Call, CallError, ConnectError};
use a2e_wire::messages::base::{AcceptedCapability, Error, Ping};
use a2e_wire::{Body, Framer, MAX_LINE, Message, SessionId};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::clock::{Clock, system_random};

/// A connected agent. Cheap to clone; all clones are one connection.
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Command>,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    session_id: SessionId<'static>,
    capabilities: Vec<AcceptedCapability<'static>>,
    max_parallel: i64,
    /// The connection's task; it ends with the last clone.
    _task: Task,
}

#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is called with each event of a call, or each push. It runs on the connection's own task, so
/// a slow one holds back the host instead of filling a queue; it must not block.
pub struct Handler(Box<dyn FnMut(Message<'static>) + Send>);

/// How to make a call.
#[derive(Debug)]
pub struct CallOptions {
    /// How long to wait for the response.
    pub timeout: Duration,
    /// Called with each of the call's events, in order, before the response is returned.
    pub on_event: Handler,
}

impl Handler {
    /// Calls a function.
    pub fn new(function: impl FnMut(Message<'static>) + Send + 'static) -> Self {
        Self(Box::new(function))
    }

    /// Passes over what comes.
    #[must_use]
    pub fn none() -> Self {
        Self::new(drop)
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}

/// Why something did not work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The session did not come about.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The host answered with an error.
    #[error("{}: {}", error.code, error.message)]
    Host {
        /// What the host said: code, message, whether to try again, detail, capability.
        error: Box<Error<'static>>,
        /// The id of the request.
        req_id: String,
        /// The events that came before.
        events: Vec<Message<'static>>,
    },
    /// No response came in time.
    #[error("no response came within {0:?}")]
    Timeout(Duration),
    /// The connection ended.
    #[error("the connection to the host is closed")]
    Closed,
    /// The connection failed.
    #[error("the connection to the host failed: {0}")]
    Io(#[from] io::Error),
}

enum Command {
    Call {
        body: Box<Body<'static>>,
        options: CallOptions,
        done: oneshot::Sender<Result<Message<'static>, CallError>>,
        /// Told the call's id.
        id: oneshot::Sender<String>,
    },
    Notify(Box<Body<'static>>),
    Close(Duration),
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            on_event: Handler::none(),
        }
    }
}

impl Client {
    /// Shakes hands over a connection. `on_push` is called with what nobody asked for.
    ///
    /// # Errors
    /// If the host refuses, does not answer, or the connection fails.
    pub async fn connect(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        config: AgentConfig,
        on_push: Handler,
    ) -> Result<Self, ClientError> {
        let clock = Clock::start();
        let session = AgentSession::connect(clock.now(), config, system_random());
        let (commands, inbox) = mpsc::channel(64);
        let (connected, outcome) = oneshot::channel();
        let driver = Driver {
            session,
            clock,
            framer: Framer::new(MAX_LINE),
            inbox,
            connected: Some(connected),
            calls: HashMap::new(),
            on_push,
            output: Vec::new(),
        };
        let task = Task(tokio::spawn(async move {
            if let Err(error) = driver.run(stream).await {
                tracing::debug!(%error, "connection to the host failed");
            }
        }));
        let Connected {
            session_id,
            capabilities,
            max_parallel,
        } = outcome.await.map_err(|_| ClientError::Closed)??;
        Ok(Self {
            commands,
            inner: Arc::new(Inner {
                session_id,
                capabilities,
                max_parallel,
                _task: task,
            }),
        })
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// What the host answered, a timeout, or the end of the connection.
    pub async fn rpc(
        &self,
        body: impl Into<Body<'static>>,
        options: CallOptions,
    ) -> Result<Message<'static>, ClientError> {
        let timeout = options.timeout;
        let (done, outcome) = oneshot::channel();
        let (id, call_id) = oneshot::channel();
        let command = Command::Call {
            body: Box::new(body.into()),
            options,
            done,
            id,
        };
        self.commands
            .send(command)
            .await
            .map_err(|_| ClientError::Closed)?;
        let req_id = call_id.await.map_err(|_| ClientError::Closed)?;
        match outcome.await.map_err(|_| ClientError::Closed)? {
            Ok(message) => Ok(message),
            Err(CallError::Host(error, events)) => Err(ClientError::Host {
                error,
                req_id,
                events,
            }),
            Err(CallError::Timeout) => Err(ClientError::Timeout(timeout)),
            Err(CallError::Closed) => Err(ClientError::Closed),
        }
    }

    /// Asks whether the host is there; returns how long the answer took.
    ///
    /// # Errors
    /// As [`Client::rpc`].
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        let start = tokio::time::Instant::now();
        self.rpc(Ping::new(), CallOptions::default()).await?;
        Ok(start.elapsed())
    }

    /// Sends a message that gets no answer.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn notify(&self, body: impl Into<Body<'static>>) -> Result<(), ClientError> {
        let command = Command::Notify(Box::new(body.into()));
        self.commands
            .send(command)
            .await
            .map_err(|_| ClientError::Closed)
    }

    /// Ends the session; the host may finish what it runs within `grace`.
    pub async fn disconnect(&self, grace: Duration) {
        let _ = self.commands.send(Command::Close(grace)).await;
        self.commands.closed().await;
    }

    /// What the host said of the capabilities asked for.
    #[must_use]
    pub fn capabilities(&self) -> &[AcceptedCapability<'static>] {
        &self.inner.capabilities
    }

    /// The session's id.
    #[must_use]
    pub fn session_id(&self) -> &SessionId<'static> {
        &self.inner.session_id
    }

    /// How many calls the host runs at once.
    #[must_use]
    pub fn max_parallel(&self) -> i64 {
        self.inner.max_parallel
    }
}

struct Connected {
    session_id: SessionId<'static>,
    capabilities: Vec<AcceptedCapability<'static>>,
    max_parallel: i64,
}

struct Waiting {
    done: oneshot::Sender<Result<Message<'static>, CallError>>,
    on_event: Handler,
}

/// Drives the connection.
struct Driver {
    session: AgentSession,
    clock: Clock,
    framer: Framer,
    inbox: mpsc::Receiver<Command>,
    connected: Option<oneshot::Sender<Result<Connected, ConnectError>>>,
    calls: HashMap<Call, Waiting>,
    on_push: Handler,
    output: Vec<u8>,
}

impl Driver {
    async fn run(mut self, stream: impl AsyncRead + AsyncWrite + Send) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut chunk = vec![0; 16 * 1024];
        let mut closing = false;
        loop {
            self.settle();
            if closing && self.output.is_empty() {
                writer.flush().await?;
                return writer.shutdown().await;
            }
            let timeout = self.clock.wait_until(self.session.poll_timeout());
            tokio::select! {
                written = writer.write(&self.output), if !self.output.is_empty() => {
                    // Not flushed: waiting for a slow reader here would stop everything else.
                    self.output.drain(..written?);
                }
                read = reader.read(&mut chunk) => {
                    let size = read?;
                    if size == 0 {
                        self.session.disconnected();
                        self.settle();
                        return Ok(());
                    }
                    let mut lines = self.framer.feed(chunk.get(..size).unwrap_or_default());
                    while let Some(line) = lines.next() {
                        self.session.handle_line(self.clock.now(), line);
                    }
                }
                command = self.inbox.recv() => match command {
                    Some(Command::Close(grace)) => {
                        self.session.close(self.clock.now(), grace);
                        closing = true;
                    }
                    Some(command) => self.take_command(command),
                    None => return Ok(()),
                },
                () = timeout => self.session.handle_timeout(self.clock.now()),
            }
        }
    }

    fn take_command(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Call {
                body,
                options,
                done,
                id,
            } => {
                let call = self.session.call(now, *body, options.timeout);
                let _ = id.send(call.0.to_string());
                let on_event = options.on_event;
                self.calls.insert(call, Waiting { done, on_event });
            }
            Command::Notify(body) => self.session.notify(now, *body),
            Command::Close(grace) => self.session.close(now, grace),
        }
    }

    fn settle(&mut self) {
        while let Some(event) = self.session.poll_event() {
            self.take_event(event);
        }
        while let Some(line) = self.session.poll_transmit() {
            self.output.extend_from_slice(&line);
            self.output.push(b'\n');
        }
    }

    fn take_event(&mut self, event: AgentEvent) {
        match event {
            AgentEvent::Connected {
                session_id,
                capabilities,
                max_parallel,
                ..
            } => self.tell_connected(Ok(Connected {
                session_id,
                capabilities,
                max_parallel,
            })),
            AgentEvent::NotConnected(error) => self.tell_connected(Err(error)),
            AgentEvent::Event(call, message) => {
                if let Some(waiting) = self.calls.get_mut(&call) {
                    (waiting.on_event.0)(message);
                }
            }
            AgentEvent::Response(call, message) => self.finish(&call, Ok(message)),
            AgentEvent::Failed(call, error) => self.finish(&call, Err(error)),
            AgentEvent::Push(message) => (self.on_push.0)(message),
        }
    }

    fn tell_connected(&mut self, outcome: Result<Connected, ConnectError>) {
        if let Some(connected) = self.connected.take() {
            let _ = connected.send(outcome);
        }
    }

    fn finish(&mut self, call: &Call, outcome: Result<Message<'static>, CallError>) {
        if let Some(waiting) = self.calls.remove(call) {
            let _ = waiting.done.send(outcome);
        }
    }
}
