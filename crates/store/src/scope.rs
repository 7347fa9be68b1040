//! Whose data it is. A handle is made for an owner and reaches nothing of another.

use std::fmt;
use std::sync::Arc;

use crate::approvals::{Approvals, HeldCalls};
use crate::chains::Chains;
use crate::learning::Learning;
use crate::limits::check_name;
use crate::memories::{Memories, Vectors};
use crate::pins::{PinKind, Pins};
use crate::plans::Plans;
use crate::rate_buckets::RateBuckets;
use crate::replay_ids::ReplayIds;
use crate::results::Results;
use crate::secrets::{Cipher, SealedValues, Vault};
use crate::snapshots::Snapshots;
use crate::{Error, Moment, Pending};

/// An agent, by the name that its credential or DID proves; never by what it calls itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentId(Arc<str>);

/// A session of an agent. Where a session's id is a secret, this is its hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(Arc<str>);

/// Who data belongs to: the node, or an agent. Only this crate makes one, so a back end cannot
/// mistake a name for it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Owner(Arc<str>);

/// All that is kept. Clones are the same store.
#[derive(Debug, Clone)]
pub struct Store(Arc<dyn Backend>);

/// What belongs to one owner.
#[derive(Debug, Clone)]
pub struct Scope {
    backend: Arc<dyn Backend>,
    owner: Owner,
}

/// What a back end provides: a handle for each use, made for its owner. Those who use a store
/// never see it.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// See [`Results`].
    fn results(&self, owner: &Owner) -> Arc<dyn Results>;
    /// See [`Snapshots`].
    fn snapshots(&self, owner: &Owner, session: &SessionId) -> Arc<dyn Snapshots>;
    /// See [`ReplayIds`].
    fn replay_ids(&self, owner: &Owner) -> Arc<dyn ReplayIds>;
    /// See [`RateBuckets`].
    fn rate_buckets(&self, owner: &Owner) -> Arc<dyn RateBuckets>;
    /// See [`HeldCalls`].
    fn held_calls(&self, owner: &Owner) -> Arc<dyn HeldCalls>;
    /// See [`Approvals`].
    fn approvals(&self) -> Arc<dyn Approvals>;
    /// See [`Pins`].
    fn pins(&self, kind: &PinKind) -> Arc<dyn Pins>;
    /// See [`Memories`].
    fn memories(&self, owner: &Owner, session: &SessionId, space: &str) -> Arc<dyn Memories>;
    /// See [`Vectors`].
    fn vectors(&self, model: &str) -> Arc<dyn Vectors>;
    /// See [`Chains`].
    fn chains(&self, owner: &Owner) -> Arc<dyn Chains>;
    /// See [`Store::open_chains`].
    fn open_chains(&self) -> Pending<Vec<(AgentId, i64)>>;
    /// See [`Learning`].
    fn learning(&self, owner: &Owner) -> Arc<dyn Learning>;
    /// See [`Plans`].
    fn plans(&self, owner: &Owner) -> Arc<dyn Plans>;
    /// See [`SealedValues`].
    fn sealed_values(&self, owner: &Owner) -> Arc<dyn SealedValues>;
    /// See [`Store::sweep`].
    fn sweep(&self, now: Moment) -> Pending<Swept>;
    /// See [`Store::flush`].
    fn flush(&self) -> Pending<()>;
}

/// What a [sweep](Store::sweep) has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// How many entries it removed.
    pub removed: usize,
    /// Whether there is more to do than one sweep does.
    pub has_more: bool,
    /// Whether what was removed is gone from the disk too. If not, there is more to do, somebody was
    /// reading an older state meanwhile, or much was erased a moment ago; a later sweep does it.
    pub is_erased: bool,
}

impl Store {
    /// A store on a back end.
    pub fn new(backend: impl Backend) -> Self {
        Self(Arc::new(backend))
    }

    /// What belongs to an agent.
    #[must_use]
    pub fn for_agent(&self, agent: &AgentId) -> Scope {
        self.of(Owner(Arc::clone(&agent.0)))
    }

    /// What belongs to the node itself.
    #[must_use]
    pub fn node(&self) -> Scope {
        self.of(Owner::node())
    }

    /// The operator's side of held calls: of all agents. No agent's code may have it.
    #[must_use]
    pub fn approvals(&self) -> Arc<dyn Approvals> {
        self.0.approvals()
    }

    /// The vectors that a model makes of what agents remember: of all agents. No agent's code may have
    /// it.
    #[must_use]
    pub fn vectors(&self, model: &str) -> Arc<dyn Vectors> {
        self.0.vectors(model)
    }

    /// The chains of all agents that have not ended, the oldest first: what a process takes up again
    /// when it starts. No agent's code may have it.
    pub fn open_chains(&self) -> Pending<Vec<(AgentId, i64)>> {
        self.0.open_chains()
    }

    /// What is pinned of one kind.
    #[must_use]
    pub fn pins(&self, kind: &PinKind) -> Arc<dyn Pins> {
        self.0.pins(kind)
    }

    /// The secrets, if the cipher has the key they were sealed with; a store without secrets takes
    /// any.
    ///
    /// # Errors
    /// [`Error::WrongKey`], or if the store fails.
    pub async fn vault(&self, cipher: Arc<dyn Cipher>) -> Result<Vault, Error> {
        Vault::open(Arc::clone(&self.0), cipher).await
    }

    /// Removes what has expired, a few thousand entries at a time, from the disk too. Expired
    /// entries are never answered with, swept or not; this frees their space. To be called every
    /// minute or so.
    pub fn sweep(&self, now: Moment) -> Pending<Swept> {
        self.0.sweep(now)
    }

    /// Settles when everything that was acknowledged so far is on the disk, whatever the
    /// [`SyncMode`](crate::SyncMode). To be called before the process ends.
    pub fn flush(&self) -> Pending<()> {
        self.0.flush()
    }

    fn of(&self, owner: Owner) -> Scope {
        Scope {
            backend: Arc::clone(&self.0),
            owner,
        }
    }
}

impl Scope {
    /// Answers to requests that may be sent again.
    #[must_use]
    pub fn results(&self) -> Arc<dyn Results> {
        self.backend.results(&self.owner)
    }

    /// Records of one session.
    #[must_use]
    pub fn snapshots(&self, session: &SessionId) -> Arc<dyn Snapshots> {
        self.backend.snapshots(&self.owner, session)
    }

    /// Ids that may be used once.
    #[must_use]
    pub fn replay_ids(&self) -> Arc<dyn ReplayIds> {
        self.backend.replay_ids(&self.owner)
    }

    /// How far the owner's rates are used up.
    #[must_use]
    pub fn rate_buckets(&self) -> Arc<dyn RateBuckets> {
        self.backend.rate_buckets(&self.owner)
    }

    /// What is remembered in a space, by one session.
    #[must_use]
    pub fn memories(&self, session: &SessionId, space: &str) -> Arc<dyn Memories> {
        self.backend.memories(&self.owner, session, space)
    }

    /// Calls that wait for the operator.
    #[must_use]
    pub fn held_calls(&self) -> Arc<dyn HeldCalls> {
        self.backend.held_calls(&self.owner)
    }

    /// What runs in several steps.
    #[must_use]
    pub fn chains(&self) -> Arc<dyn Chains> {
        self.backend.chains(&self.owner)
    }

    /// What was learned.
    #[must_use]
    pub fn learning(&self) -> Arc<dyn Learning> {
        self.backend.learning(&self.owner)
    }

    /// Plans and their tasks.
    #[must_use]
    pub fn plans(&self) -> Arc<dyn Plans> {
        self.backend.plans(&self.owner)
    }
}

impl AgentId {
    /// An agent's name.
    ///
    /// # Errors
    /// If it is empty, begins with a control character or has more than [`MAX_NAME`](crate::MAX_NAME) bytes.
    pub fn new(name: &str) -> Result<Self, Error> {
        checked("an agent", name).map(Self)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SessionId {
    /// A session's name.
    ///
    /// # Errors
    /// If it is empty, begins with a control character or has more than [`MAX_NAME`](crate::MAX_NAME) bytes.
    pub fn new(name: &str) -> Result<Self, Error> {
        checked("a session", name).map(Self)
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Owner {
    /// An agent's name, or nothing for the node.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn node() -> Self {
        Self("".into())
    }

    /// Of what the store knows about its own key; no agent can have this name.
    pub(crate) fn key() -> Self {
        Self("\u{1f}key".into())
    }

    pub(crate) fn agent(agent: &AgentId) -> Self {
        Self(Arc::clone(&agent.0))
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:?})", self.as_str())
    }
}

fn checked(what: &'static str, name: &str) -> Result<Arc<str>, Error> {
    check_name(what, name)?;
    match name.is_empty() || name.starts_with(char::is_control) {
        true => Err(Error::BadName { what }),
        false => Ok(name.into()),
    }
}
