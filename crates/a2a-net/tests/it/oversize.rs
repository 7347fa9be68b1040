//! Peers that write the whole of a request that is too large before they read.

use std::path::Path;
use std::process::Command;

use a2a_net::listen::{DiscardLimits, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::echo::Server;
use crate::reach::dial;

/// What a request may have.
pub(crate) const REQUEST_BYTES: usize = 1024 * 1024;

/// How often each way is tried: a reset comes only sometimes before the response is read.
pub(crate) const TRIES: usize = 20;

pub(crate) fn post(path: &str, bytes: usize) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {bytes}\r\n\r\n"
    );
    [head.into_bytes(), vec![b'7'; bytes]].concat()
}

/// Writes a whole request, and then reads.
pub(crate) async fn written_first(server: &Server, request: &[u8]) -> std::io::Result<String> {
    let mut stream = dial(server, b"http/1.1").await;
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await?;
    Ok(String::from_utf8(response).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_body_first_reads_the_refusal() {
    let server = Server::start().await;
    for (path, bytes, status) in [
        ("/a2a/request", REQUEST_BYTES + 1, "413"),
        ("/a2a/request", 12 * REQUEST_BYTES, "413"),
        ("/a2a/handshake", REQUEST_BYTES, "413"),
        ("/elsewhere", REQUEST_BYTES, "404"),
    ] {
        let request = post(path, bytes);
        for _ in 0..TRIES {
            let response = written_first(&server, &request).await.unwrap();
            let expected = format!("HTTP/1.1 {status}");
            assert!(
                response.starts_with(&expected),
                "{path}, {bytes}: {response}"
            );
        }
    }
}

/// Of a larger body not all is read. The peer is not kept waiting.
#[tokio::test(flavor = "multi_thread")]
async fn threat_63_far_too_large_a_body_is_cut_off() {
    let server = Server::with(Limits {
        discard: DiscardLimits {
            bytes: REQUEST_BYTES,
            ..DiscardLimits::default()
        },
        ..Limits::default()
    })
    .await;
    let request = post("/a2a/request", 64 * REQUEST_BYTES);
    written_first(&server, &request).await.unwrap_err();
    let response = written_first(&server, &post("/a2a/request", REQUEST_BYTES + 1)).await;
    assert!(response.unwrap().starts_with("HTTP/1.1 413"));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_programs_read_the_refusal() {
    let server = Server::start().await;
    let url = format!("https://localhost:{}/a2a/request", server.address.port());
    let python = run_python(&url, &server.ca());
    assert_eq!(python, "ok\n");
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'7'; 4 * REQUEST_BYTES]).unwrap();
    for version in ["--http1.1", "--http2"] {
        for _ in 0..TRIES {
            let output = Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--write-out",
                    "%{http_code}",
                    version,
                ])
                .args([
                    "--header",
                    "Content-Type: application/json",
                    "--header",
                    "Expect:",
                ])
                .arg("--cacert")
                .arg(server.ca())
                .arg("--data-binary")
                .arg(format!("@{}", body.display()))
                .arg(&url)
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.ends_with("413"), "{version}: {output:?}");
        }
    }
}

fn run_python(url: &str, ca: &Path) -> String {
    let script = testkit::workspace().join("conformance/oversize.py");
    let (tries, bytes) = (TRIES.to_string(), (4 * REQUEST_BYTES).to_string());
    let output = Command::new(testkit::python())
        .arg(script)
        .args([&tries, &bytes, "413", "PAYLOAD_TOO_LARGE", url])
        .arg(ca)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap()
}
