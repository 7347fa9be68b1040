//! A host: its plugins, its limits, and the connections it serves.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use a2e_session::{Failure, HostSession, Limits, failures};
use a2e_wire::MAX_LINE;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::access::{AccessHolder, AccessTable, Entry, IsMeant};
use crate::approvals::Approvals;
use crate::auth::{Authenticator, Open, Owner, Source};
use crate::buffers;
use crate::clock::{Clock, system_random};
use crate::connections::{ConnectionSlot, Connections, EXTRA_CONNECTIONS, LinkSlot};
use crate::decision::Counters;
use crate::driver::{Command, Driver};
use crate::idempotency::IdempotencyCaches;
use crate::in_flight::{InFlight, MAX_REQUESTS_PER_AGENT};
use crate::journal;
use crate::link::{Bytes, Link};
use crate::metrics::Metrics;
use crate::newcomers::{Newcomer, Newcomers};
use crate::plugin::Plugin;
use crate::policies::Policies;
use crate::registry::{ExclusiveConflict, Registry, check_exclusive};
use crate::sessions::Sessions;
use crate::slots::{self, Slot, Slots};
use crate::snapshot::{SnapshotMode, SnapshotStore};

/// Serves agents. Cheap to clone; all clones are one host.
#[derive(Clone)]
pub struct Host {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    settings: RwLock<Arc<Settings>>,
    pub(crate) clock: Clock,
    pub(crate) sessions: Sessions,
    pub(crate) slots: Slots,
    pub(crate) access: AccessTable,
    newcomers: Newcomers,
    connections: Connections,
    pub(crate) in_flight: InFlight,
    /// Places for those who were refused and have not gone.
    leaving: Semaphore,
    pub(crate) idempotency: IdempotencyCaches,
    pub(crate) metrics: Metrics,
    policies: RwLock<Arc<Policies>>,
    pub(crate) counters: Counters,
    /// Where requests are put on record.
    pub(crate) audit: Option<audit::Log>,
    /// Whom to ask about held calls; without it they are refused.
    pub(crate) approvals: Option<Approvals>,
    /// Ends when the host is to stop.
    pub(crate) stopping: CancellationToken,
    /// Where what is pushed to a stand-in goes: nobody reads it.
    pub(crate) nobody: mpsc::Sender<Command>,
}

/// What a host is built from. A session keeps what it began with.
pub(crate) struct Settings {
    pub(crate) registry: Registry,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) limits: Limits,
    pub(crate) max_line: usize,
    pub(crate) max_sessions: usize,
    pub(crate) max_sessions_per_agent: usize,
    /// Bytes that may wait in all sessions, and in those of one agent.
    max_buffered: (usize, usize),
    max_newcomers: usize,
    pub(crate) drain: Duration,
    pub(crate) snapshots: Option<Arc<dyn SnapshotStore>>,
    pub(crate) snapshot_mode: SnapshotMode,
}

/// A slot for a session.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) slot: Slot,
    /// Whose agent is not known yet.
    pub(crate) newcomer: Option<Newcomer>,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The host has as many sessions as it may.
    Host,
    /// Too many who come from there are not known yet.
    Source,
}

/// Builds a [`Host`].
pub struct HostBuilder {
    plugins: Vec<Arc<dyn Plugin>>,
    settings: Settings,
    policies: Policies,
    audit: Option<audit::Log>,
    approvals: Option<Approvals>,
    idempotency: Option<Arc<dyn SnapshotStore>>,
    max_connections: usize,
    max_requests_per_agent: usize,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostBuilder")
            .field("plugins", &self.plugins.len())
            .finish_non_exhaustive()
    }
}

impl HostBuilder {
    /// Adds a plugin.
    #[must_use]
    pub fn plugin(self, plugin: impl Plugin) -> Self {
        self.shared_plugin(Arc::new(plugin))
    }

    /// Adds a plugin that others have too.
    #[must_use]
    pub fn shared_plugin(mut self, plugin: Arc<dyn Plugin>) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Says who may come in; without it everybody may.
    #[must_use]
    pub fn authenticator(self, authenticator: impl Authenticator) -> Self {
        self.shared_authenticator(Arc::new(authenticator))
    }

    /// Says who may come in, by an authenticator that others have too.
    #[must_use]
    pub fn shared_authenticator(mut self, authenticator: Arc<dyn Authenticator>) -> Self {
        self.settings.authenticator = authenticator;
        self
    }

    /// Sets the limits of each session.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Sets the longest line that is taken, in bytes.
    #[must_use]
    pub const fn max_line(mut self, max_line: usize) -> Self {
        self.settings.max_line = max_line;
        self
    }

    /// Sets how many sessions there may be, those that wait for their agent included.
    #[must_use]
    pub const fn max_sessions(mut self, max_sessions: usize) -> Self {
        self.settings.max_sessions = max_sessions;
        self
    }

    /// Sets how many sessions one agent may have, those that wait for it included.
    #[must_use]
    pub const fn max_sessions_per_agent(mut self, max_sessions_per_agent: usize) -> Self {
        self.settings.max_sessions_per_agent = max_sessions_per_agent;
        self
    }

    /// Sets how many bytes may wait in all sessions, and in those of one agent.
    #[must_use]
    pub const fn max_buffered(mut self, total: usize, per_agent: usize) -> Self {
        self.settings.max_buffered = (total, per_agent);
        self
    }

    /// Sets how many connections of one source there may be that have not shaken hands.
    #[must_use]
    pub const fn max_newcomers(mut self, max_newcomers: usize) -> Self {
        self.settings.max_newcomers = max_newcomers;
        self
    }

    /// Sets how many connections all listeners of the host may have together.
    #[must_use]
    pub const fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = max_connections;
        self
    }

    /// Sets how many requests one agent may have under way, in all its sessions.
    #[must_use]
    pub const fn max_requests_per_agent(mut self, max_requests_per_agent: usize) -> Self {
        self.max_requests_per_agent = max_requests_per_agent;
        self
    }

    /// Sets how long requests may go on when the host stops.
    #[must_use]
    pub const fn drain(mut self, drain: Duration) -> Self {
        self.settings.drain = drain;
        self
    }

    /// Puts sessions on record, so that they survive the process.
    #[must_use]
    pub fn snapshots(mut self, store: Arc<dyn SnapshotStore>, mode: SnapshotMode) -> Self {
        self.settings.snapshots = Some(store);
        self.settings.snapshot_mode = mode;
        self
    }

    /// Records requests whose effect outlives the process, so that the next process executes none of them
    /// a second time. The store must be another than that of the [snapshots](Self::snapshots).
    #[must_use]
    pub fn idempotency(mut self, store: Arc<dyn SnapshotStore>) -> Self {
        self.idempotency = Some(store);
        self
    }

    /// Sets what agents may do; without it everything.
    #[must_use]
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Puts every request on record: one that cannot be is not done.
    #[must_use]
    pub fn audit(mut self, log: audit::Log) -> Self {
        self.audit = Some(log);
        self
    }

    /// Lets an operator decide about held calls; without it they are refused.
    #[must_use]
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Some(approvals);
        self
    }

    /// Checks that of the exclusive plugins no two serve the same type. Without this check the first of
    /// them is the only one.
    ///
    /// # Errors
    /// With the names of two that do.
    pub fn check_exclusive(&self) -> Result<(), ExclusiveConflict> {
        check_exclusive(&self.plugins)
    }

    /// The host.
    #[must_use]
    pub fn build(mut self) -> Host {
        let policies = Arc::new(std::mem::take(&mut self.policies));
        let (audit, approvals) = (self.audit.take(), self.approvals.take());
        let idempotency = IdempotencyCaches::new(self.idempotency.take());
        let connections = Connections::new(self.max_connections);
        let in_flight = InFlight::new(self.max_requests_per_agent);
        let settings = self.finish();
        Host {
            inner: Arc::new(Inner {
                policies: RwLock::new(policies),
                counters: Counters::default(),
                audit,
                approvals,
                slots: Slots::new(settings.slot_limits(), settings.buffer_limits()),
                settings: RwLock::new(Arc::new(settings)),
                clock: Clock::start(),
                sessions: Sessions::default(),
                access: AccessTable::default(),
                newcomers: Newcomers::default(),
                connections,
                in_flight,
                leaving: Semaphore::new(MAX_LEAVING),
                idempotency,
                metrics: Metrics::default(),
                stopping: CancellationToken::new(),
                nobody: mpsc::channel(1).0,
            }),
        }
    }

    fn finish(mut self) -> Settings {
        self.settings.registry = Registry::new(self.plugins);
        self.settings
    }
}

impl Host {
    /// A host without plugins, open to everybody, with the default limits.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder {
            policies: Policies::default(),
            audit: None,
            approvals: None,
            idempotency: None,
            max_connections: MAX_SESSIONS.saturating_add(EXTRA_CONNECTIONS),
            max_requests_per_agent: MAX_REQUESTS_PER_AGENT,
            plugins: Vec::new(),
            settings: Settings {
                registry: Registry::default(),
                authenticator: Arc::new(Open),
                limits: Limits::default(),
                max_line: MAX_LINE,
                max_sessions: MAX_SESSIONS,
                max_sessions_per_agent: MAX_SESSIONS_PER_AGENT,
                max_buffered: (MAX_BUFFERED, MAX_BUFFERED_PER_AGENT),
                max_newcomers: MAX_NEWCOMERS,
                drain: DRAIN,
                snapshots: None,
                snapshot_mode: SnapshotMode::default(),
            },
        }
    }

    /// What agents may do at the moment.
    #[must_use]
    pub fn policies(&self) -> Arc<Policies> {
        let policies = self.inner.policies.read();
        Arc::clone(&policies.unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets what agents may do from now on, in the sessions there are too.
    pub fn set_policies(&self, policies: Policies) {
        let slot = self.inner.policies.write();
        *slot.unwrap_or_else(PoisonError::into_inner) = Arc::new(policies);
    }

    /// Serves one connection, and the session that begins over it to its end: one that can be gone on
    /// with waits for its agent's return.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        source: Source,
    ) -> std::io::Result<()> {
        self.serve_accepted(stream, source, None).await
    }

    /// Serves a connection that a listener has accepted, if there is a slot, and its session.
    pub(crate) async fn serve_accepted(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        source: Source,
        slot: Option<Arc<ConnectionSlot>>,
    ) -> std::io::Result<()> {
        if let Some(slot) = &slot
            && slot.serve(std::future::ready(())).await.is_none()
        {
            return Ok(());
        }
        let admission = match self.admit(source) {
            Ok(admission) => admission,
            Err(full) => {
                let mut refusal = full.failure().into_line();
                refusal.push(b'\n');
                stream.write_all(&refusal).await?;
                stream.shutdown().await?;
                // Boxed, so that a session does not keep the space.
                Box::pin(self.see_off(stream)).await;
                return Ok(());
            }
        };
        let settings = self.settings();
        let link = Bytes::new(stream, settings.max_line_before(), LinkSlot::new(slot));
        let span = session_span(source);
        let driver = self.driver(settings, source, admission);
        driver.run(Some(Box::new(link))).instrument(span).await
    }

    /// Reads what a peer who was refused has sent already: to close before would take the refusal
    /// away from him. Of many at once, some.
    async fn see_off(&self, mut stream: impl AsyncRead + Unpin) {
        let Ok(_place) = self.inner.leaving.try_acquire() else {
            return;
        };
        let read = async {
            let mut bytes = [0; 1024];
            for _ in 0..64 {
                if !matches!(stream.read(&mut bytes).await, Ok(size) if size > 0) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(LEAVING, read).await;
    }

    /// Serves one peer over a link.
    pub(crate) fn serve_link(&self, link: Box<dyn Link>, source: Source, admission: Admission) {
        let driver = self.driver(self.settings(), source, admission);
        let run = async move {
            if let Err(error) = driver.run(Some(link)).await {
                tracing::debug!(%error, "a connection broke");
            }
        };
        tokio::spawn(run.instrument(session_span(source)));
    }

    /// A slot for a session of somebody who is not known yet.
    pub(crate) fn admit(&self, source: Source) -> Result<Admission, Full> {
        let newcomer = self.newcomer(source).ok_or(Full::Source);
        let admission = newcomer.and_then(|newcomer| {
            Ok(Admission {
                slot: self.inner.slots.admit(source).ok_or(Full::Host)?,
                newcomer: Some(newcomer),
            })
        });
        if let Err(full) = &admission {
            self.turned_away(source, full.word());
        }
        admission
    }

    /// Somebody was turned away before anybody knew him.
    pub(crate) fn turned_away(&self, source: Source, reason: &'static str) {
        if let Some(log) = &self.inner.audit {
            log.reject(source.address(), None, reason);
        }
    }

    /// The connections of its listeners.
    pub(crate) fn connections(&self) -> &Connections {
        &self.inner.connections
    }

    /// Counts a connection of somebody who is not known yet.
    pub(crate) fn newcomer(&self, source: Source) -> Option<Newcomer> {
        let max = self.settings().max_newcomers;
        self.inner.newcomers.count(source, max)
    }

    /// Goes on with other settings; sessions keep those they began with.
    pub fn reload(&self, builder: HostBuilder) {
        let settings = Arc::new(builder.finish());
        let (slots, buffers) = (settings.slot_limits(), settings.buffer_limits());
        self.inner.slots.set_limits(slots, buffers);
        *self
            .inner
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Removes what idempotency caches retain no longer, from memory and from their store. Call it every
    /// minute or so.
    ///
    /// # Errors
    /// If the store fails.
    pub fn remove_expired(&self) -> std::io::Result<()> {
        let now = self.inner.clock.monotonic();
        self.inner.idempotency.remove_expired(now)
    }

    /// Begins to stop: every session may finish what it runs for a while, and takes nothing new.
    pub fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Waits until a host that was told to stop has no sessions, then takes its plugins down.
    pub async fn stopped(&self) {
        self.inner.stopping.cancelled().await;
        self.inner.slots.none_left().await;
        for plugin in self.settings().registry.plugins() {
            plugin.teardown().await;
        }
    }

    /// Ends everything that acts for these identities: sessions, those included that wait for their
    /// agents or are only on record; what asks in their names without a session; calls that wait for
    /// the operator; and whatever plugins have kept their [`Access`](crate::Access) for. Returns the number of sessions
    /// once all of it has ended, or has not within some seconds.
    ///
    /// Their credentials must not be good any more, or they come in again.
    ///
    /// # Errors
    /// If what is on record of them cannot be removed; what ran has ended nevertheless.
    pub async fn revoke_access(
        &self,
        is_meant: impl Fn(&AccessHolder) -> bool + Send + Sync + 'static,
    ) -> std::io::Result<usize> {
        let is_meant: IsMeant = Arc::new(is_meant);
        let running = self
            .inner
            .sessions
            .count_of(|owner| is_meant(&owner.holder()));
        let revoked = self.inner.access.revoke(&is_meant);
        let removed = match self.settings().snapshots.clone() {
            Some(store) => {
                let is_meant = Arc::clone(&is_meant);
                let is_meant = move |owner: &Owner| is_meant(&owner.holder());
                let remove = move || journal::remove_all(&*store, is_meant);
                tokio::task::spawn_blocking(remove).await?
            }
            None => Ok(0),
        };
        if let Some(approvals) = &self.inner.approvals {
            let withdrawn = approvals.withdraw_all(&is_meant).await;
            withdrawn.map_err(std::io::Error::other)?;
        }
        let ended = async {
            for entry in &revoked {
                entry.ended().await;
            }
        };
        // They have that long to write their last words.
        if tokio::time::timeout(END, ended).await.is_err() {
            let left: usize = revoked.iter().map(Entry::left).sum();
            tracing::warn!(
                left,
                "some of what acted for a revoked identity has not ended yet"
            );
        }
        // Those that run are on record too, if any are.
        removed.map(|removed| removed.max(running))
    }

    /// How much acts for these identities at the moment: sessions, and what goes on beside them.
    #[must_use]
    pub fn acting(&self, is_meant: impl Fn(&AccessHolder) -> bool) -> usize {
        self.inner.access.acting(is_meant)
    }

    /// Ends when the host is told to stop.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.inner.stopping.clone()
    }

    /// Whether the host was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.is_cancelled()
    }

    /// How many sessions there are, those before their handshake included.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.inner.slots.count()
    }

    /// How many bytes wait in sessions: to be read, in case their agents come back, or to be served.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.inner.slots.buffered()
    }

    /// What was counted, in Prometheus' text format.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.inner
            .metrics
            .render(self.sessions(), self.buffered_bytes())
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        let settings = self.inner.settings.read();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    fn driver(&self, settings: Arc<Settings>, source: Source, admission: Admission) -> Box<Driver> {
        let offer = settings.registry.offer(settings.authenticator.required());
        let now = self.inner.clock.now();
        let session = HostSession::new(now, settings.limits, offer, system_random());
        Driver::new(self.clone(), settings, session, source, admission)
    }
}

impl Settings {
    /// The limits of sessions.
    fn slot_limits(&self) -> base::Limits {
        slots::limits(self.max_sessions, self.max_sessions_per_agent)
    }

    /// The limits of the bytes that wait in sessions.
    const fn buffer_limits(&self) -> base::Limits {
        let (total, per_agent) = self.max_buffered;
        buffers::limits(total, per_agent)
    }

    /// The longest line of somebody who has not shaken hands.
    pub(crate) fn max_line_before(&self) -> usize {
        self.max_line.min(MAX_LINE_BEFORE)
    }
}

impl Full {
    const fn word(self) -> &'static str {
        match self {
            Self::Host => TOO_MANY_SESSIONS,
            Self::Source => "too_many_newcomers",
        }
    }

    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Host => failures::too_many_sessions(),
            Self::Source => failures::too_many_newcomers(),
        }
    }
}

/// Why sessions are refused, in records and to agents.
pub(crate) const TOO_MANY_SESSIONS: &str = "too_many_sessions";

/// What a session logs stands under this; its agent is written in when it is known.
pub(crate) fn session_span(source: Source) -> tracing::Span {
    tracing::info_span!("session", %source, agent = tracing::field::Empty)
}

const MAX_SESSIONS: usize = 16_384;

/// More than any agent needs, and a tenth of what a node has.
pub(crate) const MAX_SESSIONS_PER_AGENT: usize = 1000;

/// Bytes that may wait in all sessions, and in those of one agent: eight agents can have all of theirs.
pub(crate) const MAX_BUFFERED: usize = 512 * 1024 * 1024;
pub(crate) const MAX_BUFFERED_PER_AGENT: usize = 64 * 1024 * 1024;

/// Enough for all agents of a machine that come back at once, few enough to leave room for others.
pub(crate) const MAX_NEWCOMERS: usize = 1000;

/// A handshake is much shorter.
const MAX_LINE_BEFORE: usize = 64 * 1024;

const DRAIN: Duration = Duration::from_secs(10);
const END: Duration = Duration::from_secs(5);
const LEAVING: Duration = Duration::from_secs(1);
const MAX_LEAVING: usize = 256;
