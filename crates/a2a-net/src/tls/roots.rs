//! Whom a client believes.

use std::path::Path;

use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};

use super::{DevelopmentCa, TlsError};

/// The authorities that are trusted to say who a server is.
#[derive(Debug, Clone)]
pub struct Roots(RootCertStore);

impl Roots {
    /// Nobody yet.
    #[must_use]
    pub fn none() -> Self {
        Self(RootCertStore::empty())
    }

    /// Those the system trusts. Reads files.
    #[must_use]
    pub fn system() -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Self(roots)
    }

    /// And those of a PEM file.
    ///
    /// # Errors
    /// If it has none, or one that cannot be used.
    pub fn with_file(mut self, path: &Path) -> Result<Self, TlsError> {
        let wrong = |source| TlsError::Pem {
            what: "certificate",
            path: path.to_owned(),
            source,
        };
        let before = self.0.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(wrong)? {
            let added = self.0.add(certificate.map_err(wrong)?);
            added.map_err(|source| TlsError::Unusable {
                path: path.to_owned(),
                source,
            })?;
        }
        match self.0.len() == before {
            true => Err(wrong(pem::Error::NoItemsFound)),
            false => Ok(self),
        }
    }

    /// And the development CA, which vouches for nobody but this machine.
    ///
    /// # Errors
    /// If its certificate cannot be used.
    pub fn with_development(mut self, ca: &DevelopmentCa) -> Result<Self, TlsError> {
        self.0.add(ca.certificate().clone())?;
        Ok(self)
    }

    pub(super) fn into_store(self) -> Result<RootCertStore, TlsError> {
        match self.0.is_empty() {
            true => Err(TlsError::NoRoots),
            false => Ok(self.0),
        }
    }
}
