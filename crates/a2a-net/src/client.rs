//! The client: calls other agents by DID.
//!
//! resolve → verify → handshake → a session that is kept → request; again if that may help, within
//! the caller's time.

mod call;
mod error;
mod exchange;
mod handshake;
mod pool;
mod retry;
mod route;

pub use self::error::{CallError, Told};
pub use self::handshake::{Introduction, Said, Speaker};
pub use self::route::Route;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_identity::{Did, TrustLevel};
use a2a_session::{Binding, Sealing, ShowManifest};
use a2a_wire::{Digest, UnixSeconds, UserAgent};
use canonical::Value;
use policy::{Demands, Policy};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::pool::Pool;
use crate::home::Home;
use crate::resolve::Guard;
use crate::standing::lock;
use crate::transport::{Carrier, CarryError, Courier};

/// Makes couriers: what connects this crate's client to transports.
pub trait Couriers: Send + Sync + 'static {
    /// What it makes.
    type Courier: Courier;

    /// A courier for a way. It connects when there is something to send.
    ///
    /// # Errors
    /// If there is none for such a way.
    fn courier(&self, route: &Route) -> Result<Self::Courier, CarryError>;
}

/// What a client is told.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// What may carry messages, the most preferred first.
    pub carriers: Vec<Carrier>,
    /// What it calls its program.
    pub user_agent: Option<UserAgent>,
    /// What it demands of a server's policy.
    pub demands: Demands,
    /// How it would like policies tightened.
    pub policy_request: Option<Policy>,
    /// Whether it encrypts.
    pub sealing: Sealing,
    /// How its manifest reaches servers.
    pub show_manifest: ShowManifest,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            carriers: Carrier::ALL.to_vec(),
            user_agent: None,
            demands: Demands::default(),
            policy_request: None,
            sealing: Sealing::default(),
            show_manifest: ShowManifest::default(),
        }
    }
}

/// How a call is made.
#[derive(Debug, Clone)]
pub struct CallOptions {
    /// How long it may take, everything included.
    pub timeout: Duration,
    /// Whether messages must be encrypted inside TLS.
    pub encrypt: Encrypt,
    /// Whether the work gets a name, so that it can be asked for again.
    pub name_work: NameWork,
    /// What becomes of work that failed at the server.
    pub failed_work: FailedWork,
    /// Where parts of the answer go; then the answer is asked for in parts.
    pub chunks: Option<mpsc::Sender<Provisional>>,
    /// Where it is told that a try failed and another follows.
    pub setbacks: Option<mpsc::Sender<Setback>>,
    /// For what the call is made: stands in its records as `correlation_id`.
    pub correlation_id: Option<String>,
}

/// A try that failed, and after which there is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setback {
    /// Why it failed.
    pub error: String,
    /// How long to wait before the next.
    pub wait: Duration,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            encrypt: Encrypt::default(),
            name_work: NameWork::default(),
            failed_work: FailedWork::default(),
            chunks: None,
            setbacks: None,
            correlation_id: None,
        }
    }
}

/// Whether messages must be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Encrypt {
    /// If the settings and the server say so.
    #[default]
    AsAgreed,
    /// The call fails otherwise.
    Required,
}

/// Whether an intent without an `intent_id` gets one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameWork {
    /// Yes: whatever happens it is done once.
    #[default]
    Yes,
    /// No: it is sent as it is, and not sent again if it may have been done.
    No,
}

/// What becomes of work that the server began and could not do (`INTERNAL_ERROR`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailedWork {
    /// It is tried again, as often as the profile allows.
    #[default]
    TryAgain,
    /// Whoever asked for it is told, and decides.
    Leave,
}

/// A part of an answer. Nobody has signed it until the call returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Provisional {
    /// Which try it belongs to; with another the parts begin anew.
    pub attempt: u32,
    /// Which part.
    pub index: u64,
    /// The part.
    pub data: Value<'static>,
}

/// An answer that was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// What came out.
    pub result: Value<'static>,
    /// Who answered, and how.
    pub session: SessionView,
    /// `message_hash` of the answer.
    pub response_hash: Digest,
    /// How often it was tried.
    pub attempts: u32,
}

/// A session with a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionView {
    /// The server.
    pub did: String,
    /// The id of the session.
    pub session_id: String,
    /// When it ends.
    pub expires_at: UnixSeconds,
    /// How much the server is trusted.
    pub trust_level: TrustLevel,
    /// How strongly it binds what it signs.
    pub binding: Binding,
    /// Whether messages are encrypted.
    pub encrypted: bool,
    /// The agreed policy.
    pub policy_hash: Digest,
    /// What carries messages.
    pub carrier: Carrier,
}

/// Calls other agents. Clones are the same client.
pub struct Client<C: Couriers>(Arc<Inner<C>>);

struct Inner<C: Couriers> {
    home: Arc<Home>,
    settings: ClientSettings,
    couriers: C,
    guard: Guard,
    pool: Pool<C::Courier>,
    /// Where the operator says that agents are which have no manifest.
    addresses: Mutex<BTreeMap<String, String>>,
    runtime: Handle,
}

impl<C: Couriers> Client<C> {
    /// A client on tokio's runtime, which connects to where the guard allows.
    #[must_use]
    pub fn new(home: Arc<Home>, settings: ClientSettings, couriers: C, guard: Guard) -> Self {
        Self(Arc::new(Inner {
            home,
            settings,
            couriers,
            guard,
            pool: Pool::default(),
            addresses: Mutex::default(),
            runtime: Handle::current(),
        }))
    }

    /// Asks an agent to do something, and waits for its verified answer. A call that is dropped is
    /// cancelled at the server too.
    ///
    /// # Errors
    /// Why there is no answer.
    pub async fn call(
        &self,
        did: &Did,
        intent: Value<'static>,
        options: &CallOptions,
    ) -> Result<Answered, CallError> {
        let home = &self.0.home;
        let began = home.clock.now().monotonic;
        // Large, and made once for each call.
        let called = Box::pin(self.0.call(did, intent, options)).await;
        let failed = called.as_ref().err().map(CallError::code);
        let took = home.clock.now().monotonic.saturating_sub(began);
        home.metrics.calls.ended(failed.as_ref(), took);
        called
    }

    /// Shakes hands with an agent, unless there is a session with it, so that the next call need not.
    ///
    /// # Errors
    /// Why there is no session.
    pub async fn meet(&self, did: &Did, encrypt: Encrypt) -> Result<SessionView, CallError> {
        let meeting = self.0.session(did, encrypt);
        Box::pin(meeting).await.map(|held| held.view.clone())
    }

    /// Shakes hands with an agent, keeps every message, and closes the session again.
    ///
    /// # Errors
    /// What was said until it failed, and why it did.
    pub async fn introduce(
        &self,
        did: &Did,
        encrypt: Encrypt,
    ) -> Result<Introduction, (Vec<Said>, CallError)> {
        Box::pin(self.0.introduce(did, None, encrypt)).await
    }

    /// The same with an agent at this address, whatever is known of where it is.
    ///
    /// # Errors
    /// As [`Client::introduce`].
    pub async fn introduce_at(
        &self,
        did: &Did,
        handshake_url: &str,
        encrypt: Encrypt,
    ) -> Result<Introduction, (Vec<Said>, CallError)> {
        Box::pin(self.0.introduce(did, Some(handshake_url), encrypt)).await
    }

    /// Where agents are, by DID, in place of all that was said before. Sessions with those that are
    /// elsewhere now are not used again.
    pub fn set_addresses(&self, addresses: BTreeMap<String, String>) {
        let before = std::mem::replace(&mut *lock(&self.0.addresses), addresses.clone());
        let moved = |did: &&String| before.get(*did) != addresses.get(*did);
        let all = before.keys().chain(addresses.keys());
        let moved: Vec<String> = all.filter(moved).cloned().collect();
        self.0.pool.forget(&moved);
    }

    /// Closes the sessions that do not fit the operator's rules and trust anchors any more, after these
    /// were changed. None of them is used again, whether it is closed by then or not.
    pub fn trust_changed(&self) {
        let inner = Arc::clone(&self.0);
        self.0
            .runtime
            .spawn(async move { inner.close_untrusted().await });
    }

    /// Where an agent is that has no manifest, as the operator says.
    pub fn set_address(&self, did: &Did, handshake_url: impl Into<String>) {
        lock(&self.0.addresses).insert(did.to_string(), handshake_url.into());
    }

    /// Forgets where an agent is.
    pub fn remove_address(&self, did: &Did) {
        lock(&self.0.addresses).remove(&did.to_string());
    }

    /// The sessions that are kept.
    pub async fn sessions(&self) -> Vec<SessionView> {
        self.0.pool.sessions(self.0.home.clock.now()).await
    }

    /// Closes all sessions, and tells the servers so within this time.
    pub async fn close(&self, patience: Duration) {
        let closing = self.0.close_all();
        let _ = tokio::time::timeout(patience, closing).await;
    }
}

impl<C: Couriers> Clone for Client<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Couriers> fmt::Debug for Client<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.0.home.own()).finish()
    }
}
