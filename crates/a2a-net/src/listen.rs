//! Taking connections: on which addresses, how many, and until when.

mod admission;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use a2a_session::Source;
use base::{Budget, LogLimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::carry::{self, Visit, shared_budget};
use crate::tls::{Certificate, H2, ServerTls, TlsError};
use crate::transport::{Carrier, Service};

pub use crate::carry::Limits;
use admission::{Admission, Place, Tracked};
pub use net::DiscardLimits;

/// Who can reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// This machine alone: every address is a loopback address. This is development mode.
    Loopback,
    /// Others too.
    Public,
}

/// Sockets that listen.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    exposure: Exposure,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// An address cannot be listened on.
    #[error(
        "cannot listen for A2A on {address}; choose another with `--a2a-listen`, such as 127.0.0.1:0 for any that is free"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        source: io::Error,
    },
    /// There is no address.
    #[error("no address to listen on for A2A; name one with `--a2a-listen`")]
    NoAddress,
    /// A certificate that nobody else trusts, where others can come.
    #[error(
        "{0} can be reached by others, and the development certificate is for this machine alone; name a certificate in `a2a.tls`, or listen on 127.0.0.1"
    )]
    Development(SocketAddr),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The system refused a connection (no more descriptors): how long to wait first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is spoken, for peers that speak HTTP without TLS.
const PLAIN: &str = "This port speaks A2A over TLS. Use https://.\n";

/// Connections that cannot be accepted.
static REFUSED: LogLimit = LogLimit::new(1, Duration::from_secs(10));

impl Exposure {
    /// Who can reach these addresses.
    pub fn of(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut addresses = addresses.into_iter();
        match addresses.all(|address| address.to_canonical().is_loopback()) {
            true => Self::Loopback,
            false => Self::Public,
        }
    }
}

impl Listeners {
    /// Listens on these addresses. There is always TLS; a port of 0 is one that the system chooses.
    ///
    /// # Errors
    /// If there is none, or one cannot be listened on.
    pub async fn bind(addresses: &[SocketAddr]) -> Result<Self, ListenError> {
        if addresses.is_empty() {
            return Err(ListenError::NoAddress);
        }
        let mut sockets = Vec::new();
        for &address in addresses {
            let bound = TcpListener::bind(address).await;
            sockets.push(bound.map_err(|source| ListenError::Bind { address, source })?);
        }
        let exposure = Exposure::of(addresses.iter().map(SocketAddr::ip));
        Ok(Self { sockets, exposure })
    }

    /// Who can reach them.
    #[must_use]
    pub const fn exposure(&self) -> Exposure {
        self.exposure
    }

    /// The addresses, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let sockets = self.sockets.iter();
        sockets
            .filter_map(|socket| socket.local_addr().ok())
            .collect()
    }

    /// How they speak TLS with this certificate.
    ///
    /// # Errors
    /// If the certificate is for development and others can come, or TLS cannot be spoken.
    pub fn tls(&self, certificate: &Arc<Certificate>) -> Result<ServerTls, ListenError> {
        if self.exposure == Exposure::Public && certificate.is_development() {
            let addresses = self.addresses();
            let mut exposed = addresses.iter();
            let exposed = exposed.find(|address| !address.ip().to_canonical().is_loopback());
            let exposed = exposed.or_else(|| addresses.first()).copied();
            return Err(exposed.map_or(ListenError::NoAddress, ListenError::Development));
        }
        Ok(ServerTls::new(certificate, self.exposure)?)
    }

    /// Serves until `stop`, then lets what has begun end, for [`Limits::drain`] at most.
    pub async fn serve<S: Service>(
        self,
        tls: ServerTls,
        service: Arc<S>,
        limits: Limits,
        stop: CancellationToken,
    ) {
        let drain = limits.drain;
        let server = Arc::new(Server {
            admission: Admission::new(limits.connections, limits.connections_per_source),
            tls: TlsAcceptor::from(tls.0),
            service,
            budget: shared_budget(&limits),
            limits: Arc::new(limits),
            stop: stop.clone(),
            connections: TaskTracker::new(),
            killed: CancellationToken::new(),
        });
        let mut loops = JoinSet::new();
        for socket in self.sockets {
            loops.spawn(Arc::clone(&server).accept(socket));
        }
        loops.join_all().await;
        server.connections.close();
        if timeout(drain, server.connections.wait()).await.is_err() {
            tracing::warn!("A2A requests did not end in time and were cut off");
            server.killed.cancel();
            server.connections.wait().await;
        }
    }
}

struct Server<S> {
    admission: Arc<Admission>,
    tls: TlsAcceptor,
    service: Arc<S>,
    limits: Arc<Limits>,
    budget: Budget<Source>,
    stop: CancellationToken,
    connections: TaskTracker,
    killed: CancellationToken,
}

impl<S: Service> Server<S> {
    async fn accept(self: Arc<Self>, socket: TcpListener) {
        let mut pause = FIRST_PAUSE;
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            let (stream, source) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    if let Some(more) = REFUSED.admit(Instant::now()) {
                        tracing::warn!(%error, "cannot accept an A2A connection{more}");
                    }
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            pause = FIRST_PAUSE;
            // To say why would take a handshake for TLS, which is more than it is worth.
            let Some(place) = self.admission.enter(source.ip()).await else {
                tracing::debug!(%source, "too many A2A connections; closed one");
                continue;
            };
            let server = Arc::clone(&self);
            let place = Arc::new(place);
            self.connections.spawn(async move {
                tokio::select! {
                    () = server.killed.cancelled() => {}
                    () = place.evicted.cancelled() => {
                        tracing::debug!(%source, "an idle A2A connection gave way to another");
                    }
                    () = server.visit(stream, source, &place) => {}
                }
            });
        }
    }

    async fn visit(&self, stream: TcpStream, source: SocketAddr, place: &Arc<Place>) {
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let shaking = async {
            match net::is_plain_http(&stream).await? {
                true => Ok(Err(stream)),
                false => self.tls.accept(stream).await.map(Ok),
            }
        };
        let shaken: Result<io::Result<_>, _> = tokio::select! {
            shaken = timeout(self.limits.tls_time, shaking) => shaken,
            () = self.stop.cancelled() => return,
        };
        let stream = match shaken {
            Ok(Ok(Ok(stream))) => stream,
            Ok(Ok(Err(stream))) => {
                tracing::debug!(%source, "a peer speaks HTTP without TLS");
                return net::refuse_plain_http(stream, PLAIN, self.limits.discard).await;
            }
            Ok(Err(error)) => {
                tracing::debug!(%source, %error, "no TLS with a peer");
                return;
            }
            Err(_) => {
                tracing::debug!(%source, "a peer took too long for TLS");
                return;
            }
        };
        let carrier = match stream.get_ref().1.alpn_protocol() == Some(H2) {
            true => Carrier::Http2,
            false => Carrier::Http1,
        };
        let visit = Visit {
            service: Arc::new(Tracked {
                service: Arc::clone(&self.service),
                place: Arc::clone(place),
            }),
            limits: Arc::clone(&self.limits),
            budget: self.budget.clone(),
            source,
            stop: self.stop.clone(),
        };
        carry::serve(stream, carrier, visit).await;
    }
}
