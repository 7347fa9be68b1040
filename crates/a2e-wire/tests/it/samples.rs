//! Every message and every struct, with all fields, with the required ones, and with each field
//! missing, null and of a wrong type.

use a2e_wire::catalogue;
use a2e_wire::{
    Cause, Charset, DecodeError, Decoder, Direction, ErrorCode, Invalid, Message, Object, Reason,
    Sender, Tag, Timestamp,
};
use serde_json::{Map, Value, json};

use crate::sample::{Extent, Samples, envelope, split};

fn rewrite(message: &Value) -> Result<Value, DecodeError> {
    let tag = Tag::ALL
        .iter()
        .find(|tag| message["type"] == tag.as_str())
        .unwrap();
    let sender = match tag.direction() {
        Direction::AgentToHost | Direction::Both => Sender::Agent,
        Direction::HostToAgent => Sender::Host,
    };
    let line = serde_json::to_vec(message).unwrap();
    let read = Decoder::default().decode(&line, sender, Timestamp::default())?;
    let mut written = Vec::new();
    read.clone()
        .into_owned()
        .encode_to(&mut written, Charset::Utf8);
    assert_eq!(
        Decoder::default().decode(&written, sender, Timestamp::default()),
        Ok::<Message<'_>, _>(read)
    );
    Ok(serde_json::from_slice(&written).unwrap())
}

#[test]
fn a_full_message_comes_back_as_it_was() {
    let samples = Samples::load();
    for message in samples.messages() {
        let sample = samples.message(message, Extent::All);
        assert_eq!(rewrite(&sample).unwrap(), sample);
    }
}

#[test]
fn a_bare_message_comes_back_with_every_default() {
    let samples = Samples::load();
    for message in samples.messages() {
        let sample = samples.message(message, Extent::Required);
        let written = rewrite(&sample).unwrap();
        for field in message["fields"].as_array().unwrap() {
            let name = field["name"].as_str().unwrap();
            check_absent(&message["type"], field, written.get(name), sample.get(name));
        }
        for name in ["a2e", "version", "id", "ts", "type"] {
            assert!(written.get(name).is_some(), "{message}");
        }
    }
}

/// What is written for a field that was not there.
fn check_absent(owner: &Value, field: &Value, written: Option<&Value>, given: Option<&Value>) {
    let where_ = format!("{owner} {}", field["name"]);
    if field["sparse"] == true {
        return assert_eq!(written, None, "{where_}");
    }
    let Some(written) = written else {
        panic!("{where_} is not written");
    };
    match field.get("default") {
        // Nested structs have defaults of their own; only lists and scalars are compared.
        _ if given.is_some() => {}
        Some(Value::String(made)) if made == "$now" => assert_eq!(*written, json!(0.0), "{where_}"),
        Some(Value::String(made)) if made.starts_with('$') => assert_eq!(written, "", "{where_}"),
        Some(Value::Object(empty)) if empty.is_empty() => assert!(written.is_object(), "{where_}"),
        Some(default) => assert_eq!(written, default, "{where_}"),
        // Required by the SDK, but taken when absent.
        None => assert!(written.is_null() || *written == json!({}) || written == ""),
    }
}

#[test]
fn each_field_of_a_message_missing_null_and_wrong() {
    let samples = Samples::load();
    let mut tried = 0;
    for message in samples.messages() {
        let full = samples.message(message, Extent::All);
        for field in message["fields"].as_array().unwrap() {
            let refused = |changed: Value| match rewrite(&changed) {
                Ok(_) => None,
                Err(error) => {
                    assert_eq!(error.code, ErrorCode::SchemaViolation);
                    assert_eq!(error.id.as_str(), "m1");
                    assert_eq!(error.type_name, full["type"]);
                    let Cause::Field(invalid) = *error.cause else {
                        panic!("{error}");
                    };
                    Some(invalid)
                }
            };
            check_mutations(full.as_object().unwrap(), field, &refused);
            tried += 1;
        }
    }
    assert!(tried > 300, "only {tried} fields");
}

#[test]
fn each_field_of_a_struct_missing_null_and_wrong() {
    let samples = Samples::load();
    for known in catalogue::structs() {
        let (_, object) = samples
            .structs()
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&known.name))
            .unwrap();
        let rewrite = |value: &Value| {
            let text = value.to_string();
            (known.rewrite)(&Object::parse(&text).unwrap())
        };
        let full = samples.object(object, Extent::All);
        let sample = Value::Object(full.clone());
        let written: Value = serde_json::from_slice(&rewrite(&sample).unwrap()).unwrap();
        assert_eq!(written, sample);
        let bare = Value::Object(samples.object(object, Extent::Required));
        rewrite(&bare).unwrap();
        for field in object["fields"].as_array().unwrap() {
            check_mutations(&full, field, &|changed| rewrite(&changed).err());
        }
    }
}

/// Takes a field out, makes it null, gives it each wrong type: the outcome is the catalogue's.
fn check_mutations(
    full: &Map<String, Value>,
    field: &Value,
    refused: &dyn Fn(Value) -> Option<Invalid>,
) {
    let name = field["name"].as_str().unwrap();
    let same_as = field["same_as"].as_str();
    let accepts: Vec<&str> = field["accepts"]
        .as_array()
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let mut without = full.clone();
    without.remove(name);
    let outcome = refused(Value::Object(without.clone()));
    if field["required"] == true && !accepts.contains(&"absent") {
        let invalid = outcome.unwrap();
        assert_eq!((invalid.path(), invalid.reason()), (name, &Reason::Missing));
    } else {
        assert_eq!(outcome, None, "{name} may be missing");
    }
    // A mirrored value is read once: the wrong one must be the only one.
    without.extend(same_as.map(|other| (other.into(), full[other].clone())));
    for (kind, value) in kinds() {
        let mut changed = without.clone();
        if let Some(other) = same_as {
            changed.remove(other);
        }
        changed.insert(name.into(), value.clone());
        let taken = is_taken(field, &accepts, kind, &value);
        let outcome = refused(Value::Object(changed));
        assert_eq!(
            outcome.is_none(),
            taken,
            "{name} ({}) as {value}: {outcome:?}",
            field["type"]
        );
        if let Some(invalid) = outcome {
            assert!(
                invalid.path().starts_with(name),
                "{invalid} does not name {name}"
            );
        }
    }
}

/// One value of each kind, none of which fits a struct with required fields.
fn kinds() -> Vec<(&'static str, Value)> {
    vec![
        ("null", Value::Null),
        ("bool", json!(true)),
        ("int", json!(1)),
        ("float", json!(1.5)),
        ("string", json!("s")),
        ("list", json!([])),
        ("object", json!({})),
        ("false", json!(false)),
    ]
}

/// Whether the catalogue lets a field have such a value.
fn is_taken(field: &Value, accepts: &[&str], kind: &str, value: &Value) -> bool {
    let wire_type = field["type"].as_str().unwrap();
    if field["sparse"] == true && kind == "null" {
        return true;
    }
    if accepts.contains(&"sdk_default") && *value == field["sdk_default"] {
        return true;
    }
    if Some(value) == field.get("default") {
        return true;
    }
    if field.get("range").is_some() && kind == "float" {
        return false;
    }
    accepts.iter().any(|also| fits(also, kind)) || fits(wire_type, kind)
}

fn fits(wire_type: &str, kind: &str) -> bool {
    match split(wire_type) {
        Some(("optional", inner)) => return kind == "null" || fits(inner, kind),
        Some(("list", _)) => return kind == "list",
        Some(("map", _)) => return kind == "object",
        Some(_) => return false,
        None => {}
    }
    match wire_type {
        "any" => true,
        "null" => kind == "null",
        "bool" => matches!(kind, "bool" | "false"),
        "int" => kind == "int",
        "float" => matches!(kind, "int" | "float"),
        "string" => kind == "string",
        // These have no required field, so an empty object will do.
        "object" | "EnvState" | "MCPServerConfig" | "RefinementProposal" | "SourceRef" => {
            kind == "object"
        }
        _ => false,
    }
}

#[test]
fn the_envelope_missing_null_and_wrong() {
    let full = || {
        let mut ping = envelope();
        ping.insert("type".into(), "ping".into());
        ping
    };
    for (name, may_be_absent) in [
        ("type", false),
        ("id", true),
        ("a2e", true),
        ("version", true),
        ("ts", true),
    ] {
        let mut without = full();
        without.remove(name);
        let line = Value::Object(without.clone()).to_string();
        let outcome = Decoder::default()
            .decode(line.as_bytes(), Sender::Agent, Timestamp::default())
            .map(drop);
        assert_eq!(outcome.is_ok(), may_be_absent, "{name}");
        for wrong in [json!(null), json!(true), json!([]), json!({})] {
            without.insert(name.into(), wrong);
            let line = Value::Object(without.clone()).to_string();
            let error = Decoder::default()
                .decode(line.as_bytes(), Sender::Agent, Timestamp::default())
                .unwrap_err();
            assert_eq!(error.code, ErrorCode::SchemaViolation, "{line}");
        }
    }
}
