//! The A2A wire against the profile's vectors and tables, and against hostile messages.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod error_codes;
mod hostile;
mod vectors;

use serde_json::Value;

/// A section of the vectors.
fn section(name: &str) -> Value {
    let mut vectors = testkit::vectors("a2a/a2a-vectors.json");
    let section = vectors[name].take();
    assert!(!section.is_null(), "there is no section {name}");
    section
}

/// The messages of the vectors, by type: the handshake, then those of a session.
fn messages() -> Vec<Value> {
    let handshake = section("handshake");
    let session = section("session");
    let mut all = handshake["messages"].as_array().unwrap().clone();
    for name in [
        "request",
        "response",
        "error",
        "encrypted_request",
        "encrypted_response",
    ] {
        all.push(session[name]["message"].clone());
    }
    let ids = r#""session_id":"QEFCQ0RFRkdISUpLTE1OTw","request_id":"7f1c0e0a-9a3b-4d7e-8f00-0123456789ab""#;
    for (kind, more) in [
        (
            "cancel",
            r#""target_request_id":"7f1c0e0a-9a3b-4d7e-8f00-0123456789ab","control_jws":"a.b.c""#,
        ),
        ("close", r#""control_jws":"a.b.c""#),
        (
            "response_chunk",
            r#""index":0,"data":{"text":"Ho"},"chain":"sha256:6e0d9cc26e4decbf5e513517c2993145f0ef4804465f380900f4c19dac771bcd""#,
        ),
    ] {
        all.push(serde_json::from_str(&format!("{{\"type\":\"{kind}\",{ids},{more}}}")).unwrap());
    }
    all
}

#[test]
fn corpus_of_a2a_message() {
    testkit::replay("a2a_message", a2a_wire::fuzzing::a2a_message);
}
