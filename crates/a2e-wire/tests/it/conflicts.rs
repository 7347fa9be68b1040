//! Where seed, documents and real peers disagree: what we take and what we send. The numbers are
//! those of `docs/deviations.md`.

use a2e_wire::messages::env::EnvStatePush;
use a2e_wire::{
    Body, Cause, Charset, DecodeError, Decoder, Envelope, ErrorCode, Limits, Message, Object,
    Sender, Tag, Timestamp, looks_like_request,
};
use serde_json::{Value, json};

fn decode(line: &str, sender: Sender) -> Result<Message<'_>, DecodeError> {
    Decoder::default().decode(line.as_bytes(), sender, Timestamp::default())
}

fn code(line: &str) -> ErrorCode<'static> {
    decode(line, Sender::Agent).unwrap_err().code
}

fn written(message: &Message<'_>) -> Value {
    let mut out = Vec::new();
    message.encode_to(&mut out, Charset::Utf8);
    serde_json::from_slice(&out).unwrap()
}

/// Proves H-5, M-6.
#[test]
fn row_1_and_24_version_keys() {
    for (keys, supported) in [
        ("", true),
        (r#""a2e":"1.0","#, true),
        (r#""version":"1.7","#, true),
        (r#""a2e":"1","version":"2.0","#, true),
        (r#""a2e":"2.0","version":"1.0","#, false),
        (r#""version":"2.0","#, false),
        (r#""a2e":"","#, false),
        (r#""a2e":"10.1","#, false),
    ] {
        let line = format!(r#"{{{keys}"type":"ping","id":"p"}}"#);
        match decode(&line, Sender::Agent) {
            Ok(_) => assert!(supported, "{line}"),
            Err(error) => {
                assert!(!supported, "{line}");
                assert_eq!(
                    (error.code, error.id.as_str()),
                    (ErrorCode::VersionMismatch, "p")
                );
            }
        }
    }
}

#[test]
fn row_2_and_3_base_keys() {
    let bare = decode(r#"{"type":"ping"}"#, Sender::Agent).unwrap();
    assert!(bare.envelope.id.is_empty());
    assert_eq!(
        code(r#"{"type":"ping","id":5}"#),
        ErrorCode::SchemaViolation
    );
    let now = Timestamp::from_unix_seconds(9.5).unwrap();
    let line =
        br#"{"type":"tool/call/resp","data":{"success":true,"tool_name":"t","duration_ms":1}}"#;
    let message = Decoder::default().decode(line, Sender::Host, now).unwrap();
    assert_eq!(message.envelope.ts, now);
    let Body::ToolCallResponse(response) = message.body else {
        panic!()
    };
    assert_eq!(response.created_at, now);
}

#[test]
fn row_4_accepted_spellings() {
    for tag in Tag::ALL {
        for alias in tag.aliases() {
            let sender = if tag.may_be_sent_by(Sender::Agent) {
                Sender::Agent
            } else {
                Sender::Host
            };
            assert_eq!(Tag::parse(alias, sender), Some(*tag), "{alias}");
        }
        for sender in [Sender::Agent, Sender::Host] {
            if tag.may_be_sent_by(sender) {
                assert_eq!(Tag::parse(tag.as_str(), sender), Some(*tag));
            }
        }
    }
    let line = r#"{"type":"planning/plan/list/req","id":"1"}"#;
    let message = decode(line, Sender::Agent).unwrap();
    assert_eq!(message.type_name(), "planning/plan/list/req");
    assert!(matches!(message.body, Body::PlanListRequest(_)));
}

#[test]
fn row_6_unknown_types_that_must_be_answered() {
    for (name, answered) in [
        ("env/reward", true),
        ("toolkit/install", true),
        ("x/y/req", true),
        ("x/y/resp", false),
        ("x/event", false),
        ("x/state_push", false),
        ("x/push", false),
        ("error", false),
        ("pong", false),
        ("SUBAGENT_NEW_RESP", false),
    ] {
        assert_eq!(looks_like_request(name), answered, "{name}");
    }
}

/// Proves M-16.
#[test]
fn row_9_and_10_codes_for_bad_lines() {
    for line in [
        "",
        "{",
        "nonsense",
        "[]",
        "\"x\"",
        "1",
        "null",
        "{\"type\":\"ping\",}",
        "{} {}",
    ] {
        assert_eq!(code(line), ErrorCode::ParseError, "{line}");
    }
    let bytes = b"{\"type\":\"ping\",\"id\":\"\xff\"}";
    let error = Decoder::default()
        .decode(bytes, Sender::Agent, Timestamp::default())
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::ParseError);
    assert_eq!(
        code("{\"type\":\"ping\",\"id\":\"\0\"}"),
        ErrorCode::ParseError
    );
    for line in [
        r#"{"id":"x"}"#,
        r#"{"type":7}"#,
        r#"{"type":"ping","ts":"now"}"#,
        r#"{"type":"tool/call/req","timeout":"5"}"#,
        r#"{"type":"tool/call/req","timeout":1.5}"#,
        r#"{"type":"tool/call/req","timeout":1e400}"#,
        r#"{"type":"ping","x":"\ud800"}"#,
    ] {
        assert_eq!(code(line), ErrorCode::SchemaViolation, "{line}");
    }
    assert!(decode(r#"{"type":"tool/call/req","timeout":5.0}"#, Sender::Agent).is_ok());
}

/// Duplicate names anywhere are refused before anyone sees the message, and the refusal can be
/// answered.
#[test]
fn duplicate_names_at_any_depth() {
    for line in [
        r#"{"type":"tool/call/req","id":"d","arguments":{"path":"a","path":"b"}}"#,
        r#"{"type":"tool/call/req","id":"d","arguments":[{"x":[{"y":1,"\u0079":2}]}]}"#,
        r#"{"type":"unknown/req","id":"d","any":{"k":1,"k":1}}"#,
        r#"{"type":"tool/call/req","id":"d","timeout":1,"timeout":2}"#,
    ] {
        let error = decode(line, Sender::Agent).unwrap_err();
        assert_eq!(
            (error.code, error.id.as_str()),
            (ErrorCode::SchemaViolation, "d"),
            "{line}"
        );
        assert!(matches!(*error.cause, Cause::Json(_)));
    }
    let twice = decode(r#"{"type":"ping","id":"a","id":"b"}"#, Sender::Agent).unwrap_err();
    assert_eq!(twice.id.as_str(), "");
}

#[test]
fn nesting_at_the_limit_and_past_it() {
    let line = |depth: usize| {
        let arguments = r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth);
        format!(r#"{{"type":"tool/call/req","id":"n","arguments":{arguments}}}"#)
    };
    let depth = Limits::default().depth;
    assert!(decode(&line(depth - 1), Sender::Agent).is_ok());
    let error = decode(&line(depth), Sender::Agent).unwrap_err();
    assert_eq!(
        (error.code, error.id.as_str()),
        (ErrorCode::SchemaViolation, "n")
    );
}

#[test]
fn errors_say_which_field_and_why() {
    for (line, text) in [
        (
            r#"{"type":"env/step/req","id":"1","episode_id":"e"}"#,
            "env/step/req: field `action` is missing",
        ),
        (
            r#"{"type":"memory/store/req","entries":[{"key":{},"content":1,"tier":"working"},{"key":7}]}"#,
            "memory/store/req: field `entries[1].key` must be an object or a string, not a number",
        ),
        (
            r#"{"type":"tool/call/req","arguments":null}"#,
            "tool/call/req: field `arguments` must be an object, not null",
        ),
        (
            r#"{"type":"learn/feedback/req","feedbacks":[{"polarity":"positive","score":1.01}]}"#,
            "learn/feedback/req: field `feedbacks[0].score` must be a score from -1 to 1, not 1.01",
        ),
        ("[1]", "a message is a JSON object"),
        ("{", "not JSON: the text ends too early at byte 1"),
        (
            r#"{"type":"x","a":{"b":1,"b":2}}"#,
            "x: duplicate member name \"b\" at byte 24",
        ),
    ] {
        assert_eq!(decode(line, Sender::Agent).unwrap_err().to_string(), text);
    }
}

#[test]
fn rows_98_and_160_a_response_type_that_is_a_request() {
    let plan = r#"{"type":"env/plan/resp","id":"1","episode_id":"e"}"#;
    let message = decode(plan, Sender::Agent).unwrap();
    assert!(matches!(message.body, Body::EnvPlanRequest(_)));
    let message = decode(r#"{"type":"env/plan/resp","req_id":"1"}"#, Sender::Host).unwrap();
    assert!(matches!(message.body, Body::EnvPlanResponse(_)));
    let sample = r#"{"type":"mcp/sample/req","id":"1","req_id":"7","content":{"text":"x"}}"#;
    let message = decode(sample, Sender::Agent).unwrap();
    assert_eq!(message.envelope.req_id.as_str(), "7");
    assert!(matches!(message.body, Body::McpSampleResponse(_)));
    assert!(matches!(
        decode(sample, Sender::Host).unwrap().body,
        Body::McpSampleRequest(_)
    ));
}

#[test]
fn row_97_the_answer_is_spelled_as_the_question() {
    for (asked, answer) in [
        ("env/space/req", "env/space/resp"),
        ("env/spaces/req", "env/spaces/resp"),
        ("mcp/roots/list/req", "mcp/roots/list/resp"),
        ("multi_agent/spawn/req", "multi_agent/spawn/resp"),
        ("skill/list", "skill/discover/resp"),
        ("toolkit/configure", "toolkit/configure/resp"),
    ] {
        let tag = Tag::parse(asked, Sender::Agent).unwrap();
        assert_eq!(tag.response_spelling(asked), Some(answer), "{asked}");
    }
    let envelope = Envelope {
        spelling: Some("env/spaces/resp".into()),
        ..Envelope::new("i", Timestamp::default())
    };
    let body = a2e_wire::messages::env::EnvSpaceResponse::new(Object::EMPTY, Object::EMPTY);
    assert_eq!(
        written(&Message::new(envelope, body))["type"],
        "env/spaces/resp"
    );
}

#[test]
fn row_94_a_push_says_its_delta_twice() {
    let push = EnvStatePush {
        delta: Object::parse(r#"{"count":1}"#).unwrap(),
        ..EnvStatePush::new("e".into(), 0, "Observation".into())
    };
    let value = written(&Message::new(
        Envelope::new("i", Timestamp::default()),
        push,
    ));
    assert_eq!(value["delta"], value["state_delta"]);
    for name in ["delta", "state_delta"] {
        let line = format!(
            r#"{{"type":"env/state/push","episode_id":"e","step_id":0,"event_type":"status","{name}":{{"n":2}}}}"#
        );
        let Body::EnvStatePush(push) = decode(&line, Sender::Host).unwrap().body else {
            panic!()
        };
        assert_eq!(push.delta.raw().as_str(), r#"{"n":2}"#);
    }
    // With both keys, the one that is not empty is read; else the catalogue's.
    for (members, expected) in [
        (r#""delta":{},"state_delta":{"n":2}"#, r#"{"n":2}"#),
        (r#""state_delta":{"n":2},"delta":{}"#, r#"{"n":2}"#),
        (r#""delta":{"n":1},"state_delta":{"n":2}"#, r#"{"n":1}"#),
        (r#""state_delta":{"n":2},"delta":{"n":1}"#, r#"{"n":1}"#),
        (r#""delta":{"n":1},"state_delta":{}"#, r#"{"n":1}"#),
    ] {
        let line = format!(
            r#"{{"type":"env/state/push","episode_id":"e","step_id":0,"event_type":"status",{members}}}"#
        );
        let Body::EnvStatePush(push) = decode(&line, Sender::Host).unwrap().body else {
            panic!()
        };
        assert_eq!(push.delta.raw().as_str(), expected, "{members}");
    }
}

/// Field by field: what is taken of a peer, and what it becomes when it is sent on.
#[test]
fn ill_typed_values_that_peers_send() {
    let path = testkit::workspace().join("vectors/a2e/ill-typed.ndjson");
    let cases = std::fs::read_to_string(path).unwrap();
    assert!(cases.lines().count() >= 17);
    for case in cases.lines() {
        let case: Value = serde_json::from_str(case).unwrap();
        let line = case["message"].to_string();
        let sender = if line.contains("/req\"") {
            Sender::Agent
        } else {
            Sender::Host
        };
        let message = decode(&line, sender).unwrap_or_else(|error| panic!("{error}: {case}"));
        let at = case["at"].as_str().unwrap();
        assert_eq!(
            written(&message).pointer(at),
            Some(&case["becomes"]),
            "{case}"
        );
    }
}

/// Row 107: an observation's other keys are kept and passed on, but never twice.
#[test]
fn row_107_other_members_of_an_observation() {
    let line = r#"{"type":"env/step/resp","req_id":"r","obs":{"episode_id":"e","info":{"x":1},"step_num":1,"state":{}}}"#;
    let mut message = decode(line, Sender::Host).unwrap();
    assert_eq!(written(&message)["obs"]["info"], json!({"x":1}));
    let Body::EnvStepResponse(response) = &mut message.body else {
        panic!()
    };
    response
        .obs
        .others
        .insert("step_num", Object::EMPTY.into_raw());
    assert_eq!(written(&message)["obs"]["step_num"], 1);
}

/// Rows 14 and 139: one line, whatever white space came in, and ASCII alone for event streams.
/// Proves M-3, M-4, M-17.
#[test]
fn what_is_written_is_one_compact_line() {
    let line = "{ \"type\" : \"tool/call/req\",\n \"id\":\"é\", \"arguments\" : { \"a b\" : [ 1,\r\n\t\"ü\u{2028}\" ] } }";
    let message = decode(line, Sender::Agent).unwrap();
    let mut out = Vec::new();
    message.encode_to(&mut out, Charset::Ascii);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r#""id":"\u00e9""#), "{text}");
    assert!(
        text.contains(r#""arguments":{"a b":[1,"\u00fc\u2028"]}"#),
        "{text}"
    );
    assert!(!text.contains(['\n', '\r', '\t']));
}

/// Conflict 77: a text goes out as an object, and stands for the same as the string.
#[test]
fn a_key_that_is_a_text_is_an_object() {
    use a2e_wire::lenient::MemoryKey;

    let key = MemoryKey::of_text("a \"b\"");
    assert_eq!(key.raw().as_str(), r#"{"key":"a \"b\""}"#);
    let text = |json: &str| {
        let raw = a2e_wire::Raw::parse(json, a2e_wire::OWN_VALUES).unwrap();
        MemoryKey::new(raw).unwrap().text()
    };
    assert_eq!(text(key.raw().as_str()).as_deref(), Some("a \"b\""));
    assert_eq!(text(r#""plain""#).as_deref(), Some("plain"));
    for other in [
        r#"{"key":1}"#,
        r#"{"key":"a","b":"c"}"#,
        r#"{"user":"a"}"#,
        "{}",
    ] {
        assert_eq!(text(other), None, "{other}");
    }
}
