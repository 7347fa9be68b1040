//! Where one may connect to (profile §4): looked at before, and then exactly that address.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use a2a_identity::{WebUrl, choose_address};

/// What may be connected to.
#[derive(Debug, Clone)]
pub struct Reach {
    /// The ports of public hosts.
    pub ports: Vec<u16>,
    /// Whether this machine may be.
    pub loopback: Loopback,
    /// Hosts that the operator allows whatever their address and port, in lower case.
    pub hosts: BTreeSet<String>,
}

/// Whether this machine itself may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loopback {
    /// No: a peer would choose what is done to us.
    #[default]
    Refused,
    /// Yes: development mode.
    Allowed,
}

impl Default for Reach {
    fn default() -> Self {
        Self {
            ports: vec![443],
            loopback: Loopback::default(),
            hosts: BTreeSet::new(),
        }
    }
}

/// The addresses of a name, on their way.
pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Knows the addresses of names.
pub trait Names: Send + Sync + 'static {
    /// All addresses of a name.
    fn addresses<'a>(&'a self, host: &'a str) -> Addresses<'a>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn addresses<'a>(&'a self, host: &'a str) -> Addresses<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Why something may not be connected to. A peer is never told which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReachable {
    /// The rules forbid it.
    #[error(
        "the rules for fetches forbid it: only public hosts on the allowed ports, unless the operator allows more"
    )]
    Forbidden,
    /// The name has no address.
    #[error("the name has no address")]
    NoAddress,
}

/// Says which address to connect to.
#[derive(Clone)]
pub struct Guard {
    reach: Arc<Reach>,
    names: Arc<dyn Names>,
}

impl Guard {
    /// A guard that goes by these rules and names.
    #[must_use]
    pub fn new(reach: Reach, names: impl Names) -> Self {
        Self {
            reach: Arc::new(reach),
            names: Arc::new(names),
        }
    }

    /// The one address to connect to for a URL. Whoever connects takes exactly this one, since a
    /// name may lead elsewhere the next time.
    ///
    /// # Errors
    /// If there is none that may be connected to.
    pub async fn address(&self, url: &WebUrl) -> Result<SocketAddr, NotReachable> {
        let (host, port) = (url.host(), url.port());
        let literal: Option<IpAddr> = url.name().parse().ok();
        if self.reach.hosts.contains(host) {
            let found = self.addresses(host, literal).await?;
            let first = found.first().ok_or(NotReachable::NoAddress)?;
            return Ok(SocketAddr::new(*first, port));
        }
        if self.reach.loopback == Loopback::Allowed {
            let found = self.addresses(host, literal).await?;
            let is_here = |address: &IpAddr| address.is_loopback();
            if let Some(first) = found.first().filter(|_| found.iter().all(is_here)) {
                return Ok(SocketAddr::new(*first, port));
            }
        }
        if literal.is_some() || !url.is_public(&self.reach.ports) {
            return Err(NotReachable::Forbidden);
        }
        let found = self.addresses(host, None).await?;
        let address = choose_address(&found).map_err(|_| NotReachable::Forbidden)?;
        Ok(SocketAddr::new(address, port))
    }

    async fn addresses(
        &self,
        host: &str,
        literal: Option<IpAddr>,
    ) -> Result<Vec<IpAddr>, NotReachable> {
        if let Some(literal) = literal {
            return Ok(vec![literal]);
        }
        let found = self.names.addresses(host).await;
        let found = found.map_err(|_| NotReachable::NoAddress)?;
        match found.is_empty() {
            true => Err(NotReachable::NoAddress),
            false => Ok(found),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Guard").field(&self.reach).finish()
    }
}
