//! A connection to exactly the address that was given, with whom the name says.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, ClientConfig, Error};

use super::{Reach, Remote};
use crate::tls::{ClientTls, H2, tls_error};
use crate::transport::CarryError;

const HTTP2: &str = "HTTP/2";

/// Connects to one peer.
pub(super) struct Dialer {
    address: SocketAddr,
    name: ServerName<'static>,
    tls: ClientTls,
    reach: Arc<Reach>,
}

impl Dialer {
    pub(super) fn new(
        tls: ClientTls,
        remote: &Remote,
        reach: Arc<Reach>,
    ) -> Result<Self, CarryError> {
        let name = ServerName::try_from(remote.host.clone())
            .map_err(|_| CarryError::Connect(format!("{:?}: it is no host", remote.host)))?;
        Ok(Self {
            address: remote.address,
            name,
            tls,
            reach,
        })
    }

    pub(super) fn reach(&self) -> &Arc<Reach> {
        &self.reach
    }

    pub(super) fn answer_bytes(&self) -> usize {
        self.reach.answer_bytes
    }

    /// The peer, for errors.
    pub(super) fn peer(&self) -> String {
        format!("{} ({})", self.name.to_str(), self.address)
    }

    /// A connection for HTTP/1.1. A server that knows no ALPN speaks it.
    pub(super) async fn http1(&self) -> Result<TlsStream<TcpStream>, CarryError> {
        self.dial(&self.tls.http1, "HTTP/1.1").await
    }

    /// A connection for HTTP/2, which the server must have agreed to.
    pub(super) async fn http2(&self) -> Result<TlsStream<TcpStream>, CarryError> {
        let stream = self.dial(&self.tls.http2, HTTP2).await?;
        match stream.get_ref().1.alpn_protocol() == Some(H2) {
            true => Ok(stream),
            false => Err(self.not_spoken(HTTP2)),
        }
    }

    async fn dial(
        &self,
        tls: &Arc<ClientConfig>,
        protocol: &str,
    ) -> Result<TlsStream<TcpStream>, CarryError> {
        let dialing = async {
            let connected = TcpStream::connect(self.address).await;
            let stream = connected.and_then(|stream| {
                stream.set_nodelay(true)?;
                Ok(stream)
            });
            let stream = stream.map_err(|error| self.failed(&error))?;
            let connector = TlsConnector::from(Arc::clone(tls));
            let shaken = connector.connect(self.name.clone(), stream).await;
            shaken.map_err(|error| match tls_error(&error) {
                Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
                    self.not_spoken(protocol)
                }
                Some(Error::InvalidCertificate(_)) => {
                    let what = "its certificate is not trusted here";
                    CarryError::Tls(format!("{}: {what} ({error})", self.peer()))
                }
                Some(Error::InvalidMessage(_)) => {
                    let what = "what listens there does not speak TLS, over which A2A always goes";
                    CarryError::Tls(format!("{}: {what} ({error})", self.peer()))
                }
                _ => CarryError::Tls(format!("{}: {error}", self.peer())),
            })
        };
        match timeout(self.reach.connect, dialing).await {
            Ok(dialed) => dialed,
            Err(_) => Err(CarryError::Connect(format!(
                "{}: it took too long",
                self.peer()
            ))),
        }
    }

    fn not_spoken(&self, protocol: &str) -> CarryError {
        CarryError::NotSpoken(format!("{} does not speak {protocol}", self.peer()))
    }

    pub(super) fn failed(&self, error: &dyn std::error::Error) -> CarryError {
        CarryError::Connect(format!("{}: {error}", self.peer()))
    }
}
