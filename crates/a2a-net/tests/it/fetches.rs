//! Fetches: where they go, and what counts as an answer, over real TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a_identity::{Answer as Fetched, Document};
use a2a_net::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::interval;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Threats 75 and 76: names and their addresses, and who was connected to.
#[derive(Clone, Default)]
struct Net {
    addresses: Arc<Mutex<Vec<Vec<IpAddr>>>>,
    connected: Arc<Mutex<Vec<SocketAddr>>>,
    /// Where connections really go.
    to: Option<SocketAddr>,
}

impl Names for Net {
    fn addresses<'a>(&'a self, _: &'a str) -> Addresses<'a> {
        Box::pin(async {
            let mut answers = self.addresses.lock().unwrap();
            // The last answer is given again and again.
            Ok(match answers.len() {
                0 => Vec::new(),
                1 => answers[0].clone(),
                _ => answers.remove(0),
            })
        })
    }
}

impl Dial for Net {
    fn connect(&self, address: SocketAddr) -> Connecting<'_> {
        self.connected.lock().unwrap().push(address);
        let to = self.to;
        Box::pin(async move {
            match to {
                Some(to) => TcpStream::connect(to).await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn tls_for(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Net {
    fn answering(answers: &[&[&str]]) -> Self {
        let net = Self::default();
        *net.addresses.lock().unwrap() = answers.iter().map(|it| ips(it)).collect();
        net
    }

    fn web(&self, reach: Reach) -> Web {
        Web::new(
            Guard::new(reach, self.clone()),
            self.clone(),
            &tls_for(RootCertStore::empty()),
        )
    }

    fn connected(&self) -> Vec<SocketAddr> {
        self.connected.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn threat_75_nothing_inside_is_connected_to() {
    for (url, addresses) in [
        ("https://a.example.com/x", "127.0.0.1"),
        ("https://a.example.com/x", "10.1.2.3"),
        ("https://a.example.com/x", "169.254.169.254"),
        ("https://a.example.com/x", "fd00::1"),
        ("https://a.example.com/x", "::ffff:8.8.8.8"),
        ("https://a.example.com/x", "64:ff9b::808:808"),
        ("https://127.0.0.1/x", "8.8.8.8"),
        ("https://localhost/x", "8.8.8.8"),
        ("https://169.254.169.254/x", "8.8.8.8"),
        ("https://2130706433/x", "8.8.8.8"),
        ("https://0177.0.0.1/x", "8.8.8.8"),
        ("https://[::1]/x", "8.8.8.8"),
        ("https://user@a.example.com/x", "8.8.8.8"),
        ("https://a.example.com./x", "8.8.8.8"),
        ("https://a.example.com:22/x", "8.8.8.8"),
        ("http://a.example.com/x", "8.8.8.8"),
        ("wss://a.example.com/x", "8.8.8.8"),
    ] {
        let net = Net::answering(&[&[addresses]]);
        let answer = net
            .web(Reach::default())
            .fetch(url, Document::DidDocument)
            .await;
        assert_eq!(answer, Fetched::Refused, "{url} at {addresses}");
        assert!(net.connected().is_empty(), "{url} at {addresses}");
    }
    // A name that is nowhere looks the same.
    let net = Net::answering(&[&[]]);
    let answer = net
        .web(Reach::default())
        .fetch("https://a.example.com/", Document::DidDocument)
        .await;
    assert_eq!(answer, Fetched::Refused);
}

#[tokio::test]
async fn threat_76_exactly_the_checked_address() {
    let net = Net::answering(&[&["93.184.216.34"], &["127.0.0.1"]]);
    let web = net.web(Reach::default());
    let url = "https://a.example.com/.well-known/did.json";
    assert_eq!(
        web.fetch(url, Document::DidDocument).await,
        Fetched::Unreachable
    );
    assert_eq!(net.connected(), ["93.184.216.34:443".parse().unwrap()]);
    // The second time the name leads inside.
    assert_eq!(
        web.fetch(url, Document::DidDocument).await,
        Fetched::Refused
    );
    let mixed = Net::answering(&[&["93.184.216.34", "10.0.0.1"]]);
    let answer = mixed
        .web(Reach::default())
        .fetch(url, Document::DidDocument)
        .await;
    assert_eq!((answer, mixed.connected()), (Fetched::Refused, Vec::new()));
}

#[tokio::test]
async fn this_machine_only_in_development_mode() {
    let reach = Reach {
        loopback: Loopback::Allowed,
        ..Reach::default()
    };
    let net = Net::answering(&[&["127.0.0.1"]]);
    let web = net.web(reach);
    for url in [
        "https://127.0.0.1:8443/x",
        "https://localhost:9000/x",
        "https://[::1]:1/x",
    ] {
        assert_eq!(
            web.fetch(url, Document::Manifest).await,
            Fetched::Unreachable,
            "{url}"
        );
    }
    assert_eq!(net.connected().len(), 3);
    // And nothing else that is private.
    assert_eq!(
        web.fetch("https://10.0.0.1:8443/x", Document::Manifest)
            .await,
        Fetched::Refused
    );
    assert_eq!(net.connected().len(), 3);
    let allowed = Reach {
        hosts: ["10.0.0.1".to_owned()].into(),
        ..Reach::default()
    };
    let net = Net::answering(&[]);
    let answer = net
        .web(allowed)
        .fetch("https://10.0.0.1:8443/x", Document::Manifest)
        .await;
    assert_eq!(answer, Fetched::Unreachable);
    assert_eq!(net.connected(), ["10.0.0.1:8443".parse().unwrap()]);
}

/// A host that answers every request with this text, over TLS.
pub(crate) struct Host {
    net: Net,
    roots: RootCertStore,
    asked: Arc<Mutex<Vec<String>>>,
    /// Is told of every request.
    pub(crate) heard: Arc<Notify>,
}

/// What a host does when it has answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It ends the connection: an answer that does not say its length ends with it.
    End,
    /// It goes on for ever, with a space a second.
    Drip,
}

impl Host {
    pub(crate) async fn answering(text: Vec<u8>) -> Self {
        Self::doing(text, Then::End).await
    }

    pub(crate) async fn doing(text: Vec<u8>, then: Then) -> Self {
        let made = rcgen::generate_simple_self_signed([
            "a.example.com".to_owned(),
            "api.github.com".to_owned(),
            "raw.githubusercontent.com".to_owned(),
        ])
        .unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let mut net = Net::answering(&[&["93.184.216.34"]]);
        net.to = Some(listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&asked);
        let heard = Arc::new(Notify::new());
        let tell = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let (text, said, tell) = (text.clone(), Arc::clone(&said), Arc::clone(&tell));
                tokio::spawn(async move {
                    let mut head = vec![0; 4096];
                    let read = stream.read(&mut head).await.unwrap_or_default();
                    said.lock()
                        .unwrap()
                        .push(String::from_utf8_lossy(&head[..read]).into_owned());
                    let _ = stream.write_all(&text).await;
                    tell.notify_one();
                    if then == Then::End {
                        let _ = stream.shutdown().await;
                        return;
                    }
                    let mut seconds = interval(Duration::from_secs(1));
                    loop {
                        seconds.tick().await;
                        let dripped = stream.write_all(b" ").await;
                        if dripped.is_err() || stream.flush().await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self {
            net,
            roots,
            asked,
            heard,
        }
    }

    pub(crate) fn web(&self) -> Web {
        let guard = Guard::new(Reach::default(), self.net.clone());
        Web::new(guard, self.net.clone(), &tls_for(self.roots.clone()))
    }
}

pub(crate) fn http(head: &str, body: &[u8]) -> Vec<u8> {
    let mut text =
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    text.extend_from_slice(body);
    text
}

const URL: &str = "https://a.example.com/.well-known/did.json";

/// Threats 77 and 80, over real TLS.
#[tokio::test]
async fn threats_77_80_answers_that_are_none() {
    let json = "200 OK\r\nContent-Type: application/json";
    let limit = Document::DidDocument.limit();
    for (text, expected) in [
        (http(json, b"{}"), Fetched::Body(b"{}".to_vec())),
        (
            http(
                "200 OK\r\nContent-Type: application/did+json; charset=utf-8",
                b"{}",
            ),
            Fetched::Body(b"{}".to_vec()),
        ),
        (
            http(json, &vec![b' '; limit]),
            Fetched::Body(vec![b' '; limit]),
        ),
        (http(json, &vec![b' '; limit + 1]), Fetched::Refused),
        (
            http("200 OK\r\nContent-Type: text/html", b"{}"),
            Fetched::Refused,
        ),
        (
            http("200 OK\r\nContent-Type: text/plain", b"{}"),
            Fetched::Refused,
        ),
        (http("200 OK", b"{}"), Fetched::Refused),
        (
            http(
                "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip",
                b"{}",
            ),
            Fetched::Refused,
        ),
        (
            http("301 Moved Permanently\r\nLocation: https://10.0.0.1/", b""),
            Fetched::Redirect,
        ),
        (
            http("302 Found\r\nLocation: https://b.example.com/", b""),
            Fetched::Redirect,
        ),
        (
            http("307 Temporary Redirect\r\nLocation: /elsewhere", b""),
            Fetched::Redirect,
        ),
        (http("404 Not Found", b""), Fetched::Status(404)),
        (http("500 Oops", b""), Fetched::Status(500)),
        (b"nonsense\r\n\r\n".to_vec(), Fetched::Unreachable),
    ] {
        let host = Host::answering(text.clone()).await;
        let shown = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        assert_eq!(
            host.web().fetch(URL, Document::DidDocument).await,
            expected,
            "{shown}"
        );
        assert_eq!(host.net.connected().len(), 1, "{shown}");
    }
    let plain = http("200 OK\r\nContent-Type: text/plain", b"{}");
    let host = Host::answering(plain).await;
    assert_eq!(
        host.web().fetch(URL, Document::RawManifest).await,
        Fetched::Body(b"{}".to_vec())
    );
}

/// Threat 123, for fetches: whoever answers must have the name.
#[tokio::test]
async fn fetches_go_to_trusted_hosts_alone() {
    let host = Host::answering(http("200 OK\r\nContent-Type: application/json", b"{}")).await;
    let stranger = host.net.web(Reach::default());
    assert_eq!(
        stranger.fetch(URL, Document::DidDocument).await,
        Fetched::Untrusted
    );
    let other = "https://b.example.com/.well-known/did.json";
    assert_eq!(
        host.web().fetch(other, Document::DidDocument).await,
        Fetched::Untrusted
    );
    assert!(host.asked.lock().unwrap().is_empty());
}

/// Threat 81: the token goes to the API, and to nobody else.
#[tokio::test]
async fn threat_81_the_token_goes_to_the_api_alone() {
    let host = Host::answering(http("200 OK\r\nContent-Type: application/json", b"{}")).await;
    let web = host.web().with_github_token("s3cret");
    for (url, what) in [
        ("https://api.github.com/repos/a/b", Document::Ownership),
        (
            "https://raw.githubusercontent.com/a/b/main/x.json",
            Document::RawManifest,
        ),
        (URL, Document::DidDocument),
        (URL, Document::Manifest),
    ] {
        assert!(matches!(web.fetch(url, what).await, Fetched::Body(_)));
    }
    let asked = host.asked.lock().unwrap().clone();
    let has_token: Vec<bool> = asked.iter().map(|it| it.contains("s3cret")).collect();
    assert_eq!(has_token, [true, false, false, false]);
    assert!(asked[2].contains("host: a.example.com\r\n"), "{}", asked[2]);
}
