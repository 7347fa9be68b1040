//! The capability `memory`: what agents remember, in three tiers.
//!
//! Working entries live with their session, episodic ones with their agent, semantic ones with the
//! node, where all agents share them that the operator lets. A session opens memories by namespace and
//! scope; without one it uses its default memory. Whose entries a request reaches follows from who
//! asks, and from nothing it says.

mod embed;
mod entry;
mod keep;
#[cfg(feature = "embed")]
mod local;
mod look;
mod spaces;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use a2e_runtime::{BoxFuture, Context, Failure, Outcome, Plugin, Serves, Session};
use a2e_wire::messages::memory::MemoryTier;
use a2e_wire::{Body, Capability, ErrorCode, MemoryId, Message, Namespace, Raw, Tag};
use store::{AgentId, Error, Memories, Rooms, SessionId, Store, Tier, UnixMillis};

use crate::placement::{Placement, placed};

use spaces::{Space, Spaces};

pub use embed::{Embedder, Endpoint, EndpointSettings, Reader};
#[cfg(feature = "embed")]
pub use local::Local;

/// How memories are kept.
#[derive(Clone)]
pub struct Settings {
    /// Where the plugin stands among others.
    pub placement: Placement,
    /// How many entries a tier of a memory may have, and what happens to one more.
    pub rooms: Rooms,
    /// The agents that may read semantic entries; without a list, all.
    pub readers: Option<Vec<String>>,
    /// The agents that may write and forget them; without a list, all.
    pub writers: Option<Vec<String>>,
    /// Who reads entries and queries for what they mean; without it, words must do.
    pub reader: Option<Reader>,
    /// What time it is.
    pub clock: fn() -> UnixMillis,
}

/// The plugin.
pub struct Memory {
    store: Store,
    settings: Settings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            placement: Placement::named("memory"),
            rooms: Rooms::default(),
            readers: None,
            writers: None,
            reader: None,
            clock: now,
        }
    }
}

/// One session's way to a memory.
struct Opened {
    memories: Arc<dyn Memories>,
    may_read: bool,
    may_write: bool,
}

impl Memory {
    /// The plugin for memories in a store.
    #[must_use]
    pub const fn new(store: Store, settings: Settings) -> Self {
        Self { store, settings }
    }

    /// The memory that a request is about.
    fn open(&self, id: &MemoryId<'_>, session: &Session) -> Result<Opened, Failure> {
        let space = match id.is_empty() {
            true => Space::default(),
            false => session.state::<Spaces>().find(id.as_str()).ok_or_else(|| {
                let text = "there is no such memory in this session; `memory/init` opens one";
                Failure::new(ErrorCode::MemoryNotFound, Namespace::Memory, text)
            })?,
        };
        self.opened(&space, session)
    }

    fn opened(&self, space: &Space, session: &Session) -> Result<Opened, Failure> {
        session.state::<Used>();
        let agent = &session.identity().agent;
        let has = |list: &Option<Vec<String>>| list.as_ref().is_none_or(|all| all.contains(agent));
        Ok(Opened {
            memories: self.memories(space, session).map_err(failed)?,
            may_read: has(&self.settings.readers),
            may_write: has(&self.settings.writers),
        })
    }

    fn memories(&self, space: &Space, session: &Session) -> Result<Arc<dyn Memories>, Error> {
        let agent = AgentId::new(&session.identity().agent)?;
        let session = SessionId::new(session.key())?;
        Ok(self.store.for_agent(&agent).memories(&session, &space.name))
    }

    fn now(&self) -> UnixMillis {
        (self.settings.clock)()
    }
}

const NO_WRITE: &str = "unauthorized: this agent may not change what all agents share; the operator \
                        can name it in `semantic_writers`";
const NO_READ: &str = "this agent may not read what all agents share; the operator can name it in \
                       `semantic_readers`";

/// A session that has had to do with memory.
#[derive(Default)]
struct Used;

impl Opened {
    /// The tiers that are meant, as far as they may be read. A name that is none means episodic.
    fn tiers(&self, tier: &MemoryTier<'_>) -> Result<Vec<Tier>, Failure> {
        match tier.as_str() {
            "" if self.may_read => Ok(Tier::ALL.to_vec()),
            "" => Ok(vec![Tier::Working, Tier::Episodic]),
            _ => match entry::tier(tier) {
                Tier::Semantic if !self.may_read => Err(Failure::new(
                    ErrorCode::Unauthorized,
                    Namespace::Memory,
                    NO_READ,
                )),
                tier @ (Tier::Working | Tier::Episodic | Tier::Semantic) => Ok(vec![tier]),
            },
        }
    }
}

impl Plugin for Memory {
    placed!(settings.placement);

    fn capability(&self) -> Option<Capability<'static>> {
        Some(Capability::Memory)
    }

    fn serves(&self) -> Serves {
        Serves::Tags(vec![
            Tag::MemoryInitRequest,
            Tag::MemoryStoreRequest,
            Tag::MemoryRetrieveRequest,
            Tag::MemoryForgetRequest,
        ])
    }

    fn handle(
        &self,
        request: Box<Message<'static>>,
        context: Context,
    ) -> BoxFuture<'_, Result<Outcome, Failure>> {
        Box::pin(async move {
            let session = context.session();
            #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else is served")]
            Ok(match request.body {
                Body::MemoryInitRequest(request) => {
                    Outcome::answer(self.init(request, session).await?)
                }
                Body::MemoryStoreRequest(request) => {
                    Outcome::answer(self.store(request, session).await?)
                }
                Body::MemoryRetrieveRequest(request) => {
                    Outcome::answer(self.retrieve(request, session).await?)
                }
                Body::MemoryForgetRequest(request) => {
                    Outcome::answer(self.forget(request, session).await?)
                }
                _ => Outcome::Pass,
            })
        })
    }

    fn save(&self, session: &Session) -> Option<Raw<'static>> {
        session.state::<Spaces>().save()
    }

    fn restore(&self, session: &Session, state: Option<&Raw<'_>>) {
        if let Some(state) = state {
            session.state::<Spaces>().restore(state);
        }
    }

    /// What the session remembered for itself ends with it.
    fn clear(&self, session: &Session) {
        if session.is_passing() && session.existing::<Used>().is_none() {
            return;
        }
        let Ok(memories) = self.memories(&Space::default(), session) else {
            return;
        };
        tokio::spawn(async move { forget_session(&*memories).await });
    }
}

/// Forgets the working entries of a session that has ended.
async fn forget_session(memories: &dyn Memories) {
    loop {
        match memories.end_session().await {
            Ok(forgotten) if forgotten.has_more => {}
            Ok(_) => break,
            Err(error) => {
                // It has an end anyway, and is found by nobody.
                tracing::warn!(%error, "the memory of a session cannot be forgotten");
                break;
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("placement", &self.placement)
            .field("rooms", &self.rooms)
            .finish_non_exhaustive()
    }
}

/// Does what takes a while where nobody else waits for it.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| broke_off())
}

/// The work on a request panicked, or the node ends.
fn broke_off() -> Failure {
    let text = "the work on the request broke off";
    Failure::new(ErrorCode::RuntimeError, Namespace::Memory, text)
}

fn code(error: &Error) -> ErrorCode<'static> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "others are the store's own")]
    match error {
        Error::Full { .. } => ErrorCode::MemoryFull,
        Error::TooLarge { .. } => ErrorCode::SchemaViolation,
        _ => ErrorCode::RuntimeError,
    }
}

fn failed(error: Error) -> Failure {
    let is_busy = error == Error::Busy;
    let mut failure = Failure::new(code(&error), Namespace::Memory, error.to_string());
    failure.retryable |= is_busy;
    failure
}

fn schema(why: impl Into<String>) -> Failure {
    Failure::new(ErrorCode::SchemaViolation, Namespace::Memory, why)
}

fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    UnixMillis(0).plus(since.unwrap_or_default())
}
