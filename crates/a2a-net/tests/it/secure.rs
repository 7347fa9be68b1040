//! TLS: with whom one speaks at all.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use a2a_net::courier::{Pool, Reach, Remote};
use a2a_net::listen::{Exposure, ListenError, Listeners};
use a2a_net::tls::{Certificate, ClientTls, DevelopmentCa, Roots};
use a2a_net::transport::{Carrier, CarryError, Courier, Place, Reply};
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{
    AlertDescription, ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig,
    SupportedProtocolVersion,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use crate::echo::Server;

/// An authority of the tests.
pub(crate) struct Authority {
    pub(crate) key: KeyPair,
    pub(crate) params: CertificateParams,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { key, params }
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.params.self_signed(&self.key).unwrap().der().clone()
    }

    pub(crate) fn pem(&self) -> String {
        self.params.self_signed(&self.key).unwrap().pem()
    }

    /// A certificate and its key, in PEM.
    pub(crate) fn issue(&self, params: &CertificateParams) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

pub(crate) fn names(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

pub(crate) fn write(folder: &Path, (certificate, key): &(String, String)) {
    std::fs::write(folder.join("cert.pem"), certificate).unwrap();
    std::fs::write(folder.join("key.pem"), key).unwrap();
}

pub(crate) fn from_files(folder: &Path) -> Arc<Certificate> {
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    Arc::new(Certificate::from_files(certificate, key).unwrap())
}

/// A server that others can reach, with this certificate.
pub(crate) async fn public(
    certificate: &Arc<Certificate>,
) -> (Server, SocketAddr, CancellationToken) {
    let server = Server::start().await;
    let listeners = Listeners::bind(&["0.0.0.0:0".parse().unwrap()])
        .await
        .unwrap();
    assert_eq!(listeners.exposure(), Exposure::Public);
    let port = listeners.addresses()[0].port();
    let stop = server.serve(listeners, certificate);
    (server, (Ipv4Addr::LOCALHOST, port).into(), stop)
}

/// A client of our own making.
async fn shake(
    address: SocketAddr,
    name: &str,
    root: CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
    alpn: &[&[u8]],
) -> Result<TlsStream<TcpStream>, Option<Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connected = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await;
    // In TLS 1.3 a client is done before the server is.
    let mut stream = connected.map_err(|error| {
        let inner = error.into_inner();
        inner.and_then(|error| error.downcast::<Error>().ok().map(|error| *error))
    })?;
    let is_http1 = stream.get_ref().1.alpn_protocol() != Some(b"h2");
    if is_http1 {
        let get = b"GET /.well-known/did.json HTTP/1.1\r\nConnection: close\r\n\r\n";
        stream.write_all(get).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer).await;
        read.map_err(|error| {
            let inner = error.into_inner();
            inner.and_then(|error| error.downcast::<Error>().ok().map(|error| *error))
        })?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    Ok(stream)
}

fn alert(shaken: Result<TlsStream<TcpStream>, Option<Error>>) -> AlertDescription {
    match shaken {
        Err(Some(Error::AlertReceived(alert))) => alert,
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("it was let in"),
    }
}

/// Proves A-3-1, A-9-2, A-9-11.
#[tokio::test]
async fn threat_119_a_client_of_tls_1_2_gets_an_alert() {
    let server = Server::start().await;
    let root = server.ca.certificate().clone();
    let old = shake(server.address, "localhost", root, &TLS12, &[]).await;
    assert_eq!(alert(old), AlertDescription::ProtocolVersion);
    assert!(server.echo.arrived.lock().unwrap().is_empty());
}

/// Proves A-3-1, A-9-2, A-9-11.
#[tokio::test]
async fn threat_119_a_server_of_tls_1_2_gets_nothing() {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::from_params(&authority.params, &authority.key);
    let certificate = names(&["localhost"]).signed_by(&key, &issuer).unwrap();
    let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], secret)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let accepted = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config))
            .accept(stream)
            .await
            .is_ok()
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
    let failed = hello(address, "localhost", &folder.path().join("ca.pem")).await;
    assert!(matches!(failed, Err(CarryError::Tls(_))), "{failed:?}");
    assert!(!accepted.await.unwrap(), "they shook hands");
}

/// Says hello as a client that trusts this file.
pub(crate) async fn hello(
    address: SocketAddr,
    host: &str,
    roots: &Path,
) -> Result<Reply, CarryError> {
    let roots = Roots::none().with_file(roots).unwrap();
    let tls = ClientTls::new(roots).unwrap();
    let pool = Pool::new(tls, &Remote::new(host, address), Reach::default()).unwrap();
    let message = Bytes::from_static(br#"{"type":"hello"}"#);
    let courier = pool.courier(Carrier::Http2);
    courier.send(Place::Handshake, None, message).await
}

#[tokio::test]
async fn threat_120_names_that_are_missing_or_unknown_get_an_alert() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ours = names(&["agent.example", "127.0.0.1"]);
    write(folder.path(), &authority.issue(&ours));
    let (_server, address, _stop) = public(&from_files(folder.path())).await;
    let root = || authority.certificate();
    assert!(
        shake(address, "agent.example", root(), &TLS13, &[])
            .await
            .is_ok()
    );
    // An address is no name, so it is not said.
    for name in ["127.0.0.1", "other.example", "agent.example.org"] {
        let shaken = shake(address, name, root(), &TLS13, &[]).await;
        assert_eq!(alert(shaken), AlertDescription::AccessDenied, "{name}");
    }
    // In development mode a name may be missing, but not be another.
    let server = Server::start().await;
    let root = || server.ca.certificate().clone();
    for name in ["127.0.0.1", "localhost"] {
        assert!(
            shake(server.address, name, root(), &TLS13, &[])
                .await
                .is_ok(),
            "{name}"
        );
    }
    let shaken = shake(server.address, "other.example", root(), &TLS13, &[]).await;
    assert_eq!(alert(shaken), AlertDescription::AccessDenied);
}

#[tokio::test]
async fn threat_120_protocols_without_a_match_get_an_alert() {
    let server = Server::start().await;
    let root = || server.ca.certificate().clone();
    for (offered, chosen) in [
        (&[][..], None),
        (&[&b"http/1.1"[..]], Some(&b"http/1.1"[..])),
        (&[b"h2"], Some(b"h2")),
        (&[b"http/1.1", b"h2"], Some(b"h2")),
    ] {
        let stream = shake(server.address, "localhost", root(), &TLS13, offered).await;
        assert_eq!(stream.unwrap().get_ref().1.alpn_protocol(), chosen);
    }
    let shaken = shake(server.address, "localhost", root(), &TLS13, &[b"http/1.0"]).await;
    assert_eq!(alert(shaken), AlertDescription::NoApplicationProtocol);
}

#[tokio::test]
async fn threat_121_early_data_is_not_offered() {
    let server = Server::start().await;
    let mut roots = RootCertStore::empty();
    roots.add(server.ca.certificate().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.enable_early_data = true;
    let config = Arc::new(config);
    let connector = TlsConnector::from(Arc::clone(&config));
    let mut resumed = Vec::new();
    for _ in 0..2 {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, stream).await.unwrap();
        let message = b"POST /a2a/handshake HTTP/1.1\r\nContent-Type: application/json\r\n\
            Content-Length: 2\r\nConnection: close\r\n\r\n{}";
        stream.write_all(message).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = String::new();
        // Reading the answer takes in the tickets for the next connection.
        stream.read_to_string(&mut answer).await.unwrap();
        let tls = stream.get_ref().1;
        resumed.push(format!("{:?}", tls.handshake_kind().unwrap()));
    }
    assert_eq!(resumed, ["Full", "Resumed"]);
    // With what lets it resume, a client that wants to send early data may not.
    let name = ServerName::try_from("localhost").unwrap();
    let mut next = ClientConnection::new(config, name).unwrap();
    assert!(next.early_data().is_none());
}

/// Proves A-1-3, A-3-2.
#[tokio::test]
async fn threat_122_nothing_but_a_real_certificate_outside_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevelopmentCa::open(folder.path().join("ca")).unwrap();
    let certificate = Arc::new(ca.issue().unwrap());
    let both = ["127.0.0.1:0".parse().unwrap(), "0.0.0.0:0".parse().unwrap()];
    let listeners = Listeners::bind(&both).await.unwrap();
    let refused = listeners.tls(&certificate).unwrap_err();
    assert!(matches!(refused, ListenError::Development(address) if address.ip().is_unspecified()));
    assert!(refused.to_string().contains("`a2a.tls`"), "{refused}");
    let both = [
        "127.0.0.1:0".parse().unwrap(),
        "127.0.0.2:0".parse().unwrap(),
    ];
    assert!(
        Listeners::bind(&both)
            .await
            .unwrap()
            .tls(&certificate)
            .is_ok()
    );
}

pub(crate) fn any_name(certificate: &str, key: &str) -> TlsAcceptor {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}
