//! The seeds' own JSON examples, and the samples that real peers rely on.

use a2e_wire::messages::base::{AcceptedCapability, CapabilityMetadata};
use a2e_wire::{Body, Capability, Charset, Decoder, Message, Sender, Tag, Timestamp};
use serde_json::Value;

fn read(line: &str) -> Message<'static> {
    let sender = match line.contains("/req\"") {
        true => Sender::Agent,
        false => Sender::Host,
    };
    Decoder::default()
        .decode(line.as_bytes(), sender, Timestamp::default())
        .unwrap_or_else(|error| panic!("{error}: {line}"))
        .into_owned()
}

/// All of `part` stands in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|found| contains(found, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(a, b)| contains(a, b))
        }
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => whole == part,
    }
}

/// Seed 000, "Example".
/// Proves H-3, H-4, H-6 to H-9, H-38.
#[test]
fn handshake_request() {
    let message = read(
        r#"{"a2e":"1.0","type":"handshake/req","id":"a1b2c3d4","ts":1716123456.789,"agent_id":"my-agent","agent_caps":["tools","memory","env"],"auth_token":"dev-secret"}"#,
    );
    assert_eq!(message.envelope.id.as_str(), "a1b2c3d4");
    assert_eq!(message.envelope.ts.unix_seconds(), 1_716_123_456.789);
    let Body::HandshakeRequest(request) = message.body else {
        panic!("{message:?}");
    };
    assert_eq!(request.agent_id.as_str(), "my-agent");
    assert_eq!(request.agent_caps, ["tools", "memory", "env"]);
    assert_eq!(request.auth_token, "dev-secret");
    assert_eq!(request.resume, None);
}

/// Seed 000, "Example".
/// Proves H-21, H-25, H-27 to H-29, H-39.
#[test]
fn handshake_response() {
    let message = read(
        r#"{"a2e":"1.0","type":"handshake/resp","id":"e5f6g7h8","ts":1716123456.890,"req_id":"a1b2c3d4","session_id":"s1k2l3m4","accepted_caps":[{"capability":"tools","enabled":true,"metadata":{}},{"capability":"memory","enabled":true,"metadata":{}},{"capability":"env","enabled":true,"metadata":{}}],"max_parallel":4,"ok":true}"#,
    );
    assert_eq!(message.envelope.req_id.as_str(), "a1b2c3d4");
    let Body::HandshakeResponse(response) = message.body else {
        panic!("{message:?}");
    };
    assert!(response.ok && response.max_parallel == 4);
    let names: Vec<_> = response
        .accepted_caps
        .into_iter()
        .map(|cap| cap.capability)
        .collect();
    assert_eq!(
        names,
        [Capability::Tools, Capability::Memory, Capability::Env]
    );
}

/// Seed 001, "Capability Metadata" (white space and all) and "Example".
/// Proves H-31 to H-33, N-23.
#[test]
fn capability_metadata() {
    let text = r#"{
  "capability": "tools",
  "enabled": true,
  "metadata": {
    "name": "mytools",
    "type": "tools",
    "priority": 0,
    "exclusive": false
  }
}"#;
    let object = a2e_wire::Object::parse(text).unwrap();
    let capability: AcceptedCapability<'_> = object.read(Timestamp::default()).unwrap();
    let metadata: CapabilityMetadata<'_> = capability.metadata.read(Timestamp::default()).unwrap();
    assert_eq!(
        (&*metadata.name, metadata.reason.as_deref()),
        ("mytools", None)
    );

    let refused =
        r#"{"capability":"chains","enabled":false,"metadata":{"reason":"no plugin loaded"}}"#;
    let object = a2e_wire::Object::parse(refused).unwrap();
    let capability: AcceptedCapability<'_> = object.read(Timestamp::default()).unwrap();
    let metadata: CapabilityMetadata<'_> = capability.metadata.read(Timestamp::default()).unwrap();
    assert_eq!(metadata.reason.as_deref(), Some("no plugin loaded"));
}

/// Seed 002: the base and tool type maps, and the shape every message has.
/// Proves M-11, M-15, M-21 to M-33.
#[test]
fn base_and_tool_types() {
    for name in [
        "handshake/req",
        "handshake/resp",
        "invoke/event",
        "ping",
        "pong",
        "shutdown",
        "error",
        "tool/list/req",
        "tool/list/resp",
        "tool/call/req",
        "tool/call/resp",
        "tool/event",
        "mcp/server/register/req",
        "chain/event",
    ] {
        assert!(Tag::ALL.iter().any(|tag| tag.as_str() == name), "{name}");
    }
    let generic =
        read(r#"{"a2e":"1.0","type":"new/thing","id":"1f","ts":1.0,"req_id":"7","x":[1]}"#);
    assert_eq!(generic.type_name(), "new/thing");
    assert_eq!(generic.envelope.req_id.as_str(), "7");
    let mut written = Vec::new();
    generic.encode_to(&mut written, Charset::Utf8);
    assert_eq!(
        written,
        br#"{"a2e":"1.0","version":"1.0","type":"new/thing","id":"1f","ts":1.0,"req_id":"7","x":[1]}"#
    );
}

/// Each sample is taken, and nothing of it is lost when it is written again.
#[test]
fn samples_of_real_peers() {
    let path = testkit::workspace().join("vectors/a2e/peer-samples.ndjson");
    let samples = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in samples.lines() {
        let message = read(line);
        assert!(message.body.tag().is_some(), "{line}");
        let mut written = Vec::new();
        message.encode_to(&mut written, Charset::Ascii);
        let (whole, part) = (
            serde_json::from_slice(&written).unwrap(),
            serde_json::from_str(line).unwrap(),
        );
        assert!(contains(&whole, &part), "{line}\nbecame {whole}");
        count += 1;
    }
    assert!(count >= 16, "{count} samples");
}
