//! What a server shows, and reading it again when its files change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::client::verify_server_name;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::{ClientHello, ParsedCertificate, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::{TlsError, provider};
use crate::listen::Exposure;

/// A certificate with its key.
#[derive(Debug)]
pub struct Certificate {
    current: ArcSwap<CertifiedKey>,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Files {
        certificate: PathBuf,
        key: PathBuf,
        /// What the files were when they were last read, well or not.
        seen: Mutex<[Option<Stamp>; 2]>,
    },
    Development,
}

/// What tells that a file is another than before.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(2);

impl Certificate {
    /// Reads a certificate, with those between it and a root behind it, and its key.
    ///
    /// # Errors
    /// If the files cannot be read, or do not go together.
    pub fn from_files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        // Looked at before they are read: a change in between is then read once more.
        let seen = Mutex::new([stamp(&certificate), stamp(&key)]);
        let current = ArcSwap::from(read(&certificate, &key)?);
        let origin = Origin::Files {
            certificate,
            key,
            seen,
        };
        Ok(Self { current, origin })
    }

    pub(super) fn development(key: CertifiedKey) -> Self {
        Self {
            current: ArcSwap::from_pointee(key),
            origin: Origin::Development,
        }
    }

    /// Whether it is good for this machine alone.
    #[must_use]
    pub const fn is_development(&self) -> bool {
        matches!(self.origin, Origin::Development)
    }

    /// Reads the files again if they changed, for connections from now on. Says whether they did.
    ///
    /// # Errors
    /// As [`Certificate::from_files`]; then the certificate in use stays, and the files are not read again before they change again.
    pub fn refresh(&self) -> Result<bool, TlsError> {
        let Origin::Files {
            certificate,
            key,
            seen,
        } = &self.origin
        else {
            return Ok(false);
        };
        let now = [stamp(certificate), stamp(key)];
        {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            if *seen == now {
                return Ok(false);
            }
            *seen = now;
        }
        self.current.store(read(certificate, key)?);
        Ok(true)
    }

    /// Looks at the files again and again. It does not end by itself.
    pub async fn watch(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK).await;
            let this = Arc::clone(&self);
            match tokio::task::spawn_blocking(move || this.refresh()).await {
                Ok(Ok(true)) => tracing::info!("the A2A certificate was read again"),
                Ok(Ok(false)) | Err(_) => {}
                Ok(Err(error)) => tracing::warn!(
                    %error,
                    "the changed A2A certificate cannot be used; the one before it stays in use"
                ),
            }
        }
    }
}

/// Decides what is shown to whom.
#[derive(Debug)]
struct Shown {
    certificate: Arc<Certificate>,
    exposure: Exposure,
}

pub(super) fn shown(
    certificate: &Arc<Certificate>,
    exposure: Exposure,
) -> Arc<dyn ResolvesServerCert> {
    Arc::new(Shown {
        certificate: Arc::clone(certificate),
        exposure,
    })
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.certificate.current.load_full();
        match hello.server_name() {
            None if self.exposure == Exposure::Loopback => Some(current),
            None => None,
            Some(name) => is_for(&current, name).then_some(current),
        }
    }
}

fn is_for(key: &CertifiedKey, name: &str) -> bool {
    let Some(certificate) = key.cert.first() else {
        return false;
    };
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else {
        return false;
    };
    ServerName::try_from(name).is_ok_and(|name| verify_server_name(&parsed, &name).is_ok())
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stamp {
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
    })
}

fn read(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, TlsError> {
    let wrong = |what, path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { what, path, source }
    };
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unusable { path, source }
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(wrong("certificate", certificate))?;
    let Some(leaf) = chain.first() else {
        return Err(wrong("certificate", certificate)(pem::Error::NoItemsFound));
    };
    ParsedCertificate::try_from(leaf).map_err(unusable(certificate))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(wrong("key", key))?;
    let fresh = CertifiedKey::from_der(chain, secret, &provider());
    fresh.map(Arc::new).map_err(unusable(key))
}
