//! A host: its plugins, its limits, and the connections it serves.

use std::sync::Arc;

use a2e_session::{HostSession, Limits};
use a2e_wire::MAX_LINE;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::auth::{Authenticator, Open, Source};
use crate::clock::{Clock, system_random};
use crate::driver::Driver;
use crate::plugin::Plugin;
use crate::registry::Registry;

/// Serves agents. Cheap to clone; all clones are one host.
#[derive(Clone)]
pub struct Host {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) authenticator: Box<dyn Authenticator>,
    pub(crate) limits: Limits,
    pub(crate) max_line: usize,
    /// Ends when the host is to stop.
    pub(crate) stopping: CancellationToken,
}

/// Builds a [`Host`].
pub struct HostBuilder {
    plugins: Vec<Arc<dyn Plugin>>,
    authenticator: Box<dyn Authenticator>,
    limits: Limits,
    max_line: usize,
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
    pub fn plugin(mut self, plugin: impl Plugin) -> Self {
        self.plugins.push(Arc::new(plugin));
        self
    }

    /// Says who may come in; without it everybody may.
    #[must_use]
    pub fn authenticator(mut self, authenticator: impl Authenticator) -> Self {
        self.authenticator = Box::new(authenticator);
        self
    }

    /// Sets the limits of each session.
    #[must_use]
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the longest line that is taken, in bytes.
    #[must_use]
    pub const fn max_line(mut self, max_line: usize) -> Self {
        self.max_line = max_line;
        self
    }

    /// The host.
    #[must_use]
    pub fn build(self) -> Host {
        Host {
            inner: Arc::new(Inner {
                registry: Registry::new(self.plugins),
                authenticator: self.authenticator,
                limits: self.limits,
                max_line: self.max_line,
                stopping: CancellationToken::new(),
            }),
        }
    }
}

impl Host {
    /// A host without plugins, open to everybody, with the default limits.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder {
            plugins: Vec::new(),
            authenticator: Box::new(Open),
            limits: Limits::default(),
            max_line: MAX_LINE,
        }
    }

    /// Serves one connection to its end.
    ///
    /// # Errors
    /// If reading or writing fails; the session has ended then too.
    pub async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send,
        source: Source,
    ) -> std::io::Result<()> {
        let clock = Clock::start();
        let offer = self
            .inner
            .registry
            .offer(self.inner.authenticator.required());
        let session = HostSession::new(clock.now(), self.inner.limits, offer, system_random());
        Driver::new(self.clone(), session, clock, source)
            .run(stream)
            .await
    }

    /// Begins to stop: every session may finish what it runs for a while, and takes nothing new.
    pub fn stop(&self) {
        self.inner.stopping.cancel();
    }
}
