//! TLS for both ends: version 1.3 alone, set in code, with the provider named.
//!
//! [`Certificate`] is what a server shows: from files, read again when they change, or made by a [`DevelopmentCa`]. [`Roots`] is whom
//! a client believes. Early data is never offered: what comes in it can be replayed.

mod certificate;
mod development;
mod roots;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{ServerName, pem};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ClientConfig, ServerConfig};

pub use certificate::Certificate;
pub use development::DevelopmentCa;
pub use roots::Roots;

use crate::listen::Exposure;

/// HTTP/2 in the handshake of TLS.
pub(crate) const H2: &[u8] = b"h2";

/// HTTP/1.1 in the handshake of TLS.
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// Why TLS cannot be spoken as configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read as what it should be.
    #[error("{} is no PEM file of a {what}: {source}", path.display())]
    Pem {
        /// What it should be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// A certificate cannot be used, or the key is not its own.
    #[error("{} cannot be used: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
    /// The folder of the development CA cannot be used.
    #[error("the development CA in {} cannot be used: {problem}", path.display())]
    Development {
        /// The folder.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Nobody is trusted.
    #[error(
        "no certificate authority is trusted here; install the system's (ca-certificates) or name a file in `a2a.tls.roots`"
    )]
    NoRoots,
    /// The TLS library refuses the settings.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

/// What the TLS library says of a handshake that failed.
pub(crate) fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// How a server speaks TLS.
#[derive(Clone)]
pub struct ServerTls(pub(crate) Arc<ServerConfig>);

/// How a client speaks TLS, once for each protocol that it may ask for.
#[derive(Clone)]
pub struct ClientTls {
    pub(crate) http1: Arc<ClientConfig>,
    pub(crate) http2: Arc<ClientConfig>,
}

impl ServerTls {
    /// Shows this certificate to those who ask for a name that is in it. Only a server that nobody but this machine can reach
    /// answers those who ask for no name.
    ///
    /// # Errors
    /// If the library refuses the settings.
    pub fn new(certificate: &Arc<Certificate>, exposure: Exposure) -> Result<Self, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(certificate::shown(certificate, exposure));
        config.alpn_protocols = vec![H2.to_vec(), HTTP_1_1.to_vec()];
        config.max_early_data_size = 0;
        Ok(Self(Arc::new(config)))
    }
}

impl ClientTls {
    /// Believes whom these roots vouch for.
    ///
    /// # Errors
    /// If there is no root, or the library refuses the settings. That the system has none either shows when
    /// the first server is to be believed.
    pub fn new(roots: Roots) -> Result<Self, TlsError> {
        let provider = provider();
        let verifier = roots.into_verifier(&provider)?;
        let mut http1 = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            // One of rustls' own.
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        http1.enable_early_data = false;
        let mut http2 = http1.clone();
        http1.alpn_protocols = vec![HTTP_1_1.to_vec()];
        http2.alpn_protocols = vec![H2.to_vec()];
        Ok(Self {
            http1: Arc::new(http1),
            http2: Arc::new(http2),
        })
    }

    /// Speaks TLS over a connection that is there, for HTTP/1.1, with whom the name says.
    ///
    /// # Errors
    /// If that is no name, or somebody else answers.
    pub async fn over(
        &self,
        name: &str,
        stream: TcpStream,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>> {
        // An address of version 6 stands in brackets in a URL.
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.http1));
        connector.connect(name, stream).await
    }
}

impl std::fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerTls")
    }
}

impl std::fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientTls")
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}
