//! Threats of sections A and C that a message alone can carry.

use a2a_wire::{ErrorCode, Message, Reason, Received, WireError, limits};
use serde_json::{Value, json};

use crate::{messages, section};

fn refused(text: &[u8]) -> WireError {
    Received::parse(text, limits::HANDSHAKE).unwrap_err()
}

fn code_of(message: &Value) -> Option<(ErrorCode, Option<Reason>)> {
    let text = serde_json::to_vec(message).unwrap();
    let error = Received::parse(&text, usize::MAX).err()?;
    Some((error.code(), error.reason()))
}

#[test]
fn threat_56_duplicate_members() {
    let request = section("session")["request"]["message"].to_string();
    for (member, double) in [
        ("\"intent\":", "\"intent\":{},\"intent\":"),
        ("\"intent\":", "\"\\u0069ntent\":{},\"intent\":"),
        ("\"inputs\":{", "\"inputs\":{\"a\":1,\"\\u0061\":2,"),
        ("\"type\":", "\"type\":\"request\",\"type\":"),
    ] {
        let error = refused(request.replacen(member, double, 1).as_bytes());
        assert_eq!(error.code(), ErrorCode::InvalidMessage);
        assert_eq!(error.reason(), Some(Reason::DuplicateMember), "{double}");
    }
}

#[test]
fn threat_59_numbers_that_are_none() {
    for number in [
        "9007199254740992",
        "1e400",
        "NaN",
        "Infinity",
        "01",
        "+1",
        ".5",
        "-",
    ] {
        let text = format!("{{\"type\":\"proof\",\"x\":{number}}}");
        assert_eq!(
            refused(text.as_bytes()).reason(),
            Some(Reason::Malformed),
            "{number}"
        );
    }
}

#[test]
fn threat_60_a_time_is_written_as_an_integer() {
    let mut hello = messages().swap_remove(0);
    hello["timestamp"] = json!("@");
    for (time, found) in [
        ("1.0", "must be written as an integer"),
        ("1e9", "must be written as an integer"),
        ("\"1\"", "must be an integer, not a string"),
        ("true", "must be an integer, not a boolean"),
        ("null", "must be an integer, not null"),
    ] {
        let text = hello.to_string().replace("\"@\"", time);
        let error = refused(text.as_bytes());
        assert_eq!(error.to_string(), format!("`timestamp` {found}"));
        assert_eq!(error.code(), ErrorCode::InvalidMessage);
    }
}

#[test]
fn threat_61_not_one_object_of_json() {
    let proof = messages().swap_remove(2).to_string();
    for text in [
        b"".as_slice(),
        b" ",
        b"[]",
        b"\"proof\"",
        b"null",
        b"7",
        b"\xff{}",
        b"{\"a\":\"\\ud800\"}",
        format!("\u{feff}{proof}").as_bytes(),
        format!("{proof}x").as_bytes(),
        format!("{proof}{proof}").as_bytes(),
    ] {
        assert_eq!(refused(text).code(), ErrorCode::InvalidMessage);
    }
}

#[test]
fn threat_62_depth_and_number_of_values() {
    let with = |value: String| {
        format!("{{\"type\":\"proof\",\"agent_did\":\"did:x\",\"proof_jws\":\"j\",\"x\":{value}}}")
    };
    let takes = |value: String| Received::parse(with(value).as_bytes(), usize::MAX).is_ok();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(takes(nested(63)) && !takes(nested(64)));
    assert!(!takes("[".repeat(1_000_000)));
    // The object, its three other members and the list count too.
    let list = |values: usize| format!("[{}1]", "1,".repeat(values - 1));
    assert!(takes(list(19_995)) && !takes(list(19_996)));
    let name = "n".repeat(1 << 20);
    assert_eq!(
        Received::parse(
            with(format!("{{\"{name}\":1}}")).as_bytes(),
            limits::HANDSHAKE
        )
        .unwrap_err()
        .code(),
        ErrorCode::PayloadTooLarge
    );
}

/// Profile §1: 128 KiB for a handshake message, at the limit and one past it.
#[test]
fn a_handshake_message_has_128_kib() {
    let proof = "{\"type\":\"proof\",\"agent_did\":\"did:x\",\"proof_jws\":\"j\",\"x\":\"\"}";
    let padded =
        |size: usize| proof.replace("\"\"", &format!("\"{}\"", "x".repeat(size - proof.len())));
    assert!(Received::parse(padded(limits::HANDSHAKE).as_bytes(), usize::MAX).is_ok());
    assert_eq!(
        Received::parse(padded(limits::HANDSHAKE + 1).as_bytes(), usize::MAX),
        Err(WireError::TooLarge {
            size: limits::HANDSHAKE + 1,
            limit: limits::HANDSHAKE
        })
    );
}

/// Threat 64: each member of each message missing, null, of another type, over-long. Null is as if it
/// were missing.
#[test]
fn threat_64_every_member_of_every_message() {
    let optional = [
        "supported_versions",
        "user_agent",
        "extensions",
        "protocol_version",
        "session_jws",
        "request_jws",
        "response_jws",
        "error_jws",
        "control_jws",
        "intent",
        "result",
        "enc",
        "details",
        "error_message",
        "target_request_id",
        "data",
        "chain",
        "stream",
        "session_id",
        "request_id",
    ];
    let free = ["intent", "result", "data"];
    for message in messages() {
        let kind = message["type"].as_str().unwrap().to_owned();
        for name in message.as_object().unwrap().keys() {
            let field = |problem: Value| {
                let mut changed = message.clone();
                changed[name] = problem;
                code_of(&changed)
            };
            let mut without = message.clone();
            without.as_object_mut().unwrap().remove(name);
            if !optional.contains(&name.as_str()) {
                assert!(code_of(&without).is_some(), "{kind} without {name}");
            }
            let is_needed = code_of(&without).is_some();
            assert_eq!(field(Value::Null).is_some(), is_needed, "{kind}.{name}");
            for wrong in [
                json!(1.5),
                json!(-1),
                json!(true),
                json!("é".repeat(200_000)),
            ] {
                let same_type =
                    (name == "created_at" || name == "expires_at" || name == "timestamp")
                        && wrong == json!(-1);
                // A baseline peer's is as long as its message.
                let long = name == "request_jws" && wrong.is_string();
                if long || free.contains(&name.as_str()) || same_type {
                    continue;
                }
                let (code, reason) =
                    field(wrong.clone()).unwrap_or_else(|| panic!("{kind}.{name}"));
                assert_eq!(code, ErrorCode::InvalidMessage, "{kind}.{name}");
                assert!(
                    matches!(reason, Some(Reason::BadField | Reason::UnknownType)),
                    "{kind}.{name}"
                );
            }
        }
    }
}

/// Threats 64 and 107: what is wrong inside an intent is INVALID_INTENT, and named.
#[test]
fn threat_64_members_of_an_intent() {
    let mut request = section("session")["request"]["message"].clone();
    let intent = request["intent"].clone();
    let mut read = |intent: &Value| {
        request["intent"] = intent.clone();
        let tree = canonical::Value::from_serialize(&request).unwrap();
        let received = Received::from_tree(tree).unwrap();
        let Message::Request(request) = received.message() else {
            panic!("{received:?}");
        };
        request.read_intent()
    };
    assert!(read(&intent).is_ok());
    for (pointer, wrong, text) in [
        (
            "/goal",
            json!(7),
            "`intent.goal` must be a string, not a number",
        ),
        (
            "/goal",
            Value::Null,
            "`intent.goal` must be a string, not null",
        ),
        (
            "/domain",
            json!([]),
            "`intent.domain` must be a string, not an array",
        ),
        (
            "/inputs",
            json!("x"),
            "`intent.inputs` must be an object, not a string",
        ),
        (
            "/intent_id",
            json!("x"),
            "`intent.intent_id` must be a lower-case UUID of version 4",
        ),
        (
            "/constraints",
            json!([]),
            "`intent.constraints` must be an object, not an array",
        ),
        (
            "/constraints/timeout_ms",
            json!(0),
            "`intent.constraints.timeout_ms` must be 1 or more",
        ),
        (
            "/constraints/timeout_ms",
            json!(-1),
            "`intent.constraints.timeout_ms` must be 0 or more",
        ),
        (
            "/constraints/timeout_ms",
            json!(1.5),
            "`intent.constraints.timeout_ms` must be written as an integer",
        ),
        (
            "/constraints/timeout_ms",
            json!("30000"),
            "`intent.constraints.timeout_ms` must be an integer, not a string",
        ),
    ] {
        let mut changed = intent.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        let error = read(&changed).unwrap_err();
        assert_eq!(error.to_string(), text);
        assert_eq!(error.code(), ErrorCode::InvalidIntent);
    }
    let mut goal = intent;
    goal.as_object_mut().unwrap().remove("goal");
    assert_eq!(
        read(&goal).unwrap_err().to_string(),
        "`intent.goal` is missing"
    );
}

/// An optional member of an intent that is null is as if it were missing.
#[test]
fn null_members_of_an_intent() {
    let intent = section("session")["request"]["message"]["intent"].clone();
    let read = |intent: &Value| {
        let tree = canonical::Value::from_serialize(intent).unwrap();
        a2a_wire::Request::read_intent_of(Some(&tree)).unwrap()
    };
    let goal = json!({ "goal": intent["goal"] });
    let mut nulls = intent;
    for name in ["domain", "inputs", "intent_id", "constraints"] {
        nulls[name] = Value::Null;
    }
    assert_eq!(read(&nulls), read(&goal));
}

/// Threats 19, 21 and 40.
#[test]
fn threats_19_21_40_unknown_types_versions_and_key_agreements() {
    let error = refused(b"{\"type\":\"hullo\"}");
    assert_eq!(error.reason(), Some(Reason::UnknownType));
    assert_eq!(refused(b"{\"type\":7}").reason(), Some(Reason::BadField));
    assert_eq!(refused(b"{}").reason(), Some(Reason::MissingField));
    assert!(code_of(&json!({"type": "close", "jsonrpc": "2.0"})).is_some());
    let mut hello = messages().swap_remove(0);
    hello["extensions"]["policy_request"] = json!({});
    for (pointer, wrong) in [
        ("/protocol_version", json!(1.0)),
        ("/supported_versions", json!([1])),
        ("/extensions/kx/alg", json!("P-256")),
        ("/extensions/kx/key", json!("AAAA")),
        ("/extensions/kx", json!("X25519")),
        ("/extensions/features", json!("stream")),
        ("/extensions/policy_request", json!({"rate_limit": "many"})),
        ("/public_keys", json!({})),
        ("/public_keys/0/kid", json!("a\"b")),
    ] {
        let mut changed = hello.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        let found = code_of(&changed);
        assert_eq!(
            found,
            Some((ErrorCode::InvalidMessage, Some(Reason::BadField))),
            "{pointer}"
        );
    }
}

/// Threat 27, as far as types go: ranges and patterns are the `policy` crate's.
#[test]
fn threat_27_members_of_a_policy_have_types() {
    let policy = messages().swap_remove(3);
    for (name, wrong) in [
        ("rate_limit", json!(-1)),
        ("rate_limit", json!("1000")),
        ("rate_period", json!([])),
        ("max_payload_size", json!(1.5)),
        ("allowed_intents", json!("*")),
        ("blocked_intents", json!([1])),
        ("data_retention", json!(24)),
        ("require_encryption", json!("yes")),
        ("extensions", json!([])),
    ] {
        let mut changed = policy.clone();
        changed["policy"][name] = wrong;
        assert!(code_of(&changed).is_some(), "{name}");
    }
    let mut changed = policy;
    changed["policy"]["extensions"] = json!({"x": "y".repeat(limits::POLICY)});
    let error = Received::parse(changed.to_string().as_bytes(), usize::MAX).unwrap_err();
    assert_eq!(error.to_string(), "`policy` must be at most 16 KiB");
}

/// Lists with a type have 1024 elements, at the limit and one past it.
#[test]
fn lists_are_limited() {
    let mut hello = messages().swap_remove(0);
    let mut takes = |count: usize| {
        hello["supported_versions"] = json!(vec!["1.0"; count]);
        code_of(&hello).is_none()
    };
    assert!(takes(1024) && !takes(1025));
}

/// Threat 53: a private part is noticed, and its value is nowhere.
#[test]
fn threat_53_a_private_part_is_not_kept() {
    let mut hello = messages().swap_remove(0);
    hello["public_keys"][0]["d"] = json!("SECRET-MARKER");
    let text = hello.to_string();
    let received = Received::parse(text.as_bytes(), usize::MAX).unwrap();
    assert!(!format!("{received:?}").contains("SECRET-MARKER"));
    assert!(format!("{received:?}").contains("d: Some(PrivatePart)"));
}
