//! The catalogue (`vectors/a2e/a2e-wire.json`, with our own messages in `frith-wire.json`) and the code
//! agree, in both directions.

use std::collections::BTreeSet;

use a2e_wire::catalogue;
use a2e_wire::record::{Default, Field, Shape};
use a2e_wire::{
    CAPABILITY_ALIASES, CODE_MEANINGS, Direction, MessageKind, Namespace, RETIRED_CODES, Retry, Tag,
};
use serde_json::Value;

fn specified() -> Value {
    testkit::a2e_catalogue()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn words(value: &Value) -> BTreeSet<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

/// Proves M-10, M-20.
#[test]
fn every_message_is_declared_as_the_catalogue_says() {
    let specified = specified();
    let messages = list(&specified["messages"]);
    assert_eq!(messages.len(), 160);
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
    assert_eq!(
        said["enum"].as_str(),
        enumeration,
        "`enum` of {name}, catalogue and code"
    );
    assert_eq!(
        said["sparse"] == true,
        field.sparse,
        "`sparse` of {name}, catalogue and code"
    );
    assert_eq!(
        words(&said["accept_names"]),
        field.aliases.iter().copied().collect(),
        "`accept_names` of {name}, catalogue and code"
    );
    if field.sparse {
        return;
    }
    let may_be_absent = said["required"] == false || words(&said["accepts"]).contains("absent");
    assert_eq!(
        field.default.is_some(),
        may_be_absent,
        "{name} has a default, may be absent (`required`, `accepts`)"
    );
    if let (Some(default), Some(said_default)) = (field.default, said.get("default")) {
        assert_eq!(
            default_value(default),
            *said_default,
            "`default` of {name}, code and catalogue"
        );
    }
    let unset = field
        .unset
        .map(|literal| serde_json::from_str(literal).unwrap());
    match &said["accepts"] {
        accepts if words(accepts).contains("null") => {
            assert_eq!(unset, Some(Value::Null), "{name}")
        }
        _ => assert_eq!(unset.as_ref(), said.get("sdk_default"), "{name}"),
    }
}

/// What a sender makes up stands in the catalogue as `$now`, `$hex8` and so on.
fn default_value(default: Default) -> Value {
    match default {
        Default::Made(name) => format!("${name}")
            .replace("b_unix_ns", "b_<unix_ns>")
            .into(),
        Default::Literal(literal) => serde_json::from_str(literal).unwrap(),
    }
}

#[test]
fn every_struct_is_declared_as_the_catalogue_says() {
    let specified = specified();
    let said = specified["structs"].as_object().unwrap();
    let structs = catalogue::structs();
    // With ours; EnvState has no fields of its own and is an `Object`.
    assert_eq!(said.len(), 53);
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
    let specified = specified();
    let said = specified["enums"].as_object().unwrap();
    let known = catalogue::enumerations();
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
    let specified = specified();
    let mut said = BTreeSet::new();
    for (namespace, codes) in specified["error_codes"].as_object().unwrap() {
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
    let specified = specified();
    let said: BTreeSet<(String, String)> = specified["capability_aliases"]
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
        let object = &specified["namespaces"][namespace.as_str()];
        let count = Tag::ALL
            .iter()
            .filter(|tag| tag.namespace() == *namespace)
            .count();
        assert_eq!(object["messages"], count, "{namespace:?}");
    }
}

#[test]
fn the_envelope_has_the_base_fields() {
    let specified = specified();
    let names: Vec<&str> = list(&specified["base"]["fields"])
        .iter()
        .filter_map(|field| field["name"].as_str())
        .collect();
    assert_eq!(names, ["type", "id", "a2e", "version", "ts", "eid"]);
}

/// The lists of [`a2e_wire::catalogue`] are complete: nothing is declared beside them.
#[test]
fn nothing_is_declared_beside_the_lists() {
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
    assert_eq!(records, Tag::ALL.len() + catalogue::structs().len());
    assert_eq!(enums, catalogue::enumerations().len());
}

/// What we add to the specification is marked as ours, and is no more than this.
#[test]
fn our_messages_are_marked() {
    for message in list(&testkit::vectors("a2e/frith-wire.json")["messages"]) {
        assert_eq!(message["origin"], "frith", "{message}");
    }
}

#[test]
fn extensions_are_marked() {
    fn collect(value: &Value, owner: &str, found: &mut BTreeSet<String>) {
        if value["origin"] == "frith" {
            let name = value["name"].as_str().unwrap_or_default();
            found.insert(format!("{owner} {name}").trim().into());
        }
        let named = value["type"]
            .as_str()
            .filter(|_| value["fields"].is_array());
        for (key, inner) in value.as_object().into_iter().flatten() {
            let own = if inner.is_object() { key } else { owner };
            let owner = named.unwrap_or(own);
            collect(inner, owner, found);
        }
        for inner in list(value) {
            collect(inner, owner, found);
        }
    }
    let mut found = BTreeSet::new();
    collect(&testkit::vectors("a2e/a2e-wire.json"), "", &mut found);
    let expected = [
        "base eid",
        "handshake/req resume",
        "handshake/resp resumed",
        "handshake/resp missed",
        "Resume",
        "ToolDefinition input_schema",
        "ToolDefinition source",
        "toolkit/configure/resp error",
        "toolkit/configure/resp toolkit",
        "MemoryEntry weight",
        "memory/init/resp tiers",
        "memory/retrieve/req after",
        "memory/retrieve/resp more",
        "memory/retrieve/resp next",
        "proc/status/resp exit_code",
        "proc/status/resp pid",
        "proc/status/resp procs",
        "ChainNode backoff_ms",
        "ChainNode deps",
        "ChainNode idempotent",
        "ComponentPerformanceRecord decayed_score",
        "ComponentPerformanceRecord weight",
        "planning/plan/create/resp error",
        "planning/task/add/resp error",
        "planning/task/add/resp blocked_by",
        "planning/task/update title",
        "planning/task/update description",
        "planning/task/update metadata",
        "planning/task/update position",
        "planning/task/update seen_version",
        "planning/task/update clear",
        "planning/task/update/resp error",
        "planning/task/update/resp task",
        "planning/task/list task_id",
        "PlanSummary description",
        "PlanSummary tasks",
        "PlanSummary created_at",
        "TaskSummary deps",
        "TaskSummary blocked_by",
        "TaskSummary position",
        "TaskSummary version",
        "TaskSummary description",
        "TaskSummary metadata",
        "TaskSummary created_at",
        "TaskSummary updated_at",
        "TaskSummary history",
        "TaskChange",
        "BoardTask blocked_by",
        "BoardTask version",
        "ChainNode retries",
    ];
    assert_eq!(found, expected.map(String::from).into_iter().collect());
}
