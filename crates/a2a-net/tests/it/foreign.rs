//! Programs that we did not write.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use a2a_net::listen::Listeners;
use a2a_net::tls::Certificate;
use serde_json::Value;

use crate::echo::{Server, request};

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn curl(server: &Server, arguments: &[&str], path: &str) -> (String, Value) {
    let url = format!("https://localhost:{}{path}", server.address.port());
    let output = run(Command::new("curl")
        .args(["--silent", "--show-error", "--include", "--cacert"])
        .arg(server.ca())
        .args(arguments)
        .arg(url));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), serde_json::from_str(body).unwrap())
}

/// Proves A-3-4, A-3-5.
#[tokio::test(flavor = "multi_thread")]
async fn curl_speaks_both_kinds_of_http() {
    let server = Server::start().await;
    let message = request("r1", "echo").to_string();
    for (version, carrier, status) in [
        ("--http1.1", "http/1.1", "HTTP/1.1 200 OK"),
        ("--http2", "h2", "HTTP/2 200"),
        ("--no-alpn", "http/1.1", "HTTP/1.1 200 OK"),
    ] {
        let arguments = [
            version,
            "--header",
            "Content-Type: application/json",
            "--data",
            &message,
        ];
        let (head, body) = curl(&server, &arguments, "/a2a/request");
        assert!(head.trim().starts_with(status), "{head}");
        let head = head.to_lowercase();
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(head.contains("cache-control: no-store"), "{head}");
        assert_eq!(body["carrier"], carrier);
        assert_eq!(body["message"], request("r1", "echo"));
        let (head, body) = curl(&server, &[version], "/.well-known/agent-manifest.json");
        assert!(head.trim().starts_with(status), "{head}");
        assert_eq!(body["document"], "agent-manifest.json");
    }
    let message = request("r2", "error UNVERIFIED_AGENT").to_string();
    let arguments = [
        "--header",
        "Content-Type: application/json",
        "--data",
        &message,
    ];
    let (head, body) = curl(&server, &arguments, "/a2a/handshake");
    let head = head.to_lowercase();
    assert!(head.starts_with("http/2 401"), "{head}");
    assert!(head.contains("www-authenticate: a2adp"), "{head}");
    assert!(head.contains("retry-after: 7"), "{head}");
    assert_eq!(body["error_code"], "UNVERIFIED_AGENT");
}

#[tokio::test(flavor = "multi_thread")]
async fn threat_119_openssl_cannot_connect_below_tls_1_3() {
    let server = Server::start().await;
    let connect = |version: &str| {
        run(Command::new("openssl")
            .args([
                "s_client",
                version,
                "-verify_return_error",
                "-servername",
                "localhost",
                "-connect",
            ])
            .arg(server.address.to_string())
            .arg("-CAfile")
            .arg(server.ca())
            .stdin(std::process::Stdio::null()))
    };
    for version in ["-tls1_2", "-tls1_1", "-tls1"] {
        let output = connect(version);
        assert!(!output.status.success(), "{version}");
    }
    let output = connect("-tls1_2");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("alert protocol version"), "{text}");
    let output = connect("-tls1_3");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.contains("Verify return code: 0 (ok)"),
        "{text}"
    );
}

fn python(what: &str, port: u16, ca: &Path) {
    let script = testkit::workspace().join("conformance/a2a_transports.py");
    let output = run(Command::new(testkit::python())
        .arg(script)
        .arg(what)
        .arg(port.to_string())
        .arg(ca)
        .arg(testkit::workspace().join("crates/a2a-net/proto")));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

/// With a certificate from files: its TLS library knows no constraints on addresses, so it refuses the development CA.
/// Proves A-3-6.
#[tokio::test(flavor = "multi_thread")]
async fn python_speaks_grpc_by_our_proto() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| folder.path().join(name));
    let names = ["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let shown = Arc::new(Certificate::from_files(&certificate, key).unwrap());
    let listeners = Listeners::bind(&["127.0.0.1:0".parse().unwrap()]).await;
    let listeners = listeners.unwrap();
    let port = listeners.addresses()[0].port();
    server.serve(listeners, &shown);
    python("grpc", port, &certificate);
}

/// Proves A-3-7.
#[tokio::test(flavor = "multi_thread")]
async fn python_speaks_websocket() {
    let server = Server::start().await;
    python("websocket", server.address.port(), &server.ca());
}
