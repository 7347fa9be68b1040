//! What the handles of a client and its connection's task share.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use a2e_session::{AgentSession, Call, CallError, Connected, Refused};
use a2e_wire::messages::base::Error;
use a2e_wire::{Body, ErrorCode, Message, MessageId};
use tokio_util::sync::CancellationToken;

use super::CallOptions;
use super::error::{A2eError, ClientError};
use super::handlers::{Handler, Handlers};
use crate::clock::Clock;

/// The session and everybody who waits for it. A call is written into the session by whoever makes
/// it and its outcome is put into a slot, so a call costs one lock and one wake-up on each way.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) clock: Clock,
    /// Ends when the connection has.
    pub(super) ended: CancellationToken,
}

pub(super) struct State {
    pub(super) session: AgentSession,
    pub(super) handlers: Handlers,
    pub(super) connected: Option<Arc<Connected>>,
    /// Somebody wants the session to end, within this time.
    pub(super) closing: Option<Duration>,
    calls: BTreeMap<Call, Slot>,
    /// Handlers of calls that are over but whose events go on.
    streams: BTreeMap<Call, Handler>,
    /// Those who wait until a call more can be taken.
    queue: Vec<Waker>,
    driver: Option<Waker>,
    /// How many have paused the reading of the connection.
    pub(super) pauses: usize,
}

/// A call that somebody waits for.
struct Slot {
    outcome: Option<Result<Message<'static>, CallError>>,
    waker: Option<Waker>,
    event_callback: Handler,
    /// Its events go on after its response.
    streams: bool,
}

/// A call under way. Dropping it withdraws the call.
pub(super) struct Open<'s> {
    shared: &'s Shared,
    call: Call,
    timeout: Duration,
    done: bool,
}

/// Calls whose events go on that are listened to; the oldest give way.
const MAX_STREAMS: usize = 1000;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(session: AgentSession, handlers: Handlers, clock: Clock) -> Self {
        Self {
            state: Mutex::new(State {
                session,
                handlers,
                connected: None,
                closing: None,
                calls: BTreeMap::new(),
                streams: BTreeMap::new(),
                queue: Vec::new(),
                driver: None,
                pauses: 0,
            }),
            clock,
            ended: CancellationToken::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request, as soon as there is room for it. `on_sent` is called with its id before anything
    /// can come back, and must not use the client.
    pub(super) async fn call(
        &self,
        body: Body<'static>,
        options: CallOptions,
        on_sent: impl FnOnce(MessageId<'static>),
    ) -> Result<Open<'_>, ClientError> {
        let timeout = options.timeout;
        let mut request = Some((body, options, on_sent));
        loop {
            if let Some(open) = self.try_call(&mut request)? {
                return Ok(open);
            }
            self.wait_for_room(timeout).await?;
        }
    }

    /// Sends a request, unless there is no room for it now.
    fn try_call(
        &self,
        request: &mut Option<(Body<'static>, CallOptions, impl FnOnce(MessageId<'static>))>,
    ) -> Result<Option<Open<'_>>, Refused> {
        let mut state = self.lock();
        if state.is_full() {
            return Ok(None);
        }
        let Some((body, options, on_sent)) = request.take() else {
            return Ok(None);
        };
        let open = state.call(self, body, options)?;
        on_sent(state.session.request_id(open.call));
        Ok(Some(open))
    }

    pub(super) async fn notify(&self, body: Body<'static>) -> Result<(), ClientError> {
        while self.lock().is_full() {
            self.wait_for_room(Duration::MAX).await?;
        }
        Ok(self.reply(MessageId::default(), body)?)
    }

    pub(super) fn reply(
        &self,
        request: MessageId<'static>,
        body: Body<'static>,
    ) -> Result<(), Refused> {
        let mut state = self.lock();
        state.session.reply(self.clock.now(), request, body)?;
        state.wake_driver();
        Ok(())
    }

    /// Begins to end the session.
    pub(super) fn close(&self, grace: Duration) {
        let mut state = self.lock();
        state.closing.get_or_insert(grace);
        state.wake_driver();
    }

    /// The connection is gone for good: everybody who waits is told.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.session.disconnected();
        state.end_streams();
        state.driver = None;
        while let Some(event) = state.session.poll_event() {
            if let a2e_session::AgentEvent::Failed(call, error) = event {
                state.finish(call, Err(error));
            }
        }
        state.wake_queue();
        drop(state);
        self.ended.cancel();
    }

    async fn wait_for_room(&self, timeout: Duration) -> Result<(), ClientError> {
        let wait = poll_fn(|context| {
            let mut state = self.lock();
            if !state.is_full() {
                return Poll::Ready(());
            }
            if !state
                .queue
                .iter()
                .any(|known| known.will_wake(context.waker()))
            {
                state.queue.push(context.waker().clone());
            }
            Poll::Pending
        });
        match tokio::time::timeout(timeout, wait).await {
            Ok(()) => Ok(()),
            Err(_) => Err(ClientError::Timeout(timeout)),
        }
    }
}

impl State {
    fn call<'s>(
        &mut self,
        shared: &'s Shared,
        body: Body<'static>,
        options: CallOptions,
    ) -> Result<Open<'s>, Refused> {
        let streams =
            matches!(body, Body::ProcSpawnRequest(_)) && !options.event_callback.is_none();
        let timeout = options.timeout;
        let call = self.session.call(shared.clock.now(), body, timeout)?;
        let slot = Slot {
            outcome: None,
            waker: None,
            event_callback: options.event_callback,
            streams,
        };
        self.calls.insert(call, slot);
        self.wake_driver();
        Ok(Open {
            shared,
            call,
            timeout,
            done: false,
        })
    }

    fn is_full(&self) -> bool {
        matches!(self.session.room(), Err(Refused::NoRoom(_)))
    }

    /// Lets the driver know who to wake.
    pub(super) fn set_driver(&mut self, waker: &Waker) {
        match &self.driver {
            Some(known) if known.will_wake(waker) => {}
            _ => self.driver = Some(waker.clone()),
        }
    }

    /// Nothing more comes of what the session ran.
    pub(super) fn end_streams(&mut self) {
        self.streams.clear();
    }

    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    /// Wakes those who wait for room, if there is some.
    pub(super) fn wake_queue(&mut self) {
        if !self.queue.is_empty() && !self.is_full() {
            self.queue.drain(..).for_each(Waker::wake);
        }
    }

    pub(super) fn finish(&mut self, call: Call, outcome: Result<Message<'static>, CallError>) {
        let Some(slot) = self.calls.get_mut(&call) else {
            return;
        };
        let goes_on = slot.streams && outcome.as_ref().is_ok_and(is_started);
        if goes_on {
            let handler = std::mem::replace(&mut slot.event_callback, Handler::none());
            if self.streams.len() >= MAX_STREAMS {
                self.streams.pop_first();
            }
            self.streams.insert(call, handler);
        }
        slot.outcome = Some(outcome);
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Takes the handler of a call's events out, to be called without the lock. None if the call has
    /// no handler.
    pub(super) fn take_handler(&mut self, call: Call) -> Option<Handler> {
        let handler = match self.waiting(call) {
            Some(slot) => &mut slot.event_callback,
            None => self.streams.get_mut(&call)?,
        };
        (!handler.is_none()).then(|| std::mem::replace(handler, Handler::none()))
    }

    /// Puts a handler back, unless its call is over meanwhile. After the last event there is no stream.
    pub(super) fn put_handler(&mut self, call: Call, handler: Handler, last: bool) {
        if let Some(slot) = self.waiting(call) {
            slot.event_callback = handler;
            slot.streams &= !last;
        } else if last {
            self.streams.remove(&call);
        } else if let Some(known) = self.streams.get_mut(&call) {
            *known = handler;
        }
    }

    /// A call without a response so far. One that has its response keeps its slot until the caller
    /// takes the response, but its handler is among the streams by then.
    fn waiting(&mut self, call: Call) -> Option<&mut Slot> {
        let slot = self.calls.get_mut(&call);
        slot.filter(|slot| slot.outcome.is_none())
    }
}

/// Says to a host that the answer to a request is of no use any more.
fn withdrawn() -> Body<'static> {
    let error = Error {
        message: "the agent waits for this no longer".into(),
        ..Error::new(ErrorCode::Timeout)
    };
    error.into()
}

/// Whether a process runs now.
fn is_started(response: &Message<'_>) -> bool {
    matches!(&response.body, Body::ProcSpawnResponse(response) if response.ok)
}

impl Future for Open<'_> {
    type Output = Result<Message<'static>, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = self.shared;
        let mut state = shared.lock();
        let Some(slot) = state.calls.get_mut(&self.call) else {
            return Poll::Ready(Err(ClientError::Closed));
        };
        let Some(outcome) = slot.outcome.take() else {
            match &slot.waker {
                Some(known) if known.will_wake(context.waker()) => {}
                _ => slot.waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        };
        state.calls.remove(&self.call);
        self.done = true;
        Poll::Ready(outcome.map_err(|error| match error {
            CallError::Host(error, events) => {
                let id = state.session.request_id(self.call);
                ClientError::Host(Box::new(A2eError::new(*error, id, events)))
            }
            CallError::Invalid(error, events) => {
                let id = state.session.request_id(self.call);
                ClientError::Invalid(Box::new(A2eError::new(*error, id, events)))
            }
            CallError::Timeout => ClientError::Timeout(self.timeout),
            CallError::Lost => ClientError::Lost,
            CallError::Closed => ClientError::Closed,
        }))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.done {
            let mut state = self.shared.lock();
            let is_open = state.calls.remove(&self.call);
            if is_open.is_some_and(|slot| slot.outcome.is_none()) {
                let id = state.session.request_id(self.call);
                // A host that is told so stops working on it; others pass over it.
                let _ = state
                    .session
                    .reply(self.shared.clock.now(), id, withdrawn());
                state.wake_driver();
            }
            state.session.forget(self.call);
            state.wake_queue();
        }
    }
}
