//! `http_get`, `http_request` and the toolkit `http`, against servers of this machine.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2e_caps::http::{self, Client, MAX_REQUEST_BODY, Reach, Settings};
use a2e_caps::toolkits::Http;
use a2e_runtime::Roots;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::version::TLS13;

use crate::support::{call, client, host, refused};
use crate::vault::store;

/// A server that gives each connection the same answer and keeps what it was asked.
pub(crate) struct Server {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start(answer: impl Into<Vec<u8>>) -> Self {
        Self::start_with(answer.into(), None).await
    }

    async fn start_with(answer: Vec<u8>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                match &tls {
                    None => serve(stream, &answer, &kept).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            serve(stream, &answer, &kept).await;
                        }
                    }
                }
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &[u8],
    asked: &Mutex<Vec<String>>,
) {
    let request = heard(&mut stream).await;
    asked.lock().unwrap().push(request);
    say(stream, answer).await;
}

/// What is asked over a connection.
pub(crate) async fn heard(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.split("content-length: ").nth(1);
            let length = length.and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                break;
            }
        }
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            break;
        }
    }
    String::from_utf8(request).unwrap()
}

/// Answers over a connection, and closes it.
pub(crate) async fn say(mut stream: impl AsyncWrite + Unpin, answer: &[u8]) {
    // One that has heard enough goes away.
    let _ = stream.write_all(answer).await;
    let _ = stream.shutdown().await;
}

pub(crate) fn answer(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A client of a host whose tools reach this machine.
pub(crate) async fn reaching(settings: Settings) -> a2e_runtime::Client {
    let settings = Settings {
        reach: Reach::PublicAndLoopback,
        ..settings
    };
    let tools = http::tools(&Client::new(settings)).unwrap();
    client(&host(tools)).await
}

#[tokio::test]
async fn get_gives_status_headers_and_body() {
    let head = "200 OK\r\nContent-Type: text/plain\r\nX-A: 1\r\nX-A: 2";
    let server = Server::start(answer(head, "hällo")).await;
    let client = reaching(Settings::default()).await;
    let url = server.url("/p?q=1#f");
    let got = call(
        &client,
        "http_get",
        json!({"url": url, "headers": {"X-Own": "v"}}),
    )
    .await;
    assert_eq!(
        got,
        json!({"status": 200, "encoding": "utf-8", "body": "hällo", "headers": {
            "content-length": "6", "content-type": "text/plain", "x-a": "1, 2"}})
    );
    let asked = server.asked().remove(0).to_lowercase();
    assert!(asked.starts_with("get /p?q=1 http/1.1\r\n"), "{asked}");
    let host = format!("host: 127.0.0.1:{}\r\n", server.port);
    for line in [
        host.as_str(),
        "x-own: v\r\n",
        "accept-encoding: identity\r\n",
    ] {
        assert!(asked.contains(line), "{line} in {asked}");
    }
    assert!(!asked.contains("cookie") && !asked.contains("authorization"));
}

#[tokio::test]
async fn requests_have_a_method_and_a_body() {
    let server = Server::start(answer("404 Not Found", "")).await;
    let client = reaching(Settings::default()).await;
    let asked = json!({"url": server.url("/x"), "method": "PUT", "body": "{\"a\":1}"});
    let got = call(&client, "http_request", asked).await;
    // That is an answer too.
    assert_eq!(got["status"], 404);
    let asked = server.asked().remove(0);
    assert!(
        asked.starts_with("PUT /x ") && asked.ends_with("{\"a\":1}"),
        "{asked}"
    );
    let bad = json!({"url": server.url("/x"), "method": "TRACE"});
    let error = refused(&client, "http_request", bad).await;
    assert_eq!(error.code.as_str(), "schema_violation");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_base64() {
    let mut raw = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec();
    raw.extend([0xff, 0x00]);
    let server = Server::start(raw).await;
    let client = reaching(Settings::default()).await;
    let got = call(&client, "http_get", json!({"url": server.url("/")})).await;
    assert_eq!(
        (&got["encoding"], &got["body"]),
        (&json!("base64"), &json!("/wA="))
    );
}

/// The profile's fetch rules, which the tools have unless told otherwise.
#[tokio::test]
async fn only_public_addresses_are_reached() {
    let server = Server::start(answer("200 OK", "secret")).await;
    let tools = http::tools(&Client::new(Settings::default())).unwrap();
    let client = client(&host(tools)).await;
    for name in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.1",
        "127.1",
        "10.0.0.1",
        "169.254.169.254",
        "[fd00:ec2::254]",
    ] {
        let url = format!("http://{name}:{}/", server.port);
        let error = refused(&client, "http_get", json!({ "url": url })).await;
        assert_eq!(error.code.as_str(), "tool_denied", "{name} {error:?}");
        assert!(error.message.contains("not public"), "{error:?}");
    }
    assert!(server.asked().is_empty());
}

/// Loopback is one thing, the rest of what is private another.
#[tokio::test]
async fn loopback_brings_no_other_address() {
    let client = reaching(Settings::default()).await;
    for name in ["10.0.0.1", "169.254.169.254", "[::ffff:127.0.0.1]"] {
        let error = refused(
            &client,
            "http_get",
            json!({"url": format!("http://{name}/")}),
        )
        .await;
        assert_eq!(error.code.as_str(), "tool_denied", "{name}");
    }
}

#[tokio::test]
async fn redirects_are_told_and_not_followed() {
    let other = Server::start(answer("200 OK", "there")).await;
    let head = format!("302 Found\r\nLocation: {}", other.url("/there"));
    let server = Server::start(answer(&head, "")).await;
    let client = reaching(Settings::default()).await;
    let got = call(&client, "http_get", json!({"url": server.url("/")})).await;
    assert_eq!(
        (&got["status"], &got["redirect_to"]),
        (&json!(302), &json!(other.url("/there")))
    );
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn bodies_are_cut_at_the_limit() {
    let settings = Settings {
        body_bytes: 4,
        ..Settings::default()
    };
    let client = reaching(settings).await;
    for (body, expected, is_cut) in [("1234", "1234", false), ("12345", "1234", true)] {
        let server = Server::start(answer("200 OK", body)).await;
        let asked = json!({"url": server.url("/")});
        let calling = a2e_runtime::Calling::default();
        let result = client
            .tools()
            .call("http_get", &asked, calling)
            .await
            .unwrap();
        let data: Value = result.data.unwrap().deserialize().unwrap();
        assert_eq!(
            (data["body"].as_str(), result.truncated),
            (Some(expected), Some(is_cut))
        );
    }
    // Not in the middle of a character.
    let server = Server::start(answer("200 OK", "123ä")).await;
    let got = call(&client, "http_get", json!({"url": server.url("/")})).await;
    assert_eq!(
        (&got["encoding"], &got["body"]),
        (&json!("utf-8"), &json!("123"))
    );
}

#[tokio::test]
async fn heads_are_limited() {
    let client = reaching(Settings::default()).await;
    let many = |count: usize| {
        let headers: String = (0..count).map(|at| format!("x{at}: y\r\n")).collect();
        format!("HTTP/1.1 200 OK\r\n{headers}\r\n")
    };
    let long = |size: usize| {
        let (begin, end) = ("HTTP/1.1 200 OK\r\nx: ", "\r\n\r\n");
        let value = "y".repeat(size - begin.len() - end.len());
        format!("{begin}{value}{end}")
    };
    for raw in [many(http::MAX_RESPONSE_HEADERS), long(http::MAX_HEAD)] {
        let server = Server::start(raw).await;
        call(&client, "http_get", json!({"url": server.url("/")})).await;
    }
    for raw in [
        many(http::MAX_RESPONSE_HEADERS + 1),
        long(http::MAX_HEAD + 1),
    ] {
        let server = Server::start(raw).await;
        refused(&client, "http_get", json!({"url": server.url("/")})).await;
    }
}

#[tokio::test]
async fn request_bodies_are_limited() {
    let server = Server::start(answer("200 OK", "")).await;
    let client = reaching(Settings::default()).await;
    let asked = |size: usize| {
        let body = "b".repeat(size);
        json!({"url": server.url("/"), "method": "POST", "body": body})
    };
    call(&client, "http_request", asked(MAX_REQUEST_BODY)).await;
    refused(&client, "http_request", asked(MAX_REQUEST_BODY + 1)).await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_left() {
    // It accepts, as the kernel does, and nobody reads.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = Settings {
        time: Duration::from_millis(50),
        ..Settings::default()
    };
    let client = reaching(settings).await;
    let url = format!("http://127.0.0.1:{port}/");
    let error = refused(&client, "http_get", json!({ "url": url })).await;
    assert!(error.message.contains("longer"), "{error:?}");
}

/// Of a method that has a body, the server is told that there is none.
#[tokio::test]
async fn requests_without_a_body_say_so() {
    let client = reaching(Settings::default()).await;
    for (method, is_told) in [
        ("POST", true),
        ("PUT", true),
        ("PATCH", true),
        ("GET", false),
        ("DELETE", false),
    ] {
        let server = Server::start(answer("200 OK", "")).await;
        let asked = json!({"url": server.url("/"), "method": method});
        call(&client, "http_request", asked).await;
        let asked = server.asked().remove(0).to_lowercase();
        assert_eq!(
            asked.contains("\r\ncontent-length: 0\r\n"),
            is_told,
            "{asked}"
        );
    }
}

/// Without a body the header is about the one that there would be.
#[tokio::test]
async fn headers_of_compressed_bodies_are_shown() {
    let client = reaching(Settings::default()).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n";
    let server = Server::start(head).await;
    let asked = json!({"url": server.url("/"), "method": "HEAD"});
    let got = call(&client, "http_request", asked).await;
    assert_eq!((&got["status"], &got["body"]), (&json!(200), &json!("")));
    assert_eq!(got["headers"]["content-encoding"], "gzip");
    let server = Server::start(answer("200 OK\r\nContent-Encoding: Identity", "x")).await;
    let got = call(&client, "http_get", json!({"url": server.url("/")})).await;
    assert_eq!(got["body"], "x");
}

#[tokio::test]
async fn compressed_bodies_are_refused() {
    let server = Server::start(answer("200 OK\r\nContent-Encoding: gzip", "x")).await;
    let client = reaching(Settings::default()).await;
    let error = refused(&client, "http_get", json!({"url": server.url("/")})).await;
    assert!(error.message.contains("compressed"), "{error:?}");
}

/// What ends too early is no answer.
#[tokio::test]
async fn answers_that_are_none_fail() {
    let client = reaching(Settings::default()).await;
    for raw in [
        "",
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
    ] {
        let server = Server::start(raw).await;
        let error = refused(&client, "http_get", json!({"url": server.url("/")})).await;
        assert_eq!(error.code.as_str(), "tool_error", "{raw}");
    }
}

#[tokio::test]
async fn certificates_are_checked() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let tls = Some(TlsAcceptor::from(Arc::new(config)));
    let server = Server::start_with(answer("200 OK", "safe").into(), tls).await;
    let settings = Settings {
        roots: Roots::from_pem(made.cert.pem().as_bytes()).unwrap(),
        ..Settings::default()
    };
    let trusting = reaching(settings).await;
    let url = |name: &str| json!({"url": format!("https://{name}:{}/", server.port)});
    assert_eq!(
        call(&trusting, "http_get", url("localhost")).await["body"],
        "safe"
    );
    // Another name, and nobody who vouches for it.
    refused(&trusting, "http_get", url("127.0.0.1")).await;
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let settings = Settings {
        roots: Roots::from_pem(other.cert.pem().as_bytes()).unwrap(),
        ..Settings::default()
    };
    refused(&reaching(settings).await, "http_get", url("localhost")).await;
    assert_eq!(server.asked().len(), 1);
}

/// The toolkit: only the hosts that were named, with headers that no answer shows.
#[tokio::test]
async fn a_toolkit_for_some_hosts() {
    let seen = "200 OK\r\nX-Seen: Bearer hunter22";
    let server = Server::start(answer(seen, "ok hunter22 aHVudGVyMjI=")).await;
    let other = Server::start(answer("200 OK", "other")).await;
    let settings = Settings {
        reach: Reach::PublicAndLoopback,
        ..Settings::default()
    };
    let toolkit = Arc::new(Http::new(Client::new(settings)));
    let host = crate::toolkits::host(vec![toolkit], &store()).await;
    let mut ada = crate::toolkits::agent(&host, "ada").await;
    let named = format!("127.0.0.1:{}", server.port);
    let config =
        json!({"hosts": [{"host": named, "headers": {"Authorization": "Bearer hunter22"}}]});
    let response = crate::toolkits::configure(&mut ada, "http", config).await;
    assert_eq!(response["status"], "ok", "{response}");
    assert!(!response.to_string().contains("hunter22"));
    for (tool, asked) in [
        ("http_api_get", json!({"url": server.url("/a")})),
        (
            "http_api_request",
            json!({"url": server.url("/b"), "method": "POST", "body": "x",
                "headers": {"authorization": "Bearer other"}}),
        ),
    ] {
        let done = crate::toolkits::call(&mut ada, tool, asked).await;
        let text = done.to_string();
        assert!(
            !text.contains("hunter22") && !text.contains("aHVud"),
            "{done}"
        );
        let body = done["data"]["body"].as_str().unwrap();
        assert!(body.starts_with("ok [secret] [secret]"), "{done}");
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    for request in asked {
        assert_eq!(request.matches("Bearer hunter22").count(), 1, "{request}");
        assert!(!request.contains("Bearer other"), "{request}");
    }
    let elsewhere = json!({"url": other.url("/")});
    let error = crate::toolkits::refused(&mut ada, "http_api_get", elsewhere).await;
    assert_eq!(error["detail"]["reason"], "host_not_allowed");
    assert!(other.asked().is_empty());
}

#[tokio::test]
async fn a_toolkit_whose_configuration_does_not_do() {
    let toolkit = Arc::new(Http::new(Client::new(Settings::default())));
    let host = crate::toolkits::host(vec![toolkit], &store()).await;
    let mut ada = crate::toolkits::agent(&host, "ada").await;
    let host = |count: usize| json!({"hosts": vec![json!({"host": "h.example"}); count]});
    let secret = "hunter22\r\nX: y";
    for (config, key) in [
        (json!({}), "hosts"),
        (host(0), "`hosts`"),
        (host(65), "`hosts`"),
        (json!({"hosts": [{"host": "a/b"}]}), "`hosts.0.host`"),
        (json!({"hosts": [{"headers": {}}]}), "`hosts.0`"),
        (
            json!({"hosts": [{"host": "h", "headers": {"X-Key": secret}}]}),
            "`hosts.0.headers`",
        ),
        (
            json!({"hosts": [{"host": "h", "headers": {"Host": "x"}}]}),
            "`Host`",
        ),
    ] {
        let response = crate::toolkits::configure(&mut ada, "http", config.clone()).await;
        assert_eq!(response["status"], "error", "{config}");
        let message = response["message"].as_str().unwrap();
        assert!(
            message.contains(key) && !message.contains("hunter22"),
            "{message}"
        );
    }
    let response = crate::toolkits::configure(&mut ada, "http", host(64)).await;
    assert_eq!(response["status"], "ok");
}
