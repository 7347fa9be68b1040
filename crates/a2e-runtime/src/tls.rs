//! TLS with a certificate from files, which can be read again while it is in use.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ServerConfig};

/// A certificate and its key, from PEM files. Connections speak TLS 1.3 and nothing older.
#[derive(Debug, Clone)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    acceptor: Acceptor,
}

#[derive(Clone)]
struct Acceptor(TlsAcceptor);

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
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
    /// The key is not the certificate's, or of a kind that is not known.
    #[error("the key in {} does not go with the certificate: {source}", path.display())]
    Key {
        /// The key's file.
        path: PathBuf,
        /// What is wrong.
        source: rustls::Error,
    },
}

impl std::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Tls {
    /// Reads a certificate, with those between it and a root behind it, and its key.
    ///
    /// # Errors
    /// If the files cannot be read, or do not go together.
    pub fn from_files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let current = Arc::new(Current(RwLock::new(read(&certificate, &key)?)));
        let unusable = |source| TlsError::Key {
            path: key.clone(),
            source,
        };
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::<Current>::clone(&current));
        let acceptor = Acceptor(TlsAcceptor::from(Arc::new(config)));
        Ok(Self {
            certificate,
            key,
            current,
            acceptor,
        })
    }

    /// Reads the files again, for connections from now on.
    ///
    /// # Errors
    /// As [`Tls::from_files`]; then the certificate in use stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let fresh = read(&self.certificate, &self.key)?;
        *self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Shakes hands with a peer that has connected.
    pub(crate) async fn accept<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> io::Result<tokio_rustls::server::TlsStream<S>> {
        self.acceptor.0.accept(stream).await
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(&current))
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |what, path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { what, path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .and_then(|chain| match chain.is_empty() {
            true => Err(pem::Error::NoItemsFound),
            false => Ok(chain),
        })
        .map_err(wrong("certificate", certificate))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(wrong("key", key))?;
    let fresh = CertifiedKey::from_der(chain, secret, &aws_lc_rs::default_provider());
    fresh.map(Arc::new).map_err(|source| TlsError::Key {
        path: key.to_owned(),
        source,
    })
}
