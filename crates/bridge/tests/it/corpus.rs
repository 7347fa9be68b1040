//! What fuzzing found, and what it began with, stays good.

#[test]
fn corpus_of_bridge_mapping() {
    testkit::replay("bridge_mapping", bridge::fuzzing::bridge_mapping);
}
