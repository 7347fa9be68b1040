//! The development CA: whom it vouches for, and who can use it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use a2a_net::tls::DevelopmentCa;
use a2a_net::transport::Carrier;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use tokio::net::TcpListener;

use crate::echo::{Server, ask, request};
use crate::secure::{Authority, any_name, hello, names};

#[tokio::test]
async fn the_development_ca_is_one_for_all_nodes_of_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frith/ca");
    let one = DevelopmentCa::open(&path).unwrap();
    let two = DevelopmentCa::open(&path).unwrap();
    assert_eq!(one.certificate(), two.certificate());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    assert_eq!(mode(&path.join("ca.key")), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    let text = DevelopmentCa::open(&path).unwrap_err().to_string();
    assert!(text.contains("chmod 700"), "{text}");
    // What one of them issued, the other vouches for.
    let server = Server::start().await;
    let courier = server.courier(Carrier::Http2);
    ask(&courier, &request("r1", "echo")).await;
}

#[tokio::test]
async fn the_development_ca_vouches_for_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let ca = DevelopmentCa::open(folder.path().join("ca")).unwrap();
    let key = std::fs::read_to_string(folder.path().join("ca/ca.key")).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let mut subject = rcgen::DistinguishedName::new();
    subject.push(rcgen::DnType::CommonName, "Frith development CA");
    params.distinguished_name = subject;
    let stolen = Authority {
        key: KeyPair::from_pem(&key).unwrap(),
        params,
    };
    for (names_of, host, is_trusted) in [
        (&["localhost"][..], "localhost", true),
        (&["agent.example"], "agent.example", false),
        (&["localhost", "agent.example"], "localhost", false),
        (&["192.0.2.1"], "192.0.2.1", false),
    ] {
        let (certificate, key) = stolen.issue(&names(names_of));
        let acceptor = any_name(&certificate, &key);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            acceptor.accept(stream).await.is_ok()
        });
        let failed = hello(address, host, &ca.file()).await;
        assert!(failed.is_err());
        assert_eq!(accepted.await.unwrap(), is_trusted, "{names_of:?}");
    }
}
