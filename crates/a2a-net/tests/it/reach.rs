//! What a courier makes of servers that are not ours, and of places where nobody is.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use a2a_net::courier::{Pool, Reach, Remote};
use a2a_net::listen::Limits;
use a2a_net::transport::{Carrier, CarryError, Courier, Place, Reply};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::sync::CancellationToken;

use crate::echo::{Server, ask, request};

/// A connection to a server that speaks what is said.
pub(crate) async fn dial(server: &Server, alpn: &[u8]) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(server.address).await.unwrap();
    secured(server, alpn, stream).await.unwrap()
}

pub(crate) async fn secured(
    server: &Server,
    alpn: &[u8],
    stream: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(server.ca.certificate().clone()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// A server that answers every request with this, and what trusts it.
struct Odd {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    roots: tempfile::NamedTempFile,
}

impl Odd {
    async fn start(
        status: u16,
        headers: &'static [(&'static str, &'static str)],
        body: &'static [u8],
    ) -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let stream = acceptor.accept(stream).await.unwrap();
                let counted = Arc::clone(&counted);
                let service = service_fn(move |_: Request<Incoming>| {
                    counted.fetch_add(1, SeqCst);
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(*name, *value);
                    }
                    let response = response.body(Full::new(Bytes::from_static(body))).unwrap();
                    async move { Ok::<_, Infallible>(response) }
                });
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let stream = TokioIo::new(stream);
                match is_http2 {
                    true => {
                        let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        tokio::spawn(http2.serve_connection(stream, service));
                    }
                    false => {
                        let http1 = hyper::server::conn::http1::Builder::new();
                        tokio::spawn(http1.serve_connection(stream, service));
                    }
                }
            }
        });
        let roots = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(roots.path(), certificate.pem()).unwrap();
        Self {
            address,
            requests,
            roots,
        }
    }

    async fn ask(&self, carrier: Carrier) -> Result<Reply, CarryError> {
        let roots = a2a_net::tls::Roots::none()
            .with_file(self.roots.path())
            .unwrap();
        let tls = a2a_net::tls::ClientTls::new(roots).unwrap();
        let remote = Remote::new("localhost", self.address);
        let pool = Pool::new(tls, &remote, Reach::default()).unwrap();
        let message = Bytes::from(request("r1", "echo").to_string());
        pool.courier(carrier)
            .send(Place::Request, None, message)
            .await
    }
}

#[tokio::test]
async fn threat_128_redirects_are_not_followed() {
    for status in [301, 302, 303, 307, 308] {
        let headers = &[
            ("location", "https://localhost/elsewhere"),
            ("content-type", "application/json"),
        ];
        let odd = Odd::start(status, headers, b"{}").await;
        for (number, carrier) in Carrier::ALL.into_iter().enumerate() {
            let failed = odd.ask(carrier).await;
            let is_refused = match carrier {
                Carrier::WebSocket => matches!(failed, Err(CarryError::Connect(_))),
                Carrier::Http1 | Carrier::Http2 | Carrier::Grpc => {
                    matches!(failed, Err(CarryError::Foreign(_)))
                }
            };
            assert!(is_refused, "{carrier:?}: {failed:?}");
            assert_eq!(odd.requests.load(SeqCst), number + 1);
        }
    }
}

#[tokio::test]
async fn status_of_a_proxy_is_an_answer_without_a_message() {
    for status in [429, 502, 503, 504] {
        let headers = &[("content-type", "text/html"), ("retry-after", "7")];
        let odd = Odd::start(status, headers, b"<html>try later</html>").await;
        for carrier in [Carrier::Http1, Carrier::Http2, Carrier::Grpc] {
            let answer = odd.ask(carrier).await.unwrap();
            let expected = Reply::Message {
                message: Bytes::new(),
                status,
                retry_after: Some(7),
            };
            assert_eq!(
                format!("{answer:?}"),
                format!("{expected:?}"),
                "{carrier:?}"
            );
        }
    }
}

#[tokio::test]
async fn answers_of_other_kinds_are_refused() {
    for (status, headers, body) in [
        (200, &[("content-type", "text/html")][..], &b"<html>"[..]),
        (200, &[], b"{}"),
        (500, &[("content-type", "text/plain")], b"broken"),
        (
            200,
            &[
                ("content-type", "application/json"),
                ("content-encoding", "gzip"),
            ],
            b"{}",
        ),
    ] {
        let odd = Odd::start(status, headers, body).await;
        for carrier in [Carrier::Http1, Carrier::Http2, Carrier::Grpc] {
            let failed = odd.ask(carrier).await;
            assert!(
                matches!(failed, Err(CarryError::Foreign(_))),
                "{carrier:?}: {failed:?}"
            );
        }
    }
    // A call of gRPC that ends without saying how it went.
    let headers = &[("content-type", "application/grpc")];
    let odd = Odd::start(200, headers, b"\0\0\0\0\x04\x0a\x02{}").await;
    let failed = odd.ask(Carrier::Grpc).await;
    assert!(matches!(failed, Err(CarryError::Broken)), "{failed:?}");
}

#[tokio::test]
async fn whom_nobody_answers_is_told_that_nothing_left() {
    let server = Server::start().await;
    // Bound and closed: nobody listens there now.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let pool = Pool::new(
        server.tls(),
        &Remote::new("localhost", address),
        Reach::default(),
    )
    .unwrap();
    for carrier in Carrier::ALL {
        let message = Bytes::from(request("r1", "echo").to_string());
        let failed = pool
            .courier(carrier)
            .send(Place::Request, None, message)
            .await;
        let error = failed.unwrap_err();
        assert!(error.never_left(), "{error}");
        assert!(error.to_string().contains("localhost"), "{error}");
    }
    let odd = Remote::new("not a host", address);
    assert!(Pool::new(server.tls(), &odd, Reach::default()).is_err());
    let mut odd = Remote::new("localhost", address);
    odd.request = "no path".into();
    assert!(Pool::new(server.tls(), &odd, Reach::default()).is_err());
}

/// Proves A-3-9, A-3-11.
#[tokio::test]
async fn connections_are_kept_and_shared() {
    let server = Server::start().await;
    for carrier in Carrier::ALL {
        let reach = Reach {
            connections: 2,
            ..Reach::default()
        };
        let courier = server.reaching(reach).courier(carrier);
        let asked = (0..20).map(|number| {
            let courier = courier.clone();
            let message = request(&format!("r{number}"), "echo");
            tokio::spawn(async move { ask(&courier, &message).await["port"].as_u64().unwrap() })
        });
        let mut ports = Vec::new();
        for asked in asked.collect::<Vec<_>>() {
            ports.push(asked.await.unwrap());
        }
        ports.sort_unstable();
        ports.dedup();
        let most = if carrier == Carrier::Http1 { 2 } else { 1 };
        assert!(ports.len() <= most, "{carrier:?}: {ports:?}");
    }
}

#[tokio::test]
async fn a_connection_that_nobody_takes_is_closed() {
    let limits = Limits {
        idle: Duration::from_secs(3600),
        ..Limits::default()
    };
    let server = Server::with(limits).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let reach = Reach {
        keep: Duration::from_millis(10),
        ..Reach::default()
    };
    let pool = Pool::new(server.tls(), &Remote::new("localhost", address), reach).unwrap();
    let passing = async {
        let (mut here, _) = listener.accept().await.unwrap();
        let mut there = TcpStream::connect(server.address).await.unwrap();
        tokio::io::copy_bidirectional(&mut here, &mut there).await
    };
    let asking = async {
        let courier = pool.courier(Carrier::Http1);
        ask(&courier, &request("r1", "echo")).await
    };
    // The server would wait for longer than any test, and all of its clients are still there.
    let (passed, _) = tokio::join!(passing, asking);
    passed.unwrap();
}

/// Nobody takes what came of a stream for all of it, or for something that the peer did.
#[tokio::test]
async fn a_stream_that_breaks_says_so() {
    for carrier in Carrier::ALL {
        let server = Server::start().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let remote = Remote::new("localhost", listener.local_addr().unwrap());
        let pool = Pool::new(server.tls(), &remote, Reach::default()).unwrap();
        let cut = CancellationToken::new();
        let passing = async {
            let (mut here, _) = listener.accept().await.unwrap();
            let mut there = TcpStream::connect(server.address).await.unwrap();
            let passing = tokio::io::copy_bidirectional(&mut here, &mut there);
            cut.run_until_cancelled(passing).await;
        };
        let reading = async {
            let mut message = request("r1", "stream");
            message["parts"] = 1_000_000.into();
            let message = Bytes::from(message.to_string());
            let courier = pool.courier(carrier);
            let reply = courier.send(Place::Request, None, message).await.unwrap();
            let Reply::Stream(mut parts) = reply else {
                panic!("{reply:?}");
            };
            parts.recv().await.unwrap().unwrap();
            cut.cancel();
            let mut last = None;
            while let Some(part) = parts.recv().await {
                last = Some(part);
            }
            last
        };
        let ((), last) = tokio::join!(passing, reading);
        assert_eq!(last, Some(Err(CarryError::Broken)), "{carrier:?}");
    }
}

/// Passes everything on to a server; the first connection nothing any more from then on, without a word.
async fn cut_off(to: SocketAddr, silence: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut silences = Some(silence);
        loop {
            let (mut here, _) = listener.accept().await.unwrap();
            let mut there = TcpStream::connect(to).await.unwrap();
            let silence = silences.take().unwrap_or_default();
            tokio::spawn(async move {
                let passing = tokio::io::copy_bidirectional(&mut here, &mut there);
                tokio::select! {
                    _ = passing => {}
                    () = silence.cancelled() => std::future::pending().await,
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn a_connection_that_was_cut_without_a_word_is_replaced() {
    for carrier in [Carrier::Http2, Carrier::Grpc] {
        let server = Server::start().await;
        let silence = CancellationToken::new();
        let address = cut_off(server.address, silence.clone()).await;
        let reach = Reach {
            connect: Duration::from_millis(500),
            ..Reach::default()
        };
        let pool = Pool::new(server.tls(), &Remote::new("localhost", address), reach).unwrap();
        let ask = || async {
            let message = Bytes::from(request("r1", "echo").to_string());
            let courier = pool.courier(carrier);
            let asking = courier.send(Place::Request, None, message);
            let answer = tokio::time::timeout(Duration::from_millis(500), asking).await;
            answer.ok().map(Result::unwrap)
        };
        assert!(ask().await.is_some(), "{carrier:?}");
        silence.cancel();
        assert!(ask().await.is_none(), "{carrier:?}");
        let mut asked = 0;
        while ask().await.is_none() {
            asked += 1;
            assert!(asked < 20, "{carrier:?}");
        }
    }
}
