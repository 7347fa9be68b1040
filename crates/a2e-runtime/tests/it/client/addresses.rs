//! Every kind of address, to a host that is there.

use std::sync::Arc;
use std::time::Duration;

use a2e_runtime::{
    Address, AgentConfig, ClientError, Connector, Dial, Host, RawLink, Roots, Source,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ServerConfig, SupportedProtocolVersion};

use crate::support::{TOKEN, demo};

async fn connect(address: Address) -> Result<(), ClientError> {
    let config = AgentConfig {
        auth_token: TOKEN.into(),
        wanted: vec!["tools".into()],
        ..AgentConfig::default()
    };
    let client = Connector::new(address).agent(config).connect().await?;
    client.ping().await?;
    client.disconnect(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::test]
async fn sockets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let host: Host = demo().build();
    let unix = host.clone();
    tokio::spawn(async move {
        unix.serve(listener.accept().await.unwrap().0, Source::Own)
            .await
    });
    connect(format!("unix:{}", path.display()).parse().unwrap())
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        host.serve(listener.accept().await.unwrap().0, Source::Own)
            .await
    });
    connect(address.parse().unwrap()).await.unwrap();
}

/// What accepts TLS with a certificate of its own, and the certificate.
fn acceptor(version: &'static SupportedProtocolVersion) -> (TlsAcceptor, Vec<u8>) {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let pem = certified.cert.pem().into_bytes();
    (TlsAcceptor::from(Arc::new(config)), pem)
}

/// A host with a certificate of its own; returns its address and the certificate.
async fn tls_host(version: &'static SupportedProtocolVersion) -> (Address, Vec<u8>) {
    let (acceptor, pem) = acceptor(version);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tls:localhost:{}", listener.local_addr().unwrap().port());
    let host = demo().build();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if let Ok(stream) = acceptor.accept(stream).await {
                let host = host.clone();
                tokio::spawn(async move { host.serve(stream, Source::Own).await });
            }
        }
    });
    (address.parse().unwrap(), pem)
}

#[tokio::test]
async fn tls() {
    let (address, pem) = tls_host(&TLS13).await;
    let roots = Roots::from_pem(&pem).unwrap();
    connect(address.clone().trusting(roots)).await.unwrap();
    // Another authority does not vouch for it.
    let (_, other) = tls_host(&TLS13).await;
    let stranger = address.trusting(Roots::from_pem(&other).unwrap());
    assert!(matches!(
        connect(stranger).await,
        Err(ClientError::Unreachable(_))
    ));
    assert!(Roots::from_pem(b"no certificate").is_err());
}

/// The crate that TLS comes from can speak 1.2 too; we must not.
#[tokio::test]
async fn no_tls_before_1_3() {
    let (address, pem) = tls_host(&TLS12).await;
    let roots = Roots::from_pem(&pem).unwrap();
    let outcome = connect(address.trusting(roots)).await;
    assert!(
        matches!(outcome, Err(ClientError::Unreachable(_))),
        "{outcome:?}"
    );
}

/// A host that does not stop by itself, and has a child that does not either: both are ended.
#[tokio::test]
async fn a_child_that_does_not_stop() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("host.sh");
    let pids = folder.path().join("pids");
    let text = format!(
        r#"trap '' TERM
sleep 1000 &
echo $$ $! > {}
read line
head -c 300000 /dev/zero 1>&2
echo '{{"type":"handshake/resp","session_id":"S"}}'
while :; do wait; done
"#,
        pids.display()
    );
    std::fs::write(&script, text).unwrap();
    let address: Address = format!("cmd:sh {}", script.display()).parse().unwrap();
    let client = Connector::new(address).connect().await.unwrap();
    let started = std::fs::read_to_string(&pids).unwrap();
    tokio::time::pause();
    client.disconnect(Duration::from_secs(1)).await;
    for pid in started.split_whitespace() {
        // A killed process takes a moment to be gone.
        while is_running(pid) {
            std::thread::yield_now();
        }
    }
}

fn is_running(pid: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    state.is_ok_and(|state| !state.contains(") Z "))
}

#[tokio::test]
async fn a_host_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    for address in [
        format!("tcp:{free}"),
        format!("http://{free}"),
        format!("ws://{free}"),
    ] {
        let outcome = connect(address.parse().unwrap()).await;
        assert!(
            matches!(outcome, Err(ClientError::Unreachable(_))),
            "{outcome:?}"
        );
    }
    let outcome = connect("cmd:/nonexistent".parse().unwrap()).await;
    assert!(
        matches!(outcome, Err(ClientError::Unreachable(_))),
        "{outcome:?}"
    );
}

/// A host that accepts connections and sends nothing is given up on, whatever the scheme.
#[tokio::test]
async fn silent_hosts_time_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut streams = Vec::new();
    let schemes = [
        "tls:localhost",
        "ws://localhost",
        "wss://localhost",
        "http://localhost",
    ];
    for scheme in schemes {
        let address: Address = format!("{scheme}:{port}").parse().unwrap();
        let dialing = tokio::spawn(Arc::new(address).dial_in_time());
        streams.push(listener.accept().await.unwrap());
        tokio::time::pause();
        let Err(error) = dialing.await.unwrap() else {
            panic!("{scheme}");
        };
        tokio::time::resume();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut, "{scheme}");
    }
}

/// Over HTTP a message may need a connection of its own. If the host does not take that, the link
/// breaks after a while, and the session can be resumed over another one.
#[tokio::test]
async fn a_link_breaks_if_the_host_takes_no_messages() {
    let (acceptor, pem) = acceptor(&TLS13);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let address: Address = format!("https://localhost:{port}").parse().unwrap();
    let address = address.trusting(Roots::from_pem(&pem).unwrap());
    let dialing = tokio::spawn(Arc::new(address).dial_in_time());
    let session = r#"{"session_id":"s"}"#;
    let mut streams = Vec::new();
    for answer in [
        format!(
            "connection: close\r\ncontent-length: {}\r\n\r\n{session}",
            session.len()
        ),
        "content-type: text/event-stream\r\n\r\n".to_owned(),
    ] {
        let stream = listener.accept().await.unwrap().0;
        let mut stream = BufReader::new(acceptor.accept(stream).await.unwrap());
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
        }
        let answer = format!("HTTP/1.1 200 OK\r\n{answer}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        streams.push(stream);
    }
    let mut link = RawLink::new(dialing.await.unwrap().unwrap());
    link.push(b"{}");
    let next = tokio::spawn(async move { link.next().await });
    let _silent = listener.accept().await.unwrap();
    tokio::time::pause();
    let outcome = tokio::time::timeout(Duration::from_secs(600), next).await;
    let error = outcome.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
}
