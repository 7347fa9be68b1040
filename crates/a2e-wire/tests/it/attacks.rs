//! What a hostile peer may try: each is refused, soon and with a short answer.

use a2e_wire::{
    Cause, DecodeError, Decoder, ErrorCode, MAX_ELEMENTS, MAX_ID, Message, Reason, Sender,
    Timestamp,
};

fn decode(line: &str) -> Result<Message<'_>, DecodeError> {
    Decoder::default().decode(line.as_bytes(), Sender::Host, Timestamp::default())
}

fn reason(line: &str) -> Reason {
    let error = decode(line).unwrap_err();
    assert_eq!(error.code, ErrorCode::SchemaViolation, "{error}");
    let Cause::Field(invalid) = *error.cause else {
        panic!("{error}");
    };
    invalid.reason().clone()
}

/// A list of parameters stands for a map: its names are compared as a map's are, and as fast.
#[test]
fn parameters_given_as_a_list() {
    let line = |names: &mut dyn Iterator<Item = String>| {
        let list: Vec<String> = names
            .map(|name| format!(r#"{{"name":"{name}","type":"","description":""}}"#))
            .collect();
        format!(
            r#"{{"type":"tool/list/resp","tools":[{{"name":"n","description":"","input_parameters":[{{"name":"o","type":"","description":"","properties":[{}]}}]}}]}}"#,
            list.join(",")
        )
    };
    assert!(decode(&line(&mut (0..50_000).map(|n| n.to_string()))).is_ok());
    let twice = line(&mut ["p", "q", "p"].into_iter().map(String::from));
    assert!(matches!(reason(&twice), Reason::Value { .. }));
}

/// Each element of a typed list takes a hundred times its size on the wire.
#[test]
fn lists_at_the_limit_and_past_it() {
    let line = |count: usize| {
        let list = vec!["{}"; count].join(",");
        format!(r#"{{"type":"learn/refinement/plan/resp","proposals":[{list}]}}"#)
    };
    assert!(decode(&line(MAX_ELEMENTS)).is_ok());
    assert!(matches!(
        reason(&line(MAX_ELEMENTS + 1)),
        Reason::Value { .. }
    ));
    let map = |count: usize| {
        let list: Vec<String> = (0..count).map(|n| format!("\"{n}\":\"\"")).collect();
        format!(
            r#"{{"type":"proc/spawn/req","env":{{{}}}}}"#,
            list.join(",")
        )
    };
    assert!(decode(&map(MAX_ELEMENTS)).is_ok());
    assert!(matches!(
        reason(&map(MAX_ELEMENTS + 1)),
        Reason::Value { .. }
    ));
}

#[test]
fn ids_at_the_limit_and_past_it() {
    for name in ["id", "req_id"] {
        let line =
            |length: usize| format!(r#"{{"type":"pong","{name}":"{}"}}"#, "x".repeat(length));
        assert!(decode(&line(MAX_ID)).is_ok());
        let long = line(MAX_ID + 1);
        let error = decode(&long).unwrap_err();
        assert_eq!(
            (error.code, error.id.as_str()),
            (ErrorCode::SchemaViolation, "")
        );
    }
}

/// An answer quotes what it refuses, but never at length.
#[test]
fn errors_stay_short() {
    let long = "\u{300}".repeat(100_000);
    for line in [
        format!(r#"{{"type":"ping","x":{{"{long}":1,"{long}":2}}}}"#),
        format!(r#"{{"type":"proc/spawn/req","env":{{"{long}":1}}}}"#),
        format!(r#"{{"type":"{long}","ts":"now"}}"#),
        format!(r#"{{"type":"ping","a2e":"{long}"}}"#),
        format!(
            r#"{{"type":"tool/call/req","timeout":{}}}"#,
            "1".repeat(300)
        ),
    ] {
        let text = decode(&line).unwrap_err().to_string();
        assert!(text.len() < 1000, "{} bytes", text.len());
    }
}

/// Messages inside messages have envelopes too; a wrong one is refused in any order of members.
#[test]
fn envelopes_inside_messages() {
    let line = |event: &str| {
        format!(
            r#"{{"type":"tool/call/resp","data":{{"success":true,"tool_name":"t","duration_ms":1,"events":[{event}]}}}}"#
        )
    };
    for event in [
        r#"{"type":"tool/event","id":5}"#,
        r#"{"id":5,"type":"tool/event"}"#,
        r#"{"type":"chain/event"}"#,
        r#"{"id":5,"type":"chain/event","req_id":"R","ts":7}"#,
        r#"{"id":"a","req_id":"R","type":null,"kind":"log"}"#,
        r#"{"ts":"req_id","id":"X","req_id":"R"}"#,
    ] {
        assert!(decode(&line(event)).is_err(), "{event}");
    }
    for event in [
        r#"{"kind":"log"}"#,
        r#"{"eid":"theirs","kind":"log","type":"tool/event"}"#,
    ] {
        assert!(decode(&line(event)).is_ok(), "{event}");
    }
}

/// A member that is read under two names is checked under both, in either order.
#[test]
fn wrong_values_under_another_name() {
    for line in [
        r#"{"type":"toolkit/configure/req","schema":5,"config":{}}"#,
        r#"{"type":"toolkit/configure/req","config":{},"schema":5}"#,
    ] {
        let decoded =
            Decoder::default().decode(line.as_bytes(), Sender::Agent, Timestamp::default());
        assert_eq!(decoded.unwrap_err().code, ErrorCode::SchemaViolation);
    }
}

#[test]
fn what_is_no_object_is_no_message_whatever_else_is_wrong() {
    for line in [
        r#"[{"a":1,"a":2}]"#,
        r#""\ud800""#,
        "1e400",
        &"[".repeat(65),
        " [] ",
    ] {
        assert_eq!(
            decode(line).unwrap_err().code,
            ErrorCode::ParseError,
            "{line}"
        );
    }
}

#[test]
fn another_version_is_said_before_its_fields_are_judged() {
    for line in [
        r#"{"a2e":"2.0","type":"ping","id":5}"#,
        r#"{"version":"3","id":"q"}"#,
    ] {
        assert_eq!(
            decode(line).unwrap_err().code,
            ErrorCode::VersionMismatch,
            "{line}"
        );
    }
}

/// `serde_json` reads such members as something else, so a rule could see another value.
#[test]
fn names_of_serde_json_itself() {
    let line = r#"{"type":"tool/call/req","id":"s","arguments":{"args":{"$serde_json::private::RawValue":"[1]"}}}"#;
    let error = decode(line).unwrap_err();
    assert_eq!(
        (error.code, error.id.as_str()),
        (ErrorCode::SchemaViolation, "s")
    );
}

#[test]
fn times_to_live_are_not_negative() {
    for ttl in ["-1", "-0.5"] {
        let line = format!(
            r#"{{"type":"memory/store/req","entries":[{{"key":{{}},"content":1,"tier":"working","ttl":{ttl}}}]}}"#
        );
        assert!(matches!(reason(&line), Reason::Value { .. }));
    }
}
