//! `frith call` at a host that knows only the documents.

use serde_json::{Value, json};

use crate::frith;

const HOST: &str = r#"
import json, sys, time

def say(**message):
    base = {"a2e": "1.0", "id": str(time.monotonic_ns()), "ts": time.time()}
    print(json.dumps({**base, **message}), flush=True)

for line in sys.stdin:
    m = json.loads(line)
    kind, id = m["type"], m["id"]
    if kind == "handshake/req":
        caps = [{"capability": c, "enabled": True, "metadata": {}} for c in m["agent_caps"]]
        say(type="handshake/resp", req_id=id, session_id="S", accepted_caps=caps, max_parallel=4, ok=True, reason="")
    elif kind == "tool/call/req":
        say(type="invoke/event", req_id=id, kind="status", data={"message": "on it"}, seq=0)
        say(type="own/step", req_id=id, number=7)
        if m["tool_name"] == "good":
            data = {"success": True, "data": {"x": 1}, "error": None, "tool_name": "good", "duration_ms": 1}
            say(type="tool/call/resp", req_id=id, data=data)
        elif m["tool_name"] == "failed":
            say(type="error", req_id=id, code="tool_error", message="it broke", retryable=True,
                detail={"at": "once"}, capability_name="tools")
        elif m["tool_name"] == "invalid":
            say(type="tool/call/resp", req_id=id, data="none")
    elif kind == "shutdown":
        break
"#;

/// Calls a tool of such a host.
fn call(tool: &str, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("host.py");
    std::fs::write(&script, HOST).unwrap();
    let host = format!("cmd:python3 {}", script.display());
    frith(&[&["call", tool, "--host", &host], arguments].concat(), "")
}

/// Document 002, `"invoke/event"`: the base event, and events of types beside the catalogue.
#[test]
fn base_events_and_custom_events_are_shown() {
    let (status, out, events) = call("good", &["--events"]);
    assert_eq!((status, &*out), (0, "{\n  \"x\": 1\n}\n"), "{events}");
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(lines.len(), 2, "{events}");
    assert_eq!(lines[0], "   0 status on it");
    assert!(
        lines[1].contains("own/step") && lines[1].contains(r#""number":7"#),
        "{events}"
    );
    let (_, _, events) = call("good", &["--events", "--json"]);
    let first: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        json!({"seq": 0, "kind": "status", "data": {"message": "on it"}})
    );
}

/// Document 003, "A2EClientError": seven fields.
#[test]
fn errors_for_programs_have_all_seven_fields() {
    let (status, out, _) = call("failed", &["--json"]);
    assert_eq!(status, 1);
    let error: Value = serde_json::from_str(&out).unwrap();
    for (name, value) in [
        ("success", json!(false)),
        ("code", json!("tool_error")),
        ("message", json!("it broke")),
        ("retryable", json!(true)),
        ("detail", json!({"at": "once"})),
        ("capability_name", json!("tools")),
    ] {
        assert_eq!(error[name], value, "{error}");
    }
    let events = error["events"].as_array().unwrap();
    assert_eq!(events.len(), 2, "{error}");
    assert!(
        events
            .iter()
            .all(|event| event["req_id"] == error["req_id"]),
        "{error}"
    );
}

/// Document 002, "Encoding Rules": an invalid message is a `schema_violation`, and no reason to wait.
#[test]
fn an_invalid_response_is_reported_at_once() {
    let (status, _, error) = call("invalid", &["--timeout", "36000"]);
    assert_eq!(status, 1);
    let text = "schema_violation: the host's response is not valid: ";
    assert!(error.contains(text), "{error}");
    let (_, out, _) = call("invalid", &["--timeout", "36000", "--json"]);
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(error["code"], "schema_violation");
    assert_eq!(error["events"].as_array().unwrap().len(), 2, "{error}");
}

/// Document 003, "RPC": `timeout` is in seconds.
#[test]
fn a_timeout_is_as_long_as_it_says() {
    let (status, _, error) = call("silent", &["--timeout", "1"]);
    assert_eq!(status, 1);
    assert!(error.contains("no response came within 1s"), "{error}");
    let (_, out, _) = call("silent", &["--timeout", "1", "--json"]);
    let error: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&error["code"], &error["retryable"]),
        (&json!("timeout"), &json!(true))
    );
}
