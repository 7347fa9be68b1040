//! What serves the requests of a host.

use std::any::Any;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use a2e_session::{Failure, Token, TypePattern};
use a2e_wire::messages::proc::ProcSpawnRequest;
use a2e_wire::{Body, Capability, Message, MessageId, Raw, Tag};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::auth::Identity;
use crate::driver::Command;
use crate::resolution::Resolution;
use crate::session::Session;

/// A future that a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that serves requests. One value serves all sessions; what it keeps for all of them are
/// its own fields, what it keeps for one is in [`Session::state`].
pub trait Plugin: Send + Sync + 'static {
    /// Its name in the configuration.
    fn name(&self) -> &str;

    /// The capability it belongs to. Types of its own need none; with one, only agents that have negotiated
    /// it use them, and rules and the audit log know them by it.
    fn capability(&self) -> Option<Capability<'static>>;

    /// Plugins of higher priority are asked first; of equal ones, the one that was added first.
    fn priority(&self) -> i64 {
        0
    }

    /// Whether no other plugin is asked for what it serves, whatever its priority.
    fn exclusive(&self) -> bool {
        false
    }

    /// Which messages it serves.
    fn serves(&self) -> Serves;

    /// Whether it makes a request of its own of each call inside a request, with the arguments that it
    /// really has. Then the operator is asked about that one, and not before.
    fn asks_for_nodes(&self) -> bool {
        false
    }

    /// The program that a request starts although it is none of `proc`: rules about programs decide about
    /// that one too.
    fn executes(&self, _request: &Message<'_>) -> Option<ProcSpawnRequest<'static>> {
        None
    }

    /// Whether what a request does may still be there when this process is gone. Such a request is recorded
    /// before it is executed, and never executed again under its id once it was interrupted. Say no where it
    /// only reads, or changes only what ends with the process. Requests of the catalogue that only read are
    /// not asked about.
    fn outlives(&self, _request: &Message<'_>) -> bool {
        true
    }

    /// Whether it recognises such a request itself when that is sent again after a restart, and gives what
    /// became of it instead of executing it again. Then the host does not record the request.
    fn recognises_retries(&self, _request: &Message<'_>) -> bool {
        false
    }

    /// Finds what a request stands for. It is asked where the request leaves out what rules may be about
    /// (the server, the plan, the episode), before they decide, and where the request is held: before the
    /// operator is asked, and again when it goes on. Whatever can change meanwhile belongs into the digest.
    /// Nothing if it is for the next plugin, or if the words of the request are all there is.
    fn resolve<'a>(
        &'a self,
        _request: &'a Message<'static>,
        _session: &'a Arc<Session>,
    ) -> BoxFuture<'a, Result<Option<Resolution>, Failure>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Serves a request. The future is dropped when the request is cancelled. It runs on the
    /// connection's own task until it first waits, so what computes long belongs on a thread of its
    /// own (`tokio::task::spawn_blocking`).
    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>>;

    /// What must survive a restart for a session, as JSON; asked after each request it served.
    fn save(&self, _session: &Session) -> Option<Raw<'static>> {
        None
    }

    /// A session goes on that began in an earlier process; `state` is what was last saved for it.
    fn restore(&self, _session: &Session, _state: Option<&Raw<'_>>) {}

    /// A session has ended for good.
    fn clear(&self, _session: &Session) {}

    /// The host stops; its sessions have ended.
    fn teardown(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Which messages a plugin serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serves {
    /// These of the catalogue.
    Tags(Vec<Tag>),
    /// Types beside the catalogue; `*` is every such type that no other plugin serves.
    Types(Vec<TypePattern>),
}

/// What a plugin made of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The response.
    Answer(Box<Body<'static>>),
    /// It is for the next plugin (another owns the tool of that name).
    Pass,
}

/// What a plugin knows of the request it serves, and how it tells of its progress.
#[derive(Debug, Clone)]
pub struct Context(Arc<Asked>);

#[derive(Debug)]
struct Asked {
    session: Arc<Session>,
    id: MessageId<'static>,
    asker: Asker,
    /// What the request stands for, as far as it was resolved.
    resolution: Resolution,
    /// How many requests were made for it.
    requests: AtomicU64,
    /// Made when somebody asks for it.
    over: OnceLock<CancellationToken>,
}

/// Whom a request is served for.
#[derive(Debug)]
pub(crate) enum Asker {
    /// The agent, which wrote it.
    Agent(Token),
    /// A plugin or another part of the node, in the agent's name.
    Node {
        /// Where its events go.
        events: Option<mpsc::Sender<Body<'static>>>,
        /// The request for which it is made.
        outer: Option<Context>,
        /// How many requests it is inside of.
        depth: usize,
        /// Whether whoever asks takes results of any size.
        takes: Takes,
    },
}

/// How large a result may be that somebody takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// As large as an agent is sent one.
    Usual,
    /// As large as it is.
    Any,
}

/// Says that the request is over when it is dropped.
#[derive(Debug)]
pub(crate) struct OverGuard(Context);

/// The request is over, or its session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nobody waits for this any more")]
pub struct SendError;

impl Outcome {
    /// A response.
    pub fn answer(body: impl Into<Body<'static>>) -> Self {
        Self::Answer(Box::new(body.into()))
    }
}

impl Context {
    pub(crate) fn new(
        session: Arc<Session>,
        id: MessageId<'static>,
        asker: Asker,
        resolution: Resolution,
    ) -> Self {
        Self(Arc::new(Asked {
            session,
            id,
            asker,
            resolution,
            requests: AtomicU64::new(0),
            over: OnceLock::new(),
        }))
    }

    /// The id of the request.
    #[must_use]
    pub fn id(&self) -> &MessageId<'static> {
        &self.0.id
    }

    /// What the plugin found when it [resolved](Plugin::resolve) the request: it must serve it with that and
    /// nothing else. Nothing if the request was not resolved.
    #[must_use]
    pub fn resolved<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.resolution.get()
    }

    pub(crate) fn resolution(&self) -> &Resolution {
        &self.0.resolution
    }

    /// How many requests this one is inside of.
    pub(crate) fn depth(&self) -> usize {
        match &self.0.asker {
            Asker::Agent(_) => 0,
            Asker::Node { depth, .. } => *depth,
        }
    }

    /// Whether the result must not be cut to a size that suits agents: whoever asks could not read
    /// the rest later.
    #[must_use]
    pub fn takes_any_size(&self) -> bool {
        match &self.0.asker {
            Asker::Agent(_) => false,
            Asker::Node { takes, .. } => *takes == Takes::Any,
        }
    }

    /// An id for a request that is made for this one: whoever reads it on record sees for which.
    pub(crate) fn next_id(&self) -> MessageId<'static> {
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed);
        format!("{}.{number}", self.id()).into()
    }

    pub(crate) fn over_guard(&self) -> OverGuard {
        OverGuard(self.clone())
    }

    /// The session of the request.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// Who asks.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        self.session().identity()
    }

    /// Whether the host stops. What is cut off by that, the next process may go on with.
    #[must_use]
    pub fn is_host_stopping(&self) -> bool {
        self.session().at().host.inner.stopping.is_cancelled()
    }

    /// Ends when the request is over. The future of [`Plugin::handle`] is dropped when it is
    /// cancelled; this is for what it has started elsewhere.
    #[must_use]
    pub fn over(&self) -> &CancellationToken {
        self.0.over.get_or_init(CancellationToken::new)
    }

    /// Sends an event of the request. Waits while the peer is behind.
    ///
    /// # Errors
    /// If the request is over.
    pub async fn event(&self, body: impl Into<Body<'static>>) -> Result<(), SendError> {
        let token = match &self.0.asker {
            Asker::Agent(token) => *token,
            Asker::Node { events, .. } => {
                self.progress();
                return match events {
                    Some(events) => events.send(body.into()).await.map_err(|_| SendError),
                    None => Ok(()),
                };
            }
        };
        let (done, outcome) = oneshot::channel();
        let body = Box::new(body.into());
        let command = Command::Event { token, body, done };
        self.session().command(command).await?;
        outcome.await.map_err(|_| SendError)?
    }

    /// Says that a tool call gets on, though there is nothing to send: its `timeout` begins anew.
    /// Events do the same.
    pub fn progress(&self) {
        match &self.0.asker {
            // A full queue means that the session is about to hear of more than this.
            Asker::Agent(token) => self.session().try_command(Command::Progress(*token)),
            Asker::Node { outer, .. } => {
                if let Some(outer) = outer {
                    outer.progress();
                }
            }
        }
    }

    /// Tells the agent, if its request wants events, that something which is asked for it waits for
    /// the operator.
    pub(crate) async fn held(&self, approval: String) {
        let mut context = self;
        loop {
            match &context.0.asker {
                Asker::Agent(token) => {
                    let held = Command::Held(*token, approval);
                    // Whoever has left need not know.
                    let _ = context.session().command(held).await;
                    return;
                }
                Asker::Node { outer, .. } => match outer {
                    Some(outer) => context = outer,
                    None => return,
                },
            }
        }
    }

    /// Lets events go on after the response (of a process that goes on), until
    /// [`Context::end_stream`].
    ///
    /// # Errors
    /// If the session is over.
    pub async fn keep_stream(&self) -> Result<(), SendError> {
        match &self.0.asker {
            Asker::Agent(token) => self.session().command(Command::KeepStream(*token)).await,
            // Whoever asked hears them for as long as he listens.
            Asker::Node { .. } => Ok(()),
        }
    }

    /// Ends the events that went on after the response.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn end_stream(&self) -> Result<(), SendError> {
        match &self.0.asker {
            Asker::Agent(token) => self.session().command(Command::EndStream(*token)).await,
            Asker::Node { .. } => Ok(()),
        }
    }
}

impl Drop for OverGuard {
    fn drop(&mut self) {
        if let Some(over) = self.0.0.over.get() {
            over.cancel();
        }
    }
}
