//! Whom a client believes.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::{DevelopmentCa, TlsError};

/// The authorities that are trusted to say who a server is.
#[derive(Debug, Clone)]
pub struct Roots {
    named: RootCertStore,
    /// Whether those of the system are trusted too.
    with_system: bool,
}

impl Roots {
    /// Nobody yet.
    #[must_use]
    pub fn none() -> Self {
        Self {
            named: RootCertStore::empty(),
            with_system: false,
        }
    }

    /// Those the system trusts. Its files, which are hundreds, are read when the first server is to be
    /// believed.
    #[must_use]
    pub fn system() -> Self {
        Self {
            with_system: true,
            ..Self::none()
        }
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
        let before = self.named.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(wrong)? {
            let added = self.named.add(certificate.map_err(wrong)?);
            added.map_err(|source| TlsError::Unusable {
                path: path.to_owned(),
                source,
            })?;
        }
        match self.named.len() == before {
            true => Err(wrong(pem::Error::NoItemsFound)),
            false => Ok(self),
        }
    }

    /// And the development CA, which vouches for nobody but this machine.
    ///
    /// # Errors
    /// If its certificate cannot be used.
    pub fn with_development(mut self, ca: &DevelopmentCa) -> Result<Self, TlsError> {
        self.named.add(ca.certificate().clone())?;
        Ok(self)
    }

    /// What checks the certificates of servers.
    pub(super) fn into_verifier(
        self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
        match self.with_system {
            true => Ok(Arc::new(WithSystem {
                named: self.named,
                provider: Arc::clone(provider),
                verifier: OnceLock::new(),
            })),
            false => Ok(verifier(self.named, provider)?),
        }
    }
}

fn verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    // With no list of what is revoked this is the one thing that can be missing.
    builder.build().map_err(|_| TlsError::NoRoots)
}

/// rustls' own check, made when it is first needed.
#[derive(Debug)]
struct WithSystem {
    named: RootCertStore,
    provider: Arc<CryptoProvider>,
    verifier: OnceLock<Result<Arc<WebPkiServerVerifier>, Error>>,
}

impl WithSystem {
    fn verifier(&self) -> Result<&WebPkiServerVerifier, Error> {
        let made = self.verifier.get_or_init(|| {
            let mut roots = self.named.clone();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            verifier(roots, &self.provider)
                .map_err(|error| Error::Other(OtherError(Arc::new(error))))
        });
        made.as_deref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for WithSystem {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.verifier()?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.verifier()?;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.verifier()?;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
