//! A session as plugins see it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use a2e_wire::{Body, Charset, Envelope, Message, MessageId};
use policy::Retention;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::access::Access;
use crate::auth::Identity;
use crate::decision::{Asked, Listed, Permissions, retain_usable, still};
use crate::driver::Command;
use crate::host::{Host, Settings};
use crate::plugin::SendError;
use crate::resolution::Resolution;
use crate::slots::ByteAccount;

/// One agent's session, as plugins see it: who it is, what they keep for it, and how to reach it.
#[derive(Debug)]
pub struct Session {
    identity: Identity,
    key: String,
    at: At,
    states: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
    commands: mpsc::Sender<Command>,
    ended: CancellationToken,
}

/// Where a session is.
pub(crate) struct At {
    pub(crate) host: Host,
    /// Those it began with.
    pub(crate) settings: Arc<Settings>,
    /// Names the session where its id must not stand.
    pub(crate) hash: String,
    /// Whether nobody can come back to it, after a restart or otherwise.
    pub(crate) is_passing: bool,
    /// How long what is in its requests and answers may be kept.
    pub(crate) retention: Retention,
    /// That of its identity.
    pub(crate) access: Access,
    /// Where bytes are counted that wait for its agent, and for whom its requests are counted.
    pub(crate) bytes: ByteAccount,
}

impl std::fmt::Debug for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("At")
    }
}

impl Session {
    pub(crate) fn new(
        at: At,
        identity: Identity,
        key: String,
        commands: mpsc::Sender<Command>,
    ) -> Self {
        Self {
            identity,
            key,
            at,
            states: Mutex::default(),
            commands,
            ended: CancellationToken::new(),
        }
    }

    /// Who the agent is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Names the session where something is kept for it; the same before and after a restart. It is
    /// not the session's id and opens nothing.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The access of its identity to this host: to be kept by whatever goes on for it beside its
    /// requests, and to end with.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.at.access
    }

    /// Is cancelled when the session ends, before plugins are asked to clear what they keep for it. A
    /// request may still be under way then: what it adds to a table after this must not go on.
    #[must_use]
    pub const fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Ends it, and what plugins keep for it.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        for plugin in self.at.settings.registry.plugins() {
            plugin.clear(self);
        }
    }

    pub(crate) const fn at(&self) -> &At {
        &self.at
    }

    /// Names the session in records.
    pub(crate) fn hash(&self) -> &str {
        &self.at.hash
    }

    /// Whether all that was ever done in it was done by this process, and nobody comes back to it.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        self.at.is_passing
    }

    /// Whether what is in its requests and answers must never be written to a file: it has to be gone
    /// when the answer is sent, or with the session of the peer that asks.
    #[must_use]
    pub fn leaves_no_payload(&self) -> bool {
        self.at.retention <= Retention::Session
    }

    /// What a plugin keeps for this session, if it was ever asked for.
    #[must_use]
    pub fn existing<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states.get(&TypeId::of::<T>())?;
        Arc::clone(state).downcast::<T>().ok()
    }

    /// What a plugin keeps for this session: one value of each type, made when first asked for, gone
    /// with the session.
    pub fn state<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let state = states
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        // The map has under a type's id nothing else.
        Arc::clone(state).downcast::<T>().unwrap_or_default()
    }

    /// Sends something the agent did not ask for. Waits while the agent is behind.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn push(&self, body: impl Into<Body<'static>>) -> Result<(), SendError> {
        self.push_also(body, None).await
    }

    /// The same; if another spelling of its type is given, it is said in that as well, with the same
    /// id: for agents that know no other.
    ///
    /// # Errors
    /// If the session is over.
    pub async fn push_also(
        &self,
        body: impl Into<Body<'static>>,
        spelling: Option<&'static str>,
    ) -> Result<(), SendError> {
        let (done, outcome) = oneshot::channel();
        let push = Command::Push {
            body: Box::new(body.into()),
            also: spelling,
            done,
        };
        self.command(push).await?;
        outcome.await.map_err(|_| SendError)?.map(drop)
    }

    /// Asks the agent for something and waits for its answer, or for its refusal.
    ///
    /// # Errors
    /// If the session ends first, or no answer comes in time.
    pub async fn ask(
        &self,
        body: impl Into<Body<'static>>,
        timeout: Duration,
    ) -> Result<Message<'static>, SendError> {
        self.put_question(body.into(), timeout, false).await
    }

    /// The same, if the agent has negotiated the capability that the question belongs to.
    pub(crate) async fn ask_if_negotiated(
        &self,
        body: Body<'static>,
        timeout: Duration,
    ) -> Result<Message<'static>, SendError> {
        self.put_question(body, timeout, true).await
    }

    async fn put_question(
        &self,
        body: Body<'static>,
        timeout: Duration,
        if_negotiated: bool,
    ) -> Result<Message<'static>, SendError> {
        let (answered, answer) = oneshot::channel();
        let ask = Command::Ask {
            body: Box::new(body),
            if_negotiated,
            answered,
        };
        self.command(ask).await?;
        let answer = tokio::time::timeout(timeout, answer).await;
        answer.map_err(|_| SendError)?.map_err(|_| SendError)
    }

    /// Whether the rules let its agent ask for this at the moment, if perhaps with the operator's
    /// approval. Nothing is counted: this is for what an agent is told without having asked. The request
    /// must name what it is about.
    #[must_use]
    pub fn permits(&self, body: impl Into<Body<'static>>) -> bool {
        let host = &self.at.host;
        let envelope = Envelope::new(MessageId::default(), host.inner.clock.now().unix);
        let message: Message<'static> = Message::new(envelope, body.into());
        let mut line = Vec::new();
        message.encode_to(&mut line, Charset::Utf8);
        let resolution = Resolution::default();
        let asked = Asked::new(self, &message, &line, &resolution);
        still(host.policies().of(asked.agent()), asked).is_ok()
    }

    /// Whether the rules let its agent use something that a list has, at the moment.
    #[must_use]
    pub fn may_use(&self, listed: &impl Listed) -> bool {
        self.with_permissions(|permissions| listed.is_usable(permissions))
    }

    /// Whether the rules let its agent send some request of a type, perhaps with the operator's
    /// approval.
    #[must_use]
    pub fn may_send_type(&self, type_name: &str) -> bool {
        self.with_permissions(|permissions| permissions.may_send_type(type_name))
    }

    /// Leaves in a list what its agent may use.
    pub(crate) fn retain_usable(&self, list: &mut Body<'static>) {
        self.with_permissions(|permissions| retain_usable(list, permissions));
    }

    fn with_permissions<T>(&self, look: impl FnOnce(&Permissions<'_>) -> T) -> T {
        let policies = self.at.host.policies();
        let rules = policies.of(&self.identity.agent);
        let registry = &self.at.settings.registry;
        look(&Permissions::new(rules, &self.identity, registry))
    }

    /// Says something that may as well not be heard.
    pub(crate) fn try_command(&self, command: Command) {
        let _ = self.commands.try_send(command);
    }

    pub(crate) async fn command(&self, command: Command) -> Result<(), SendError> {
        self.commands.send(command).await.map_err(|_| SendError)
    }
}
