//! TLS 1.3 as the product speaks it, with a certificate that is made for one run and thrown away.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

/// HTTP/2 in the handshake of TLS.
pub const H2: &str = "h2";
/// HTTP/1.1 in the handshake of TLS.
pub const HTTP_1_1: &str = "http/1.1";

const CERTIFICATE: &str = "cert.pem";
const KEY: &str = "key.pem";

/// Makes a certificate for this machine in a folder, for every server of a run.
pub fn make(folder: &Path) -> io::Result<()> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let names = ["localhost", "127.0.0.1"].map(String::from);
    let params = CertificateParams::new(names).map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    fs::write(folder.join(CERTIFICATE), certificate.pem())?;
    fs::write(folder.join(KEY), key.serialize_pem())
}

/// The certificate, for a client that reads PEM itself.
pub fn certificate(folder: &Path) -> io::Result<Vec<u8>> {
    fs::read(folder.join(CERTIFICATE))
}

/// A listener of axum that speaks TLS.
pub struct Listener {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl Listener {
    /// Listens on a free port of this machine, with the certificate of a folder.
    pub async fn bind(folder: &Path) -> io::Result<Self> {
        let certificate = CertificateDer::from_pem_file(folder.join(CERTIFICATE));
        let certificate = certificate.map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_file(folder.join(KEY)).map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![H2.into(), HTTP_1_1.into()];
        Ok(Self {
            tcp: TcpListener::bind("127.0.0.1:0").await?,
            tls: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

impl axum::serve::Listener for Listener {
    type Io = server::TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let Ok((stream, address)) = self.tcp.accept().await else {
                continue;
            };
            let _ = stream.set_nodelay(true);
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Connects to a server of this run.
pub struct Dialer {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Dialer {
    /// To this address, asking for this protocol.
    pub fn new(folder: &Path, address: SocketAddr, protocol: &str) -> io::Result<Self> {
        let certificate = CertificateDer::from_pem_file(folder.join(CERTIFICATE));
        let mut roots = RootCertStore::empty();
        roots
            .add(certificate.map_err(io::Error::other)?)
            .map_err(io::Error::other)?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        Ok(Self {
            address,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Where it connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub async fn dial(&self) -> io::Result<client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        self.tls.connect(name, stream).await
    }
}
