//! A host: its plugins, its limits, and the connections it serves.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use a2e_session::{HostSession, Limits, failures};
use a2e_wire::MAX_LINE;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::auth::{Authenticator, Open, Source};
use crate::clock::{Clock, system_random};
use crate::driver::{Command, Driver};
use crate::journal;
use crate::link::{Bytes, Link};
use crate::metrics::Metrics;
use crate::plugin::Plugin;
use crate::registry::Registry;
use crate::retries::Retries;
use crate::sessions::Sessions;
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
    pub(crate) retries: Retries,
    pub(crate) metrics: Metrics,
    /// Ends when the host is to stop.
    pub(crate) stopping: CancellationToken,
}

/// What a host is built from. A session keeps what it began with.
pub(crate) struct Settings {
    pub(crate) registry: Registry,
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) limits: Limits,
    pub(crate) max_line: usize,
    pub(crate) max_sessions: usize,
    pub(crate) drain: Duration,
    pub(crate) snapshots: Option<Arc<dyn SnapshotStore>>,
    pub(crate) snapshot_mode: SnapshotMode,
}

/// Builds a [`Host`].
pub struct HostBuilder {
    plugins: Vec<Arc<dyn Plugin>>,
    settings: Settings,
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

    /// The host.
    #[must_use]
    pub fn build(self) -> Host {
        Host {
            inner: Arc::new(Inner {
                settings: RwLock::new(Arc::new(self.finish())),
                clock: Clock::start(),
                sessions: Sessions::default(),
                retries: Retries::default(),
                metrics: Metrics::default(),
                stopping: CancellationToken::new(),
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
            plugins: Vec::new(),
            settings: Settings {
                registry: Registry::default(),
                authenticator: Arc::new(Open),
                limits: Limits::default(),
                max_line: MAX_LINE,
                max_sessions: MAX_SESSIONS,
                drain: DRAIN,
                snapshots: None,
                snapshot_mode: SnapshotMode::default(),
            },
        }
    }

    /// Serves one connection, and the session that begins over it to its end: one that can be gone on
    /// with waits for its agent's return.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub async fn serve(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        source: Source,
    ) -> std::io::Result<()> {
        let settings = self.settings();
        let Some(driver) = self.driver(settings.clone(), source) else {
            let mut refusal = failures::too_many_sessions().into_line();
            refusal.push(b'\n');
            stream.write_all(&refusal).await?;
            return stream.shutdown().await;
        };
        let link = Bytes::new(stream, settings.max_line);
        let span = session_span(source);
        driver.run(Some(Box::new(link))).instrument(span).await
    }

    /// Serves one peer over a link; says whether there was a place for it.
    pub(crate) fn serve_link(&self, link: Box<dyn Link>, source: Source) -> bool {
        let Some(driver) = self.driver(self.settings(), source) else {
            return false;
        };
        let run = async move {
            if let Err(error) = driver.run(Some(link)).await {
                tracing::debug!(%error, "a connection broke");
            }
        };
        tokio::spawn(run.instrument(session_span(source)));
        true
    }

    /// Goes on with other settings; sessions keep those they began with.
    pub fn reload(&self, builder: HostBuilder) {
        let settings = Arc::new(builder.finish());
        *self
            .inner
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner) = settings;
    }

    /// Begins to stop: every session may finish what it runs for a while, and takes nothing new.
    pub fn stop(&self) {
        self.inner.stopping.cancel();
    }

    /// Waits until a host that was told to stop has no sessions, then takes its plugins down.
    pub async fn stopped(&self) {
        self.inner.stopping.cancelled().await;
        self.inner.sessions.none_left().await;
        for plugin in self.settings().registry.plugins() {
            plugin.teardown().await;
        }
    }

    /// Whether the host was told to stop.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.inner.stopping.is_cancelled()
    }

    /// How many sessions there are, those before their handshake included.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.inner.sessions.count()
    }

    /// What was counted, in Prometheus' text format.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.inner.metrics.render(self.sessions())
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        let settings = self.inner.settings.read();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner))
    }

    fn driver(&self, settings: Arc<Settings>, source: Source) -> Option<Box<Driver>> {
        let place = self.inner.sessions.place(settings.max_sessions)?;
        let offer = settings.registry.offer(settings.authenticator.required());
        let now = self.inner.clock.now();
        let session = HostSession::new(now, settings.limits, offer, system_random());
        Some(Driver::new(self.clone(), settings, session, source, place))
    }
}

/// What a session logs stands under this; its agent is written in when it is known.
pub(crate) fn session_span(source: Source) -> tracing::Span {
    tracing::info_span!("session", ?source, agent = tracing::field::Empty)
}

const MAX_SESSIONS: usize = 16_384;
const DRAIN: Duration = Duration::from_secs(10);
    /// Ends all sessions of an agent, those included that wait for its return: what they run is cut
    /// off, and nobody goes on with them. Says how many there were.
    ///
    /// # Errors
    /// If the records of its sessions cannot be removed; those that run have ended nevertheless.
    pub async fn end_sessions(&self, agent: &str) -> std::io::Result<usize> {
        let removed = match self.settings().snapshots.clone() {
            Some(store) => {
                let agent = agent.to_owned();
                let remove = move || journal::remove_all(&*store, &agent);
                tokio::task::spawn_blocking(remove).await?
            }
            None => Ok(0),
        };
        let open = self.inner.sessions.of(agent);
        let running = open.len();
        for entry in &open {
            // One that cannot be told has ended.
            let _ = entry.commands.send(Command::End).await;
        }
        let ended = async {
            for entry in open {
                entry.commands.closed().await;
            }
        };
        // They have that long to write their last words.
        let _ = tokio::time::timeout(END, ended).await;
        // Those that run are on record too, if any are.
        removed.map(|removed| removed.max(running))
    }

const END: Duration = Duration::from_secs(5);
const LEAVING: Duration = Duration::from_secs(1);
const MAX_LEAVING: usize = 256;
