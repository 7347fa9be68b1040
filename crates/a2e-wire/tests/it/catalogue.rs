//! The catalogue (`vectors/a2e/a2e-wire.json`) and the code say the same, in both directions.

use std::collections::BTreeSet;

use a2e_wire::record::{Field, Shape};
use a2e_wire::{
    CAPABILITY_ALIASES, CODE_MEANINGS, Direction, MessageKind, Namespace, RETIRED_CODES, Retry, Tag,
};
use serde_json::Value;

use crate::registry;

fn catalogue() -> Value {
    testkit::vectors("a2e/a2e-wire.json")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value) -> BTreeSet<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

#[test]
fn every_message_is_declared_as_the_catalogue_says() {
    let catalogue = catalogue();
    let messages = list(&catalogue["messages"]);
    assert_eq!(messages.len(), 136);
    let tags: BTreeSet<&str> = Tag::ALL.iter().map(|tag| tag.as_str()).collect();
    let types: BTreeSet<&str> = messages.iter().filter_map(|m| m["type"].as_str()).collect();
    assert_eq!(tags, types);
    for tag in Tag::ALL {
        let message = messages.iter().find(|m| m["type"] == tag.as_str()).unwrap();
        check_message(*tag, message);
        let own: Vec<&Value> = list(&message["fields"])
            .iter()
            .filter(|field| field["name"] != "req_id")
            .collect();
        assert_eq!(
            tag.carries_req_id(),
            own.len() < list(&message["fields"]).len(),
            "{tag:?}"
        );
        check_fields(tag.as_str(), &tag.shape(), &own);
        // The decoder hands the envelope's members to nobody else.
        for name in ["type", "id", "a2e", "version", "ts", "req_id", "eid"] {
            assert!(
                tag.shape().fields.iter().all(|field| field.name != name),
                "{tag:?}"
            );
        }
    }
}

fn check_message(tag: Tag, message: &Value) {
    let direction = match tag.direction() {
        Direction::AgentToHost => "agent->host",
        Direction::HostToAgent => "host->agent",
        Direction::Both => "both",
    };
    let kind = match tag.kind() {
        MessageKind::Request => "req",
        MessageKind::Response => "resp",
        MessageKind::Event | MessageKind::Notice => "event",
        MessageKind::Push => "push",
    };
    let capability = tag.namespace().capability();
    assert_eq!(message["direction"], direction, "{tag:?}");
    assert_eq!(message["kind"], kind, "{tag:?}");
    assert_eq!(message["namespace"], tag.namespace().as_str(), "{tag:?}");
    assert_eq!(
        message["capability"].as_str(),
        capability.as_ref().map(|capability| capability.as_str()),
        "{tag:?}"
    );
    assert_eq!(
        message["response_type"].as_str(),
        tag.response().map(Tag::as_str),
        "{tag:?}"
    );
    assert_eq!(
        words(&message["accept_types"]),
        tag.aliases().iter().copied().collect(),
        "{tag:?}"
    );
}

/// Fields by name, type, default, enumeration and every leniency.
fn check_fields(owner: &str, shape: &Shape, fields: &[&Value]) {
    let mut known: Vec<String> = Vec::new();
    for field in &shape.fields {
        known.push(field.name.into());
        known.extend(field.mirror.map(String::from));
        let Some(said) = fields.iter().find(|said| said["name"] == field.name) else {
            panic!("{owner}.{} is not in the catalogue", field.name);
        };
        check_field(&format!("{owner}.{}", field.name), field, said);
    }
    let said: Vec<&str> = fields.iter().filter_map(|f| f["name"].as_str()).collect();
    let missing: Vec<_> = said
        .iter()
        .filter(|name| !known.contains(&(**name).into()))
        .collect();
    assert!(missing.is_empty(), "{owner} lacks {missing:?}");
    assert_eq!(said.len(), known.len(), "{owner}");
}

fn check_field(name: &str, field: &Field, said: &Value) {
    // An environment's state is an object of any content.
    let said_type = said["type"].as_str().unwrap().replace("EnvState", "object");
    assert!(
        field.wire_type.eq_ignore_ascii_case(&said_type),
        "{name} is {}, the catalogue says {said_type}",
        field.wire_type
    );
    // `error.code` has its own table.
    let enumeration = field.enumeration.filter(|known| *known != "ErrorCode");
    assert_eq!(said["enum"].as_str(), enumeration, "{name}");
    assert_eq!(said["sparse"] == true, field.sparse, "{name}");
    assert_eq!(
        words(&said["accept_names"]),
        field.aliases.iter().copied().collect(),
        "{name}"
    );
    if field.sparse {
        return;
    }
    let may_be_absent = said["required"] == false || words(&said["accepts"]).contains("absent");
    assert_eq!(field.default.is_some(), may_be_absent, "{name}");
    if let (Some(default), Some(said_default)) = (field.default, said.get("default")) {
        assert_eq!(default_value(default), *said_default, "{name}");
    }
    let unset = field.unset.map(default_value);
    match &said["accepts"] {
        accepts if words(accepts).contains("null") => {
            assert_eq!(unset, Some(Value::Null), "{name}")
        }
        _ => assert_eq!(unset.as_ref(), said.get("sdk_default"), "{name}"),
    }
}

/// `(now)` in a declaration is `$now` in the catalogue.
fn default_value(declared: &str) -> Value {
    match declared.strip_prefix('(') {
        Some(made) => format!("${}", made.trim_end_matches(')'))
            .replace("b_unix_ns", "b_<unix_ns>")
            .into(),
        None => serde_json::from_str(declared).unwrap(),
    }
}

#[test]
fn every_struct_is_declared_as_the_catalogue_says() {
    let catalogue = catalogue();
    let said = catalogue["structs"].as_object().unwrap();
    let structs = registry::structs();
    // 47 of the catalogue and ours; EnvState has no fields of its own and is an `Object`.
    assert_eq!(said.len(), 48);
    assert_eq!(structs.len(), said.len() - 1);
    for known in structs {
        let (name, object) = said
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&known.name))
            .unwrap_or_else(|| panic!("{} is not in the catalogue", known.name));
        let fields: Vec<&Value> = list(&object["fields"]).iter().collect();
        check_fields(name, &known.shape, &fields);
        assert_eq!(
            known.shape.keeps_others,
            object["extra_fields"] == "kept",
            "{name}"
        );
    }
}

#[test]
fn every_enumeration_has_the_values_of_the_catalogue() {
    let catalogue = catalogue();
    let said = catalogue["enums"].as_object().unwrap();
    let known = registry::enumerations();
    for (name, object) in said {
        // The columns of a new plan are a default, not a type.
        if name == "PlanColumnsDefault" {
            let columns: Vec<&str> = list(&object["values"])
                .iter()
                .filter_map(Value::as_str)
                .collect();
            assert_eq!(columns, a2e_wire::messages::planning::DEFAULT_COLUMNS);
            continue;
        }
        let enumeration = known
            .iter()
            .find(|enumeration| enumeration.name == name)
            .unwrap_or_else(|| panic!("{name} is not in the code"));
        let mut values = words(&object["values"]);
        values.extend(words(&object["frith_values"]));
        // Any other word there is the id of a node.
        values.remove("<node_id>");
        assert_eq!(
            enumeration.values.iter().copied().collect::<BTreeSet<_>>(),
            values,
            "{name}"
        );
    }
    // All but the columns, and the error codes, which have a table of their own.
    assert_eq!(known.len(), said.len());
}

#[test]
fn every_error_code_is_in_the_table() {
    let catalogue = catalogue();
    let mut said = BTreeSet::new();
    for (namespace, codes) in catalogue["error_codes"].as_object().unwrap() {
        for code in list(codes) {
            let name = code["code"].as_str().unwrap();
            if code["in_sdk_enum"] == false
                && (code["when"].as_str().unwrap().contains("do not emit")
                    || code["when"]
                        .as_str()
                        .unwrap()
                        .contains("use memory_not_found"))
            {
                assert!(
                    RETIRED_CODES.iter().any(|(retired, _)| *retired == name),
                    "{name}"
                );
                continue;
            }
            said.insert(format!("{namespace} {name} {}", code["retryable"]));
        }
    }
    let known: BTreeSet<String> = CODE_MEANINGS
        .iter()
        .map(|meaning| {
            let retryable = match meaning.retry {
                Retry::Yes => "true",
                Retry::No => "false",
                Retry::Depends => "null",
            };
            format!(
                "{} {} {retryable}",
                meaning.namespace.as_str(),
                meaning.code
            )
        })
        .collect();
    assert_eq!(known, said);
    assert_eq!(RETIRED_CODES.len(), 3);
}

#[test]
fn capability_aliases_and_namespaces_are_those_of_the_catalogue() {
    let catalogue = catalogue();
    let said: BTreeSet<(String, String)> = catalogue["capability_aliases"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(name, aliases)| {
            words(aliases)
                .into_iter()
                .map(move |alias| (alias.into(), name.clone()))
        })
        .collect();
    let known: BTreeSet<(String, String)> = CAPABILITY_ALIASES
        .iter()
        .map(|(alias, capability)| ((*alias).into(), capability.to_string()))
        .collect();
    assert_eq!(known, said);
    for namespace in Namespace::ALL {
        let object = &catalogue["namespaces"][namespace.as_str()];
        let count = Tag::ALL
            .iter()
            .filter(|tag| tag.namespace() == *namespace)
            .count();
        assert_eq!(object["messages"], count, "{namespace:?}");
    }
}

#[test]
fn the_envelope_has_the_base_fields() {
    let catalogue = catalogue();
    let names: Vec<&str> = list(&catalogue["base"]["fields"])
        .iter()
        .filter_map(|field| field["name"].as_str())
        .collect();
    assert_eq!(names, ["type", "id", "a2e", "version", "ts", "eid"]);
}

/// The registry of this test is complete: nothing is declared that it does not list.
#[test]
fn nothing_is_declared_beside_the_registry() {
    let folder = testkit::workspace().join("crates/a2e-wire/src");
    let (mut records, mut enums) = (0, 0);
    let files = std::fs::read_dir(folder.join("messages")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.extend(["capability.rs", "error_code.rs"].map(|name| folder.join(name)));
    for path in paths {
        let source = std::fs::read_to_string(path).unwrap();
        records += source.matches("\nrecord! {").count();
        enums += source.matches("\nopen_enum! {").count();
    }
    assert_eq!(records, Tag::ALL.len() + registry::structs().len());
    assert_eq!(enums, registry::enumerations().len());
}
