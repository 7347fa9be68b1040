//! One connection: bytes in and out, requests as tasks, around a session.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use a2e_session::{EventError, Failure, HostEvent, HostSession, Request, Token};
use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::{Body, ErrorCode, Framer, Namespace};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::auth::{Identity, Login, Source};
use crate::clock::Clock;
use crate::host::Host;
use crate::plugin::{Context, Outcome, SendError};

/// What tasks ask of the connection they work for.
#[derive(Debug)]
pub(crate) enum Command {
    /// A token was checked.
    LoggedIn(Result<Identity, HandshakeReason<'static>>),
    /// A request is finished.
    Finished(Token, Box<Result<Outcome, Failure>>),
    /// An event is to be sent.
    Event {
        token: Token,
        body: Box<Body<'static>>,
        done: oneshot::Sender<Result<(), SendError>>,
    },
}

/// Drives one connection.
pub(crate) struct Driver {
    host: Host,
    session: HostSession,
    clock: Clock,
    source: Source,
    framer: Framer,
    identity: Identity,
    /// The tasks of running requests.
    running: HashMap<Token, CancellationToken>,
    /// Events that wait until the peer has caught up.
    held: Vec<Command>,
    commands: mpsc::Sender<Command>,
    inbox: mpsc::Receiver<Command>,
    /// Written by the session, not yet by the connection.
    output: Vec<u8>,
}

/// How much is read at once, and how much is gathered before it is written.
const CHUNK: usize = 16 * 1024;

/// Time for requests to finish when the host stops.
const GRACE: Duration = Duration::from_secs(10);

/// Time for requests to finish when the peer has closed its side.
const AFTER_EOF: Duration = Duration::from_secs(2);

impl Driver {
    pub(crate) fn new(host: Host, session: HostSession, clock: Clock, source: Source) -> Self {
        let (commands, inbox) = mpsc::channel(64);
        Self {
            framer: Framer::new(host.inner.max_line),
            host,
            session,
            clock,
            source,
            identity: Identity {
                agent: String::new(),
            },
            running: HashMap::new(),
            held: Vec::new(),
            commands,
            inbox,
            output: Vec::new(),
        }
    }

    /// Runs until the session has ended and all it wrote is written.
    pub(crate) async fn run(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Send,
    ) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut chunk = vec![0; CHUNK];
        let mut open = true;
        let stopping = self.host.inner.stopping.clone();
        let mut stopped = false;
        loop {
            self.settle();
            if !open && !self.session.is_logging_in() {
                // A peer that has said all it wants to say may still wait for answers.
                self.session.shutdown(self.clock.now(), AFTER_EOF);
                self.settle();
            }
            if self.output.is_empty() && self.session.is_closed() {
                break;
            }
            let timeout = self.clock.wait_until(self.session.poll_timeout());
            tokio::select! {
                written = writer.write(&self.output), if !self.output.is_empty() => {
                    // Not flushed: waiting for a slow reader here would stop everything else.
                    self.output.drain(..written?);
                }
                read = reader.read(&mut chunk), if open && self.session.wants_input() => {
                    let size = read?;
                    open = size > 0;
                    self.take_bytes(chunk.get(..size).unwrap_or_default());
                }
                Some(command) = self.inbox.recv() => self.take_command(command),
                () = timeout => self.session.handle_timeout(self.clock.now()),
                () = stopping.cancelled(), if !stopped => {
                    stopped = true;
                    self.session.shutdown(self.clock.now(), GRACE);
                }
            }
        }
        writer.flush().await?;
        writer.shutdown().await
    }

    /// Gives the session what was read; nothing means that the peer has closed its side.
    fn take_bytes(&mut self, bytes: &[u8]) {
        let now = self.clock.now();
        if bytes.is_empty() {
            if let Some(line) = self.framer.finish() {
                self.session.handle_line(now, line);
            }
            return;
        }
        let mut lines = self.framer.feed(bytes);
        while let Some(line) = lines.next() {
            self.session.handle_line(now, line);
        }
    }

    /// Does what the session asks for, and gathers what it writes.
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.session.poll_event() {
                self.take_event(event);
            }
            let now = self.clock.now();
            while self.output.len() < CHUNK {
                let Some(transmit) = self.session.poll_transmit(now) else {
                    break;
                };
                self.output.extend_from_slice(&transmit.line);
                self.output.push(b'\n');
            }
            for command in std::mem::take(&mut self.held) {
                self.take_command(command);
            }
            match self.session.poll_event() {
                Some(event) => self.take_event(event),
                None => break,
            }
        }
    }

    fn take_event(&mut self, event: HostEvent) {
        match event {
            HostEvent::Login(login) => self.check_login(login),
            HostEvent::Start(request) => self.start(request),
            HostEvent::Cancel(token, _) => {
                if let Some(task) = self.running.remove(&token) {
                    task.cancel();
                }
            }
            // No plugin asks agents for anything yet.
            HostEvent::Reply(_) | HostEvent::Closed(_) => {}
        }
    }

    fn check_login(&self, login: Login) {
        let (host, commands) = (self.host.clone(), self.commands.clone());
        let source = self.source;
        tokio::spawn(async move {
            let outcome = match login.resume {
                // Sessions end with their connection here, so there is none to go on with.
                Some(_) => Err(HandshakeReason::AuthFailed),
                None => host.inner.authenticator.authenticate(&login, source).await,
            };
            let _ = commands.send(Command::LoggedIn(outcome)).await;
        });
    }

    /// Starts a request's task. A panic in a plugin is that request's failure, nobody else's.
    fn start(&mut self, request: Request) {
        let cancelled = CancellationToken::new();
        self.running.insert(request.token, cancelled.clone());
        let context = Context {
            identity: self.identity.clone(),
            cancelled: cancelled.clone(),
            token: request.token,
            commands: self.commands.clone(),
        };
        let (host, commands) = (self.host.clone(), self.commands.clone());
        tokio::spawn(async move {
            let work = tokio::spawn(async move {
                host.inner.registry.dispatch(request.message, context).await
            });
            let abort = work.abort_handle();
            let outcome = tokio::select! {
                outcome = work => outcome.unwrap_or_else(|_| Err(crashed())),
                () = cancelled.cancelled() => {
                    abort.abort();
                    return;
                }
            };
            let _ = commands
                .send(Command::Finished(request.token, Box::new(outcome)))
                .await;
        });
    }

    fn take_command(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::LoggedIn(Ok(identity)) => {
                self.identity = identity;
                self.session.login_accepted(now);
            }
            Command::LoggedIn(Err(reason)) => self.session.login_refused(now, reason),
            Command::Finished(token, outcome) => {
                self.running.remove(&token);
                // A request that timed out meanwhile has been answered.
                let _ = match *outcome {
                    Ok(Outcome::Answer(body)) => self.session.respond(now, token, Ok(*body)),
                    Ok(Outcome::Done | Outcome::Pass) => self.session.done(now, token),
                    Err(failure) => self.session.respond(now, token, Err(failure)),
                };
            }
            Command::Event { token, body, done } => {
                match self.session.event(now, token, (*body).clone()) {
                    Ok(()) => drop(done.send(Ok(()))),
                    Err(EventError::Stale(_)) => drop(done.send(Err(SendError))),
                    Err(EventError::Backpressure(_)) => {
                        self.held.push(Command::Event { token, body, done })
                    }
                }
            }
        }
    }
}

impl Drop for Driver {
    /// Requests end with the connection they came over.
    fn drop(&mut self) {
        for task in self.running.values() {
            task.cancel();
        }
    }
}

fn crashed() -> Failure {
    let text = "the plugin crashed; the host's log says more";
    Failure::new(ErrorCode::RuntimeError, Namespace::Base, text)
}
