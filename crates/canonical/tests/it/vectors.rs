//! Profile §1, vectors `jcs` and `json_reject`.

use canonical::Value;

fn cases(section: &str) -> Vec<serde_json::Value> {
    let mut vectors = testkit::vectors("a2a/a2a-vectors.json");
    let cases: Vec<_> = serde_json::from_value(vectors[section].take()).unwrap_or_default();
    assert!(cases.len() >= 10, "the vectors are all there");
    cases
}

#[test]
fn jcs() {
    for case in cases("jcs") {
        let input = case["input"].as_str().unwrap();
        let value = Value::parse(input.as_bytes()).unwrap();
        let canonical = String::from_utf8(value.to_canonical()).unwrap();
        assert_eq!(canonical, case["canonical"].as_str().unwrap(), "{input}");
    }
}

#[test]
fn json_reject() {
    for case in cases("json_reject") {
        let input = case["input"].as_str().unwrap();
        assert!(Value::parse(input.as_bytes()).is_err(), "{case}");
    }
}

#[test]
fn limits_of_the_profile() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Value::parse(nested(64).as_bytes()).is_ok());
    assert!(Value::parse(nested(65).as_bytes()).is_err());
    let list = |values: usize| format!("[{}1]", "1,".repeat(values - 2));
    assert!(Value::parse(list(20_000).as_bytes()).is_ok());
    assert!(Value::parse(list(20_001).as_bytes()).is_err());
}

#[test]
fn hashes_leave_out_only_the_named_members_of_the_top_level() {
    let full = Value::parse(br#"{"x":{"sig":1},"sig":"s","n":null}"#).unwrap();
    let without = Value::parse(br#"{"n":null,"x":{"sig":1}}"#).unwrap();
    let object = full.as_object().unwrap();
    assert_eq!(object.digest_without(&["sig"]), without.digest());
    assert_ne!(object.digest_without(&[]), without.digest());
}

#[test]
fn objects_are_joined_only_if_no_name_is_in_both() {
    let object = |text: &'static str| {
        Value::parse(text.as_bytes())
            .unwrap()
            .as_object()
            .unwrap()
            .clone()
    };
    let mut joined = object("{\"b\":1,\"a\":2}");
    assert_eq!(
        joined.append(object("{\"c\":3,\"a\":4}")),
        Err(canonical::SharedName)
    );
    assert_eq!(joined, object("{\"b\":1,\"a\":2}"));
    assert_eq!(joined.append(object("{\"d\":4,\"c\":3}")), Ok(()));
    assert_eq!(joined, object("{\"b\":1,\"a\":2,\"d\":4,\"c\":3}"));
}

#[test]
fn corpus_of_jcs() {
    testkit::replay("jcs", canonical::fuzzing::jcs);
}
