//! Certificates: whose are believed, and what becomes of files that change.

use a2a_net::tls::{Certificate, ClientTls, Roots};
use a2a_net::transport::CarryError;
use tokio::net::TcpListener;

use crate::secure::{Authority, any_name, from_files, hello, names, public, write};

#[tokio::test]
async fn threat_123_certificates_that_prove_nothing_are_refused_before_hello() {
    let authority = Authority::new();
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let mut expired = names(&["agent.example"]);
    expired.not_before = rcgen::date_time_ymd(2020, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let good = names(&["agent.example"]);
    let cases = [
        ("expired", authority.issue(&expired), "agent.example", false),
        (
            "of another issuer",
            Authority::new().issue(&good),
            "agent.example",
            false,
        ),
        ("good", authority.issue(&good), "agent.example", true),
    ];
    for (what, pem, host, is_good) in cases {
        write(folder.path(), &pem);
        let (server, address, _stop) = public(&from_files(folder.path())).await;
        let said = hello(address, host, &roots).await;
        match is_good {
            true => assert!(said.is_ok(), "{what}: {said:?}"),
            false => assert!(matches!(said, Err(CarryError::Tls(_))), "{what}: {said:?}"),
        }
        assert_eq!(
            server.echo.arrived.lock().unwrap().len(),
            usize::from(is_good)
        );
    }
    // A server that shows its certificate to whoever asks for whatever name.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (certificate, key) = authority.issue(&good);
    let config = any_name(&certificate, &key);
    let accepted = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        config.accept(stream).await.is_ok()
    });
    let said = hello(address, "other.example", &roots).await;
    assert!(matches!(said, Err(CarryError::Tls(_))), "{said:?}");
    assert!(!accepted.await.unwrap());
}

#[tokio::test]
async fn changed_certificates_are_used_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    let (old, new) = (Authority::new(), Authority::new());
    std::fs::write(&roots, format!("{}{}", old.pem(), new.pem())).unwrap();
    let params = |name| names(&["agent.example", name]);
    write(folder.path(), &old.issue(&params("old.example")));
    let certificate = from_files(folder.path());
    let (_server, address, _stop) = public(&certificate).await;
    assert!(!certificate.refresh().unwrap());
    assert!(hello(address, "old.example", &roots).await.is_ok());
    // Half of a change: the key does not go with the certificate.
    let fresh = new.issue(&params("new.example"));
    std::fs::write(folder.path().join("cert.pem"), &fresh.0).unwrap();
    let text = certificate.refresh().unwrap_err().to_string();
    assert!(text.contains("key.pem"), "{text}");
    assert!(!certificate.refresh().unwrap(), "it complains once");
    assert!(hello(address, "old.example", &roots).await.is_ok());
    // All of it.
    write(folder.path(), &fresh);
    assert!(certificate.refresh().unwrap());
    assert!(hello(address, "new.example", &roots).await.is_ok());
    assert!(hello(address, "old.example", &roots).await.is_err());
    std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
    assert!(certificate.refresh().is_err());
    assert!(hello(address, "new.example", &roots).await.is_ok());
}

#[test]
fn files_that_are_none_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("roots.pem");
    for text in [
        "",
        "nothing",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Roots::none().with_file(&path).unwrap_err().to_string();
        assert!(error.contains("roots.pem"), "{error}");
    }
    let error = Certificate::from_files(&path, &path)
        .unwrap_err()
        .to_string();
    assert!(error.contains("roots.pem"), "{error}");
    let error = ClientTls::new(Roots::none()).unwrap_err().to_string();
    assert!(error.contains("a2a.tls.roots"), "{error}");
}
