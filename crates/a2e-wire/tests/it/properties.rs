//! The fuzz targets over their corpora, and what holds for any message and any stream.

use a2e_wire::fuzzing;
use proptest::prelude::*;

#[test]
fn corpus_of_a2e_lines() {
    testkit::replay("a2e_lines", fuzzing::a2e_lines);
}

#[test]
fn corpus_of_a2e_message() {
    testkit::replay("a2e_message", fuzzing::a2e_message);
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(".{0,4}", inner, 0..4)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Any JSON in any field of any message is either taken, and then written and read the same,
    /// or refused.
    #[test]
    fn any_value_in_any_field(tag in prop::sample::select(a2e_wire::Tag::ALL), pick in any::<prop::sample::Index>(), value in any_json()) {
        let samples = crate::sample::Samples::load();
        let message = samples.messages().iter().find(|m| m["type"] == tag.as_str()).unwrap();
        let mut sample = samples.message(message, crate::sample::Extent::All);
        let object = sample.as_object_mut().unwrap();
        let names: Vec<String> = object.keys().filter(|name| *name != "type").cloned().collect();
        object.insert(pick.get(&names).clone(), value);
        fuzzing::a2e_message(sample.to_string().as_bytes());
    }

    #[test]
    fn any_stream(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::a2e_lines(&bytes);
    }
}
