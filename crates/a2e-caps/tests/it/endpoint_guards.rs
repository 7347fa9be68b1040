//! What endpoints of a configuration must not do, and what cannot be one.

use std::collections::BTreeMap;
use std::time::Duration;

use a2e_caps::endpoints;
use a2e_caps::http::{Client, MAX_REQUEST_BODY, Settings, Web};
use a2e_runtime::Secret;
use a2e_runtime::config::{EndpointTool, Filling, Login, RequestBody, ResponseForm};
use serde_json::{Value, json};

use crate::endpoints::{SECRET, endpoint, on, outcome, text};
use crate::http::{Server, answer};
use crate::support::{call, client, host, refused};

/// What a server repeats of a request does not come back.
#[tokio::test]
async fn secrets_stay_where_they_are() {
    let echo = format!(r#"{{"seen":"Bearer {SECRET}","k":"\u0068unter2222"}}"#);
    let basic = format!("YWRhOmh1bnRlcjIyMjI= ada:{SECRET}");
    for (status, kind, body) in [
        ("200 OK", "application/json", echo.as_str()),
        ("500 Internal Server Error", "application/json", &echo),
        ("200 OK", "text/plain", &basic),
        ("302 Found\r\nLocation: /?k=hunter2222", "text/plain", ""),
    ] {
        let head = format!("{status}\r\nContent-Type: {kind}");
        let server = Server::start(answer(&head, body)).await;
        let mut tool = endpoint(server.url("/"), &json!({}), &[]);
        tool.login = Some(Login::Basic(Secret::new(format!("ada:{SECRET}"))));
        let client = on(&server, &tool).await;
        let result = format!("{:?}", outcome(&client, json!({})).await);
        assert!(
            !result.contains(SECRET) && !result.contains("YWRhOm"),
            "{result}"
        );
        assert!(result.contains("[secret]"), "{result}");
        assert!(server.asked()[0].contains("Basic YWRhOmh1bnRlcjIyMjI="));
    }
    // Nor does it in another encoding, or the half of it where the answer is cut.
    let encoded = "aHVudGVyMjIyMg== 68756e74657232323232 %68unter2222 \\u0068unter2222";
    for (body, max_bytes) in [(encoded, None), (SECRET, Some(SECRET.len() - 2))] {
        let server = Server::start(answer("200 OK\r\nContent-Type: text/plain", body)).await;
        let mut tool = endpoint(server.url("/"), &json!({}), &[]);
        tool.login = Some(Login::Bearer(Secret::new(SECRET)));
        tool.max_bytes = max_bytes;
        let result = outcome(&on(&server, &tool).await, json!({})).await;
        assert_eq!(result.truncated, Some(max_bytes.is_some()));
        let data: Value = result.data.unwrap().deserialize().unwrap();
        let shown = data.as_str().unwrap();
        for piece in ["hunt", "unter", "HVudG", "68756e"] {
            assert!(!shown.contains(piece), "{shown}");
        }
        assert!(shown.contains("[secret]"), "{shown}");
    }
    // Not even among bytes that are no text.
    let mut raw = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n\xff".to_vec();
    raw.extend(SECRET.bytes());
    let server = Server::start(raw).await;
    let mut tool = endpoint(server.url("/"), &json!({}), &[]);
    tool.login = Some(Login::Bearer(Secret::new(SECRET)));
    let error = refused(&on(&server, &tool).await, "t", json!({})).await;
    assert_eq!(error.code.as_str(), "tool_denied", "{error:?}");
}

/// The guard holds for endpoints too, until the operator names the host.
#[tokio::test]
async fn private_hosts_are_reached_only_when_they_are_named() {
    let server = Server::start(answer("200 OK", "inside")).await;
    let tool = endpoint(server.url("/"), &json!({}), &[]);
    let other = [
        format!("127.0.0.1:{}", server.port ^ 1),
        "localhost".to_owned(),
    ];
    let web = Web::new(Client::new(Settings::default()), &other).unwrap();
    let closed = client(&host(vec![endpoints::tool(&tool, &web).unwrap()])).await;
    let error = refused(&closed, "t", json!({})).await;
    assert_eq!(error.code.as_str(), "tool_denied");
    assert!(error.message.contains("`private_hosts`"), "{error:?}");
    assert!(server.asked().is_empty());
    assert_eq!(
        call(&on(&server, &tool).await, "t", json!({})).await,
        "inside"
    );
}

#[tokio::test]
async fn sizes_and_times_are_limited() {
    for (body, is_cut) in [("1234", false), ("12345", true)] {
        let server = Server::start(answer("200 OK", body)).await;
        let mut tool = endpoint(server.url("/"), &json!({}), &[]);
        tool.max_bytes = Some(4);
        let result = outcome(&on(&server, &tool).await, json!({})).await;
        assert_eq!(result.truncated, Some(is_cut));
        let data: Value = result.data.unwrap().deserialize().unwrap();
        assert_eq!(data, "1234");
        tool.response = ResponseForm::Json;
        let client = on(&server, &tool).await;
        match is_cut {
            false => assert_eq!(call(&client, "t", json!({})).await, 1234),
            true => {
                let error = refused(&client, "t", json!({})).await;
                assert!(error.message.contains("more than 4 bytes"), "{error:?}");
            }
        }
    }
    let server = Server::start(answer("200 OK", "ok")).await;
    let mut tool = endpoint(server.url("/"), &json!({"a": {"type": "string"}}), &["a"]);
    tool.method = "POST".into();
    tool.body = RequestBody::Text("a".into());
    let sending = on(&server, &tool).await;
    call(&sending, "t", json!({"a": "b".repeat(MAX_REQUEST_BODY)})).await;
    refused(
        &sending,
        "t",
        json!({"a": "b".repeat(MAX_REQUEST_BODY + 1)}),
    )
    .await;

    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let mut tool = endpoint(format!("http://127.0.0.1:{port}/"), &json!({}), &[]);
    tool.timeout = Some(Duration::from_millis(50));
    let web = Web::new(
        Client::new(Settings::default()),
        &[format!("127.0.0.1:{port}")],
    )
    .unwrap();
    let waiting = client(&host(vec![endpoints::tool(&tool, &web).unwrap()])).await;
    let error = refused(&waiting, "t", json!({})).await;
    assert!(error.message.contains("longer"), "{error:?}");
}

#[tokio::test]
async fn an_argument_is_no_other_path() {
    let server = Server::start(answer("200 OK", "ok")).await;
    let tool = endpoint(
        server.url("/a/{id}/b"),
        &json!({"id": {"type": "string"}}),
        &["id"],
    );
    let client = on(&server, &tool).await;
    for bad in ["", ".", ".."] {
        refused(&client, "t", json!({"id": bad})).await;
    }
    assert!(server.asked().is_empty());
    for (good, path) in [
        ("...", "/a/.../b"),
        ("%2e%2e", "/a/%252e%252e/b"),
        ("a\r\nb", "/a/a%0D%0Ab/b"),
    ] {
        call(&client, "t", json!({"id": good})).await;
        let asked = server.asked().pop().unwrap();
        assert!(asked.starts_with(&format!("GET {path} ")), "{asked}");
    }
}

#[tokio::test]
async fn a_header_is_no_other_header() {
    let server = Server::start(answer("200 OK", "ok")).await;
    let mut tool = endpoint(server.url("/"), &json!({"v": {"type": "string"}}), &[]);
    tool.headers = vec![("X-V".into(), text("{v}"))];
    let client = on(&server, &tool).await;
    let error = refused(&client, "t", json!({"v": "a\r\nX-Other: b"})).await;
    assert!(
        error.message.contains("X-V") && !error.message.contains("Other"),
        "{error:?}"
    );
    assert!(server.asked().is_empty());
}

/// A good endpoint, and one thing wrong with it.
fn with(change: impl FnOnce(&mut EndpointTool)) -> EndpointTool {
    let parameters = json!({"a": {"type": "string"}});
    let mut tool = endpoint("https://h.example/{a}".into(), &parameters, &["a"]);
    change(&mut tool);
    tool
}

/// What cannot be a tool is told at the start, by the key that is wrong.
#[test]
fn endpoints_that_are_none() {
    let web = Web::new(Client::new(Settings::default()), &[]).unwrap();
    let url = |url: &str| with(|it| it.url = url.into());
    let header = |name: &str, value: Filling| with(|it| it.headers = vec![(name.into(), value)]);
    let query = |value: Filling| with(|it| it.query = vec![("q".into(), value)]);
    let secret = || Filling::Secret(Secret::new(SECRET));
    endpoints::tool(&with(|_| {}), &web).map(drop).unwrap();
    endpoints::tool(&query(secret()), &web).map(drop).unwrap();
    let mut readable = query(secret());
    readable.url = "http://h.example/{a}".into();
    let cut = Filling::Secret(Secret::new(format!("{SECRET}\r\nx: y")));
    for (tool, expected) in [
        (url("https://{a}/"), "`url`"),
        (url("https://h/{b}"), "`b`"),
        (url("https://h/{a"), "`url`"),
        (url("https://h/ä"), "`url`"),
        (url("https://h/#x"), "`url`"),
        (with(|it| it.required = vec![]), "`required`"),
        (with(|it| it.required.push("c".into())), "`c`"),
        (query(text("{c}")), "`c`"),
        (header("h", text("{")), "`headers.h`"),
        (header("Host", text("x")), "`Host`"),
        (header("X-Key", cut), "`X-Key`"),
        (with(|it| it.body = RequestBody::Arguments), "no body"),
        (readable, "https"),
        (with(|it| it.name = "a b".into()), "name"),
    ] {
        let error = endpoints::tool(&tool, &web).map(drop).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains(expected) && !error.contains(SECRET),
            "{error}"
        );
    }
}

/// A method says what it does, unless the operator does.
#[test]
fn methods_say_what_they_do() {
    let web = Web::new(Client::new(Settings::default()), &[]).unwrap();
    let mut told = BTreeMap::new();
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] {
        let mut tool = endpoint("https://h.example/".into(), &json!({}), &[]);
        tool.method = method.into();
        let tool = endpoints::tool(&tool, &web).unwrap();
        let definition = tool.definition();
        told.insert(
            method,
            (definition.is_read_only(), definition.to_wire().idempotent),
        );
    }
    let expected = [
        ("DELETE", (false, true)),
        ("GET", (true, true)),
        ("HEAD", (true, true)),
        ("PATCH", (false, false)),
        ("POST", (false, false)),
        ("PUT", (false, true)),
    ];
    assert_eq!(told, BTreeMap::from(expected));
}
