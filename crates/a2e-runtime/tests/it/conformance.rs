//! The documents' own words about a running host and a client.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use a2e_runtime::{AgentConfig, CallOptions, Client, Handler};
use a2e_wire::{Body, Charset};
use serde_json::{Value, json};

use crate::client::script::{Wire as Script, pair};
use crate::support::{TOKEN, Transport, Wire, demo, handshake};

/// Document 002, "Base Message Schema", for what a host sends in a session.
/// Proves H-22 to H-26, M-5 to M-9.
#[tokio::test]
async fn every_message_of_a_host_has_the_base_members() {
    let before = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let mut wire = Transport::Memory.place(&demo().build()).await.wire().await;
    let mut heard = vec![wire.ask(&handshake()).await];
    let session = heard[0]["session_id"].as_str().unwrap().to_owned();
    for number in 0..20 {
        let id = format!("{number}");
        heard.push(wire.ask(&json!({"type": "tool/list/req", "id": id})).await);
        assert_eq!(heard.last().unwrap()["req_id"], id);
        heard.push(wire.ask(&json!({"type": "no/such/req", "id": id})).await);
    }
    let stream = json!({"type": "tool/call/req", "id": "s", "tool_name": "stream",
        "arguments": {"count": 3}, "streaming": true});
    heard.push(wire.ask(&stream).await);
    while heard.last().unwrap()["type"] != "tool/call/resp" {
        heard.push(wire.hear().await.unwrap());
    }
    let is_uuid = |text: &str| text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let mut ids = BTreeSet::from([session]);
    for message in &heard {
        assert_eq!(message["a2e"], "1.0", "{message}");
        assert!(message["type"].is_string(), "{message}");
        let ts = &message["ts"];
        assert!(
            ts.is_f64() && ts.as_f64() >= Some(before - 1.0),
            "{message}"
        );
        ids.insert(message["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), heard.len() + 1, "each id is used once");
    assert!(ids.iter().all(|id| is_uuid(id)), "{ids:?}");
}

/// Document 000, "HandshakeRequest", and document 003, "Constructor": what a client says by default.
/// Proves C-4 to C-6, C-12, H-3 to H-9.
#[tokio::test]
async fn a_client_says_what_it_was_made_with_or_the_defaults() {
    let hello = async |config: AgentConfig| -> Value {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let mut wire = Script::new(theirs);
        let connect = Client::connect(ours, config, Handler::none());
        tokio::select! {
            _ = connect => panic!("it was not answered"),
            hello = wire.hear() => hello.unwrap(),
        }
    };
    let defaults = hello(AgentConfig::default()).await;
    for (name, value) in [
        ("type", json!("handshake/req")),
        ("a2e", json!("1.0")),
        ("agent_id", json!("agent")),
        ("auth_token", json!("")),
        ("agent_caps", json!([])),
    ] {
        assert_eq!(defaults[name], value, "{defaults}");
    }
    assert_eq!(defaults["id"].as_str().unwrap().len(), 32);
    assert!(defaults["ts"].is_f64(), "{defaults}");
    let given = hello(AgentConfig {
        agent_id: "my-agent".into(),
        auth_token: "dev-secret".into(),
        wanted: vec!["tools".into(), "memory".into()],
        ..AgentConfig::default()
    });
    let given = given.await;
    assert_eq!(given["agent_id"], "my-agent");
    assert_eq!(given["auth_token"], "dev-secret");
    assert_eq!(given["agent_caps"], json!(["tools", "memory"]));
}

/// Document 003, "RPC": compact JSON in one line, and 30 seconds to answer it.
/// Proves C-16, C-17, C-19.
#[tokio::test(start_paused = true)]
async fn a_request_is_one_compact_line_and_waits_thirty_seconds() {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let mut wire = Script::new(theirs);
    let connect = Client::connect(ours, AgentConfig::default(), Handler::none());
    let (client, ()) = tokio::join!(connect, wire.greet());
    let client = client.unwrap();
    let start = tokio::time::Instant::now();
    let call = client.rpc(
        crate::support::call("echo", r#"{ "a" : [ 1, 2 ] }"#),
        CallOptions::default(),
    );
    let (outcome, line) = tokio::join!(call, wire.hear_line());
    assert!(outcome.is_err());
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(31));
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["type"], "tool/call/req");
    assert!(line.contains(r#""arguments":{"a":[1,2]}"#), "{line}");
    assert!(line.ends_with("}\n") && !line.contains(' '), "{line}");
}

/// Document 003, "Ping" and "Encoding/Decoding".
/// Proves C-25, C-29, M-33.
#[tokio::test(start_paused = true)]
async fn a_ping_is_measured_and_an_unknown_type_is_a_generic_message() {
    let (client, mut wire) = pair().await;
    let late = async {
        let request = wire.hear().await.unwrap();
        tokio::time::sleep(Duration::from_millis(40)).await;
        wire.say(&json!({"type": "pong", "req_id": request["id"]}))
            .await;
        request
    };
    let (latency, request) = tokio::join!(client.ping(), late);
    assert_eq!(request["type"], "ping");
    assert_eq!(latency.unwrap().as_millis(), 40);

    let line = br#"{"a2e":"1.0","version":"1.0","type":"new/thing","id":"1f","ts":1.0,"x":[1]}"#;
    let message = Client::decode(line).unwrap();
    assert!(matches!(message.body, Body::Unknown(_)));
    let mut written = Vec::new();
    message.encode_to(&mut written, Charset::Utf8);
    assert_eq!(written, line);
}

/// Document 001, "Negotiation Rules": what was asked for and what is there decide together.
/// Proves N-18.
#[tokio::test]
async fn only_capabilities_with_plugins_are_enabled() {
    let mut wire = Transport::Memory.place(&demo().build()).await.wire().await;
    let hello = json!({"type": "handshake/req", "id": "h", "auth_token": TOKEN,
        "agent_caps": ["skill", "tools", "toolkits", "env", "proc", "memory", "learning", "chains",
            "mcp", "multi_agent"]});
    let answer = Wire::ask(&mut wire, &hello).await;
    let accepted = answer["accepted_caps"].as_array().unwrap();
    assert_eq!(accepted.len(), 10);
    for capability in accepted {
        let has_plugin = capability["capability"] == "tools";
        assert_eq!(capability["enabled"], has_plugin, "{capability}");
    }
}
