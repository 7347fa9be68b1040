//! Functions that are called with what the host sends.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use a2e_wire::messages::base::Error;
use a2e_wire::{Body, ErrorCode, Message, MessageId, Tag};

use super::shared::Shared;

/// What is called with each event of a call, or each push. It runs on the connection's own task, so
/// a slow one holds back the host instead of filling a queue; it must not block. If it panics, the
/// panic is logged; the connection and its calls go on, and so do the next calls of the handler.
pub struct Handler(Option<Box<dyn FnMut(Message<'static>) + Send>>);

/// Names a handler, to take it away again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerId(u64);

/// The answer to a request of the host's. Send it from anywhere, at any time; one that is dropped
/// tells the host that there is no answer.
#[derive(Debug)]
pub struct Reply {
    shared: Weak<Shared>,
    request: MessageId<'static>,
    type_name: String,
    sent: bool,
}

/// A handler that several pushes may need in turn.
#[derive(Clone)]
pub(super) struct PushHandler(Arc<Mutex<Handler>>);

#[derive(Clone)]
pub(super) struct RequestHandler(Arc<Mutex<dyn FnMut(Message<'static>, Reply) + Send>>);

/// The handlers of a connection.
#[derive(Default)]
pub(super) struct Handlers {
    pushes: HashMap<String, Vec<(HandlerId, PushHandler)>>,
    any: Vec<(HandlerId, PushHandler)>,
    requests: HashMap<String, RequestHandler>,
    last: u64,
    /// The last pushes of a type that has two spellings: their ids, and how they were spelled.
    spelled: VecDeque<(MessageId<'static>, Option<String>)>,
}

/// Pushes of which a host may say one in two spellings, with others in between.
const SPELLED: usize = 32;

impl Handler {
    /// Calls a function.
    pub fn new(function: impl FnMut(Message<'static>) + Send + 'static) -> Self {
        Self(Some(Box::new(function)))
    }

    /// Passes over what comes.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn call(&mut self, message: Message<'static>) {
        if let Some(function) = &mut self.0 {
            catch_panic(|| function(message));
        }
    }

    pub(super) const fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

impl PushHandler {
    pub(super) fn new(handler: Handler) -> Self {
        Self(Arc::new(Mutex::new(handler)))
    }

    pub(super) fn call(&self, message: Message<'static>) {
        let mut handler = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        handler.call(message);
    }
}

impl RequestHandler {
    pub(super) fn new(function: impl FnMut(Message<'static>, Reply) + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(function)))
    }

    pub(super) fn call(&self, message: Message<'static>, reply: Reply) {
        let mut function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic drops the reply, which tells the host that there is no answer.
        catch_panic(|| function(message, reply));
    }
}

/// Calls a function of the client's user. It runs on the task of the connection, which serves all
/// calls, so its panic must end nothing else.
fn catch_panic(call: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(call)).is_err() {
        tracing::error!("a handler of the client panicked; the connection goes on");
    }
}

impl Handlers {
    pub(super) fn register(&mut self, type_name: String, handler: Handler) -> HandlerId {
        let id = self.next_id();
        let handlers = self.pushes.entry(type_name).or_default();
        handlers.push((id, PushHandler::new(handler)));
        id
    }

    pub(super) fn unregister(&mut self, id: HandlerId) {
        self.any.retain(|(known, _)| *known != id);
        self.pushes.retain(|_, handlers| {
            handlers.retain(|(known, _)| *known != id);
            !handlers.is_empty()
        });
    }

    pub(super) fn on_any(&mut self, handler: Handler) -> HandlerId {
        let id = self.next_id();
        self.any.push((id, PushHandler::new(handler)));
        id
    }

    const fn next_id(&mut self) -> HandlerId {
        self.last = self.last.saturating_add(1);
        HandlerId(self.last)
    }

    pub(super) fn on_request(&mut self, type_name: String, handler: RequestHandler) {
        self.requests.insert(type_name, handler);
    }

    /// Those that a push goes to: the handlers of its type, else those for all others. One that was
    /// said in another spelling before goes nowhere.
    pub(super) fn of_push(&mut self, message: &Message<'_>) -> Vec<PushHandler> {
        if self.is_said_again(message) {
            return Vec::new();
        }
        let handlers = self.pushes.get(name(message)).unwrap_or(&self.any);
        let handlers = handlers.iter().map(|(_, handler)| handler.clone());
        handlers.collect()
    }

    fn is_said_again(&mut self, message: &Message<'_>) -> bool {
        let envelope = &message.envelope;
        let aliases = message.body.tag().map_or([].as_slice(), Tag::aliases);
        if aliases.is_empty() || envelope.id.is_empty() {
            return false;
        }
        let spelling = envelope.spelling.as_deref().map(str::to_owned);
        let mut known = self.spelled.iter();
        if known.any(|(id, other)| *id == envelope.id && *other != spelling) {
            return true;
        }
        if self.spelled.len() >= SPELLED {
            self.spelled.pop_front();
        }
        let id = envelope.id.as_str().to_owned().into();
        self.spelled.push_back((id, spelling));
        false
    }

    pub(super) fn of_request(&self, message: &Message<'_>) -> Option<RequestHandler> {
        self.requests.get(name(message)).cloned()
    }
}

/// The type by which handlers are found: the catalogue's spelling, if it has one.
fn name<'m>(message: &'m Message<'_>) -> &'m str {
    match message.body.tag() {
        Some(tag) => tag.as_str(),
        None => message.type_name(),
    }
}

impl Reply {
    pub(super) fn new(shared: Weak<Shared>, message: &Message<'_>) -> Self {
        Self {
            shared,
            request: message.envelope.id.as_str().to_owned().into(),
            type_name: message.type_name().to_owned(),
            sent: false,
        }
    }

    /// Sends the answer, which may be an `error`.
    pub fn send(mut self, body: impl Into<Body<'static>>) {
        self.deliver(body.into());
    }

    fn deliver(&mut self, body: Body<'static>) {
        self.sent = true;
        if let Some(shared) = self.shared.upgrade() {
            // A connection that is gone needs no answer.
            let _ = shared.reply(self.request.clone(), body);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.sent {
            let text = format!("this agent has no answer to `{}`", self.type_name);
            let error = Error {
                message: text.into(),
                ..Error::new(ErrorCode::InvalidMessage)
            };
            self.deliver(error.into());
        }
    }
}

impl std::fmt::Debug for Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handler").finish_non_exhaustive()
    }
}
