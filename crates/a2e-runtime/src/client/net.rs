//! Sockets, plain and with TLS.

use std::fmt;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A machine and a port, and whether to speak TLS there.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    None,
    Tls,
}

/// Which authorities are trusted to say who a host is.
#[derive(Clone, Default)]
pub enum Roots {
    /// Those the system trusts.
    #[default]
    System,
    /// These alone.
    Only(Arc<RootCertStore>),
}

/// A connection of either kind.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Roots {
    /// The certificates of a PEM file.
    ///
    /// # Errors
    /// If it has none, or one that cannot be read.
    pub fn from_pem(pem: &[u8]) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| invalid(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(invalid("there is no certificate in it".into()));
        }
        Ok(Self::Only(Arc::new(roots)))
    }

    fn store(&self) -> io::Result<Arc<RootCertStore>> {
        match self {
            Self::Only(roots) => Ok(Arc::clone(roots)),
            Self::System => {
                let mut roots = RootCertStore::empty();
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    return Err(invalid(
                        "this system has no trusted certificates; name a file of them".into(),
                    ));
                }
                Ok(Arc::new(roots))
            }
        }
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Endpoint {
    /// What names it in a `Host` header.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    pub(super) async fn connect(&self, roots: &Roots) -> io::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        if self.security == Security::None {
            return Ok(Box::new(stream));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots.store()?)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(config));
        let connected = connector.connect(name, stream).await;
        Ok(Box::new(connected.map_err(explained)?))
    }
}

/// Says what to do about certificates that are not what they should be.
fn explained(error: io::Error) -> io::Error {
    let text = error.to_string();
    let remedy = if text.contains("CaUsedAsEndEntity") {
        "the host shows the certificate of an authority as its own (`CA:TRUE`); make it one with \
         `basicConstraints=critical,CA:FALSE`: docs/frith.sample.yaml has the command"
    } else if text.contains("UnknownIssuer") || text.contains("UnsupportedSignatureAlgorithm") {
        "nobody who is trusted here vouches for the host's certificate; if it is your own, trust it \
         (`--ca FILE`)"
    } else if text.contains("InvalidContentType") {
        "what listens there does not speak TLS; without it the address begins with tcp:, ws: or http:"
    } else {
        return error;
    };
    io::Error::new(error.kind(), format!("{remedy} ({text})"))
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {:?}", self.host, self.port, self.security)
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Only(roots) => write!(f, "Only({})", roots.len()),
        }
    }
}
