//! The server: handshakes and sessions of all peers, whatever carries their messages.
//!
//! Sessions have a lock each, and none is held while a signature is verified, a handler works or a
//! record is written.

mod chunks;
mod handler;
mod handshakes;
mod hold;
mod live;
mod ping;
mod refresh;
mod requests;
mod work;

pub use self::chunks::{ChunkRefused, Chunks};
pub use self::handler::{Call, Handler, HandlerError, Handling, PeerView};

use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use a2a_identity::{Anchor, Did};
use a2a_session::{
    AgentLimits, Agents, Binding, Directory as _, EndReason, Failure, Host, ServerConfig,
    SessionLimits, Sources,
};
use a2a_wire::{Phase, UnixSeconds, WrongForm};
use arc_swap::ArcSwap;
use bytes::Bytes;
use canonical::Value;
use policy::{IntentName, Rate};
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::handler::Handlers;
use self::live::{Live, Sessions};
use self::refresh::Refreshes;
use self::work::{Joins, Unsaved};
use crate::home::{Home, Identity};
use crate::metrics::Present;
use crate::standing::{Rules, lock};
use crate::transport::{Answer, Arrived, Oversized, Place, Service};

/// What a server is told.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Of handshakes. Its trust rules are those of the [`Home`].
    pub config: ServerConfig,
    /// Of each session.
    pub session: SessionLimits,
    /// Of all agents.
    pub agents: AgentLimits,
    /// Parts of an answer that may wait to be read.
    pub stream_window: usize,
    /// How often one source may send anything, whoever it says it is: an IPv4 address, or a /64 of IPv6.
    /// As many sources are counted as for handshakes.
    pub source_rate: Rate,
}

impl ServerSettings {
    /// The defaults.
    ///
    /// # Errors
    /// Never: the one version there is has the form of one.
    pub fn new() -> Result<Self, WrongForm> {
        Ok(Self {
            config: ServerConfig::new()?,
            session: SessionLimits::default(),
            agents: AgentLimits::default(),
            stream_window: 8,
            // A thousand a second, two thousand at once.
            source_rate: Rate::new(2000, 2).unwrap_or(Rate::DEFAULT),
        })
    }
}

/// How often it is looked for what is over.
const TICK: Duration = Duration::from_secs(1);

/// A server. Clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    home: Arc<Home>,
    settings: ServerSettings,
    handshakes: Mutex<a2a_session::Server>,
    sessions: Sessions,
    agents: Mutex<Agents>,
    joins: Joins,
    unsaved: Unsaved,
    sources: Mutex<Sources>,
    refreshes: Mutex<Refreshes>,
    handlers: ArcSwap<Handlers>,
    stopping: CancellationToken,
    tasks: TaskTracker,
    runtime: Handle,
}

/// A session, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionState {
    /// Who.
    pub peer: PeerView,
    /// The id of the session.
    pub session_id: String,
    /// When it began.
    pub created_at: UnixSeconds,
    /// When it ends.
    pub expires_at: UnixSeconds,
    /// The agreed policy.
    pub policy_hash: String,
    /// Requests that run.
    pub in_flight: usize,
}

impl Server {
    /// Starts a server on tokio's runtime. It serves `frith.ping`.
    #[must_use]
    pub fn start(home: Arc<Home>, settings: ServerSettings) -> Self {
        let mut config = settings.config.clone();
        config.trust = home.trust();
        let inner = Arc::new(Inner {
            handshakes: Mutex::new(a2a_session::Server::new(home.own(), config)),
            sessions: Sessions::new(),
            agents: Mutex::new(Agents::new(settings.agents)),
            joins: Joins::default(),
            unsaved: Unsaved::default(),
            sources: Mutex::new(Sources::new(settings.config.limits.sources)),
            refreshes: Mutex::default(),
            handlers: ArcSwap::default(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            home,
            settings,
        });
        let weak = Arc::downgrade(&inner);
        inner.home.resolver.tell(Box::new(move |did, keys| {
            if let Some(inner) = weak.upgrade() {
                inner.keys_changed(&did.to_string(), keys);
            }
        }));
        tokio::spawn(tick(Arc::downgrade(&inner)));
        let server = Self(inner);
        if let Ok(name) = IntentName::parse(ping::NAME) {
            let clock = server.0.home.clock.clone();
            server.register(name, move |call: Call| {
                std::future::ready(ping::pong(&clock, &call))
            });
        }
        server
    }

    /// Has intents of this name done by a handler, in place of an earlier one.
    pub fn register(&self, name: IntentName, handler: impl Handler) {
        let handler: Arc<dyn Handler> = Arc::new(handler);
        self.0.handlers.rcu(|handlers| {
            let mut handlers = Handlers::clone(handlers);
            handlers.insert(name.clone(), Arc::clone(&handler));
            handlers
        });
    }

    /// Has nobody do intents of this name any more. What runs goes on.
    pub fn unregister(&self, name: &IntentName) {
        self.0.handlers.rcu(|handlers| {
            let mut handlers = Handlers::clone(handlers);
            handlers.remove(name);
            handlers
        });
    }

    /// Goes on with other rules of the operator. They hold at once: a blocked agent's work ends and its
    /// next request is refused, and so is whatever a policy does not allow any more. Sessions of agents
    /// that do not fit their pins end.
    pub fn set_rules(&self, rules: Rules) {
        self.0.set_rules(rules);
    }

    /// Goes on with another manifest or key. Handshakes and sessions under way keep theirs.
    pub fn set_identity(&self, identity: Identity) {
        self.0.home.set_identity(identity);
        lock(&self.0.handshakes).set_own(self.0.home.own());
    }

    /// Lets the word of these count from now on, here and in the client of the same home. Sessions of
    /// agents that have their trust level by the word of another end.
    pub fn set_anchors(&self, anchors: Vec<Anchor>) {
        self.0.home.set_anchors(anchors.clone());
        lock(&self.0.handshakes).set_anchors(anchors);
        self.0.hold_all();
    }

    /// Ends the sessions of an agent, since the operator says so. Returns how many there were.
    pub fn end_sessions(&self, did: &Did) -> usize {
        let sessions = self.0.sessions.of_agent(&did.to_string());
        for live in &sessions {
            self.0.end(live, EndReason::Ended);
        }
        sessions.len()
    }

    /// The sessions that are there.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionState> {
        let all = self.0.sessions.all();
        all.iter().map(|live| live.state()).collect()
    }

    /// Handshakes under way.
    #[must_use]
    pub fn half_open(&self) -> usize {
        lock(&self.0.handshakes).half_open()
    }

    /// What was counted here and by the client of the same home, in Prometheus' text format.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.0.home.metrics.render(Present {
            sessions: self.0.sessions.all().len(),
            half_open: self.half_open(),
        })
    }

    /// Stops: takes nothing new, waits so long for what runs, and then ends all sessions. What is cut
    /// off by that is kept as interrupted.
    pub async fn stop(&self, patience: Duration) {
        let inner = &self.0;
        inner.stopping.cancel();
        inner.tasks.close();
        let _ = timeout(patience, inner.tasks.wait()).await;
        for live in inner.sessions.all() {
            inner.end(&live, EndReason::Ended);
        }
        inner.unsaved.give_up();
        inner.tasks.wait().await;
    }
}

impl Service for Server {
    async fn handle(&self, arrived: Arrived) -> Answer {
        let home = &self.0.home;
        let began = home.clock.now().monotonic;
        let counts = match arrived.place {
            Place::Handshake => &home.metrics.handshakes,
            Place::Request | Place::Any => &home.metrics.requests,
        };
        let answer = match (self.0.check_source(arrived.source.ip()), arrived.place) {
            (Err(failure), _) => self.0.unsigned(&failure),
            (Ok(()), Place::Handshake) => self.0.handshake(&arrived).await,
            (Ok(()), Place::Request | Place::Any) => self.0.request(&arrived).await,
        };
        let failed = match &answer {
            Answer::Error { code, .. } => Some(code),
            // Of a stream that is how long it took to begin.
            Answer::Message(_) | Answer::Nothing | Answer::Stream(_) => None,
        };
        let took = home.clock.now().monotonic.saturating_sub(began);
        counts.ended(failed, took);
        answer
    }

    async fn refuse_oversized(&self, oversized: Oversized) -> Answer {
        match self.0.check_source(oversized.source.ip()) {
            Ok(()) => self.0.refuse_oversized(&oversized).await,
            Err(failure) => self.0.unsigned(&failure),
        }
    }

    fn request_bytes(&self) -> usize {
        self.0.home.standing.rules().request_bytes()
    }

    fn document(&self, name: &str) -> Option<Bytes> {
        match name {
            "agent-manifest.json" | "did.json" => Some(self.0.home.manifest()),
            _ => None,
        }
    }
}

impl Inner {
    /// Ends a session; of several that do so at once one does.
    fn end(self: &Arc<Self>, live: &Arc<Live>, reason: EndReason) {
        if self.sessions.remove(live).is_none() {
            return;
        }
        let now = self.home.clock.now();
        let ended = {
            let mut inside = lock(&live.inside);
            let ended = {
                let mut agents = lock(&self.agents);
                inside.session.end(now, reason, &mut agents)
            };
            let reason = inside.session.is_over().unwrap_or(reason);
            let established = inside.session.established();
            let recorder = &self.home.recorder;
            recorder.session_ended(established, reason.as_str());
            ended
        };
        lock(&self.handshakes).session_ended(&live.slot);
        self.unwatch(&live.peer.did);
        self.deliver_all(live, ended);
    }

    /// Ends what took too long.
    fn handle_timeout(self: &Arc<Self>) {
        let now = self.home.clock.now();
        {
            let mut handshakes = lock(&self.handshakes);
            handshakes.handle_timeout(now);
            self.record_lapsed(&mut handshakes);
        }
        lock(&self.agents).handle_timeout(now);
        self.refresh(now.monotonic);
        for live in self.sessions.all() {
            let (ended, over) = {
                let mut inside = lock(&live.inside);
                let is_due = |at: Duration| at <= now.monotonic;
                let is_over = inside.session.is_over().is_some();
                if !is_over && !inside.session.poll_timeout().is_some_and(is_due) {
                    continue;
                }
                let ended = inside.session.handle_timeout(now);
                (ended, inside.session.is_over())
            };
            self.deliver_all(&live, ended);
            if let Some(reason) = over {
                self.end(&live, reason);
            }
        }
    }

    /// Before anything of a message is looked at: how often its source comes.
    fn check_source(&self, address: IpAddr) -> Result<(), Failure> {
        let cause = "the source sends too many messages";
        let rate = self.settings.source_rate;
        let now = self.home.clock.now();
        let taken = lock(&self.sources).take(now, address.into(), rate, cause);
        taken.inspect_err(|failure| self.home.recorder.reject(Some(address), None, failure))
    }

    /// An error that nobody can sign, with a code that every peer knows.
    fn unsigned(&self, failure: &Failure) -> Answer {
        self.unsigned_to(Binding::Baseline, failure)
    }

    fn unsigned_to(&self, binding: Binding, failure: &Failure) -> Answer {
        Answer::Error {
            code: match binding {
                Binding::Profile => failure.code.clone(),
                Binding::Baseline => failure.code.for_baseline(Phase::Session),
            },
            message: Bytes::from(failure.to_unsigned(binding, None, None)),
            retry_after: retry_after(failure, self.home.clock.now().unix),
        }
    }
}

impl Host for Inner {
    fn is_blocked(&self, did: &Did) -> bool {
        self.home.standing.is_blocked(did)
    }

    fn rate(&self, did: &Did) -> Rate {
        let rules = self.home.standing.rules();
        rules.policy_for(&did.to_string()).rate()
    }

    fn resolve(&self, name: &IntentName) -> Option<IntentName> {
        self.handlers.load().resolve(name)
    }
}

impl Live {
    fn state(&self) -> SessionState {
        let inside = lock(&self.inside);
        let established = inside.session.established();
        SessionState {
            peer: self.peer.clone(),
            session_id: self.id().to_owned(),
            created_at: established.created_at(),
            expires_at: established.expires_at(),
            policy_hash: established.policy().hash().to_string(),
            in_flight: inside.session.in_flight(),
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Server").field(&self.0.home.own()).finish()
    }
}

async fn tick(inner: Weak<Inner>) {
    let mut times = interval(TICK);
    times.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        match inner.upgrade() {
            Some(inner) => inner.handle_timeout(),
            None => return,
        }
    }
}

/// When to come again, in seconds.
fn retry_after(failure: &Failure, now: UnixSeconds) -> Option<u64> {
    let figure = |name| match failure.figure(name) {
        Some(Value::Number(number)) => number.as_i64().and_then(|it| u64::try_from(it).ok()),
        _ => None,
    };
    let until_reset = || {
        let reset = i64::try_from(figure("reset_at")?).ok()?;
        u64::try_from(reset.saturating_sub(now.0)).ok()
    };
    let wait = figure("retry_after_ms").map(|millis| millis.div_ceil(1000));
    wait.or_else(until_reset)
}
