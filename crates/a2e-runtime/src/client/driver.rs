//! The task of a connection: lines in and out, outcomes to those who wait, and the way back when it
//! breaks.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use a2e_session::{AgentEvent, AgentSession, Call, ConnectError, Connected, Now, Random};
use a2e_wire::lenient::ProcOutput;
use a2e_wire::messages::base::HandshakeReason;
use a2e_wire::messages::proc::ProcReadData;
use a2e_wire::{Body, LineTooLong, Message};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::error::ClientError;
use super::handlers::Reply;
use super::link::{Lines, Link, Output};
use super::reconnect::{Dial, Reconnect};
use super::shared::Shared;
use crate::plugin::BoxFuture;

/// Drives a client's connections, one after another.
pub(super) struct Driver {
    shared: Arc<Shared>,
    phase: Phase,
    output: Output,
    dial: Option<(Arc<dyn Dial>, Reconnect)>,
    random: Box<dyn Random>,
    /// Attempts to come back since the host last responded, or had a connection for long.
    attempts: u32,
    /// When the last handshake was accepted.
    connected_at: Option<Instant>,
    /// Told how the first handshake went.
    connected: Option<oneshot::Sender<Result<(), ClientError>>>,
    timer: Timer,
}

enum Phase {
    Up(Link),
    Waiting(Pin<Box<Sleep>>),
    Dialing(BoxFuture<'static, io::Result<Link>>),
    Closing(Link, Pin<Box<Sleep>>),
    Ended,
}

/// Wakes at the session's next deadline. Deadlines mostly move on before they come, and setting a
/// timer is dear, so it is only ever set to an earlier moment, or after it went off.
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    at: Option<Duration>,
}

/// What is taken from the session before it is written.
const OUTPUT: usize = 64 * 1024;

/// How long a connection may take to end in good order.
const CLOSE: Duration = Duration::from_secs(10);

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        link: Link,
        dial: Option<(Arc<dyn Dial>, Reconnect)>,
        random: Box<dyn Random>,
        connected: oneshot::Sender<Result<(), ClientError>>,
    ) -> Self {
        Self {
            shared,
            phase: Phase::Up(link),
            output: Output::default(),
            dial,
            random,
            attempts: 0,
            connected_at: None,
            connected: Some(connected),
            timer: Timer {
                sleep: None,
                at: None,
            },
        }
    }

    pub(super) async fn run(mut self) {
        poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.lock().set_driver(context.waker());
        loop {
            self.begin_close();
            let step = match &mut self.phase {
                Phase::Up(_) => self.poll_up(context),
                Phase::Waiting(sleep) => sleep.as_mut().poll(context).map(|()| self.redial()),
                Phase::Dialing(dialing) => {
                    let dialed = dialing.as_mut().poll(context);
                    dialed.map(|outcome| self.dialed(outcome))
                }
                Phase::Closing(_, _) => self.poll_closing(context),
                Phase::Ended => return Poll::Ready(()),
            };
            self.dispatch();
            let due = self.timer.poll(context, &self.shared);
            if step.is_pending() && due.is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Reads and writes. Ready if there may be more to read.
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let read = self.read(context);
        self.dispatch();
        if let Poll::Ready(Err(error)) = self.write(context) {
            self.broken(Some(error));
            return Poll::Ready(());
        }
        match ready!(read) {
            Ok(true) => {}
            Ok(false) => self.broken(None),
            Err(error) => self.broken(Some(error)),
        }
        Poll::Ready(())
    }

    fn read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Phase::Up(link) = &mut self.phase else {
            return Poll::Pending;
        };
        let mut state = self.shared.lock();
        if state.pauses > 0 {
            return Poll::Pending;
        }
        let now = self.shared.clock.now();
        let session = &mut state.session;
        link.0.poll_read(context, &mut Incoming { session, now })
    }

    /// Writes all there is, as far as the connection takes it.
    fn write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (Phase::Up(link) | Phase::Closing(link, _)) = &mut self.phase else {
            return Poll::Pending;
        };
        loop {
            let mut state = self.shared.lock();
            while self.output.rest().len() < OUTPUT
                && let Some(line) = state.session.poll_transmit()
            {
                self.output.push_line(line);
            }
            state.wake_queue();
            drop(state);
            let idle = self.output.rest().is_empty();
            ready!(link.0.poll_write(context, &mut self.output))?;
            if idle {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// The connection broke, or the host closed it.
    fn broken(&mut self, error: Option<io::Error>) {
        tracing::debug!(?error, "the connection to the host broke");
        self.output.clear();
        let may_return = self.connected.is_none();
        let Some((_, policy)) = self.dial.as_ref().filter(|_| may_return) else {
            return self.end(error.map(ClientError::Io));
        };
        // A host that takes sessions and then closes them is not back: its attempts go on counting.
        let connected_at = self.connected_at.take();
        if connected_at.is_some_and(|at| at.elapsed() >= policy.longest) {
            self.attempts = 0;
        }
        if self.attempts >= policy.attempts {
            tracing::warn!(attempts = self.attempts, "the host stays away; giving up");
            return self.end(None);
        }
        let wait = policy.wait(self.attempts, self.random.bits());
        self.attempts = self.attempts.saturating_add(1);
        self.shared.lock().session.detach();
        self.phase = Phase::Waiting(Box::pin(tokio::time::sleep(wait)));
    }

    fn redial(&mut self) {
        match &self.dial {
            Some((dial, _)) => self.phase = Phase::Dialing(Arc::clone(dial).dial_in_time()),
            None => self.end(None),
        }
    }

    fn dialed(&mut self, outcome: io::Result<Link>) {
        match outcome {
            Ok(link) => {
                self.phase = Phase::Up(link);
                let now = self.shared.clock.now();
                self.shared.lock().session.reconnect(now);
            }
            Err(error) => self.broken(Some(error)),
        }
    }

    fn begin_close(&mut self) {
        if matches!(self.phase, Phase::Closing(..) | Phase::Ended) {
            return;
        }
        let mut state = self.shared.lock();
        let Some(grace) = state.closing else { return };
        state.session.close(self.shared.clock.now(), grace);
        drop(state);
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Up(link) => {
                self.phase = Phase::Closing(link, Box::pin(tokio::time::sleep(CLOSE)));
            }
            Phase::Waiting(_) | Phase::Dialing(_) | Phase::Closing(..) | Phase::Ended => {
                self.end(None);
            }
        }
    }

    fn poll_closing(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let written = self.write(context);
        let Phase::Closing(link, limit) = &mut self.phase else {
            return Poll::Ready(());
        };
        if limit.as_mut().poll(context).is_pending()
            && let Ok(()) = ready!(written)
        {
            let _ = ready!(link.0.poll_close(context));
        }
        self.end(None);
        Poll::Ready(())
    }

    /// Nothing comes any more.
    fn end(&mut self, error: Option<ClientError>) {
        self.phase = Phase::Ended;
        self.shared.end();
        self.tell_connected(Err(error.unwrap_or(ClientError::Closed)));
    }

    fn tell_connected(&mut self, outcome: Result<(), ClientError>) {
        if let Some(connected) = self.connected.take() {
            let _ = connected.send(outcome);
        }
    }

    /// Tells everybody what happened. Handlers are called without the lock: they may use the client.
    fn dispatch(&mut self) {
        loop {
            let mut state = self.shared.lock();
            let Some(event) = state.session.poll_event() else {
                return;
            };
            match event {
                AgentEvent::Response(call, message) => {
                    state.finish(call, Ok(message));
                    state.wake_queue();
                    drop(state);
                    self.attempts = 0;
                }
                AgentEvent::Failed(call, error) => {
                    state.finish(call, Err(error));
                    state.wake_queue();
                }
                AgentEvent::Connected(connected) => {
                    drop(state);
                    self.is_connected(connected);
                }
                AgentEvent::NotConnected(error) => {
                    drop(state);
                    self.is_not_connected(error);
                }
                AgentEvent::Event(call, message) => {
                    drop(state);
                    self.event(call, message);
                }
                AgentEvent::Request(message) => {
                    let handler = state.handlers.of_request(&message);
                    drop(state);
                    let reply = Reply::new(Arc::downgrade(&self.shared), &message);
                    // Without a handler the reply says so when it is dropped.
                    if let Some(handler) = handler {
                        handler.call(message, reply);
                    }
                }
                AgentEvent::Push(message) => {
                    drop(state);
                    self.push(message);
                }
            }
        }
    }

    fn is_connected(&mut self, connected: Connected) {
        self.connected_at = Some(Instant::now());
        if let Some((from, to)) = connected.missed {
            tracing::warn!(from, to, "messages of the session are lost");
        }
        let mut state = self.shared.lock();
        if !connected.resumed {
            state.end_streams();
        }
        state.connected = Some(Arc::new(connected));
        drop(state);
        self.tell_connected(Ok(()));
    }

    fn is_not_connected(&mut self, error: ConnectError) {
        // What a host cannot do at the moment, as with a full disk, it may do later.
        let may_pass = matches!(
            error,
            ConnectError::Timeout | ConnectError::Refused(HandshakeReason::ServerError)
        );
        if may_pass && self.connected.is_none() {
            return self.broken(None);
        }
        tracing::debug!(%error, "no session");
        self.end(Some(error.into()));
    }

    /// An event goes to its call's handler, else where pushes go.
    fn event(&self, call: Call, message: Message<'static>) {
        let Some(mut handler) = self.shared.lock().take_handler(call) else {
            return self.push(message);
        };
        let last = is_last(&message);
        handler.call(message);
        self.shared.lock().put_handler(call, handler, last);
    }

    fn push(&self, message: Message<'static>) {
        let handlers = self.shared.lock().handlers.of_push(&message);
        if let Some((last, others)) = handlers.split_last() {
            for handler in others {
                handler.call(message.clone());
            }
            last.call(message);
        }
    }
}

/// Lines on their way into the session.
struct Incoming<'s> {
    session: &'s mut AgentSession,
    now: Now,
}

impl Lines for Incoming<'_> {
    fn line(&mut self, line: Result<&[u8], LineTooLong>) {
        self.session.handle_line(self.now, line);
    }
}

impl Drop for Driver {
    /// Whatever ends the task, nobody waits for ever.
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Whether a process has ended with this event. `killed` alone is not the end: the exit code follows.
fn is_last(message: &Message<'_>) -> bool {
    let Body::ProcReadEvent(event) = &message.body else {
        return false;
    };
    let ProcOutput(data) = &event.data;
    data.read(message.envelope.ts)
        .is_ok_and(|data: ProcReadData<'_>| data.code.is_some())
}

impl Timer {
    /// Ready if something was due, and is done.
    fn poll(&mut self, context: &mut Context<'_>, shared: &Shared) -> Poll<()> {
        let Some(due) = shared.lock().session.poll_timeout() else {
            return Poll::Pending;
        };
        let deadline = shared.clock.instant(due);
        let sleep = self
            .sleep
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if self.at.is_none_or(|at| due < at) {
            sleep.as_mut().reset(deadline);
            self.at = Some(due);
        }
        ready!(sleep.as_mut().poll(context));
        self.at = None;
        shared.lock().session.handle_timeout(shared.clock.now());
        Poll::Ready(())
    }
}
